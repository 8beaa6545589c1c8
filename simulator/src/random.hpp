// Random numbers of one environment: SplitMix64 [Steele, Lea, Flood 2014], eight bytes of state, the same on every
// machine.
#pragma once

#include <cstdint>

namespace edt {

class Random {
 public:
  Random() = default;

  // Streams of different indices are unrelated: the index is mixed before it meets the seed.
  Random(std::uint64_t seed, std::uint64_t index) : state_(mix(seed ^ mix(index + increment))) {}

  std::uint64_t bits() { return mix(state_ += increment); }

  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }

  // Mean 0, variance 1, within +-3.47: the scaled sum of four 16-bit uniforms, close to normal and without a logarithm.
  double bell() {
    const std::uint64_t draw = bits();
    const std::uint64_t sum = (draw & 0xffff) + ((draw >> 16) & 0xffff) + ((draw >> 32) & 0xffff) + (draw >> 48);
    return (static_cast<double>(sum) - mean_of_sum) * inverse_deviation_of_sum;
  }

 private:
  static constexpr std::uint64_t increment = 0x9e3779b97f4a7c15;
  static constexpr double mean_of_sum = 131070.0;                              // 4 * (2^16 - 1) / 2
  static constexpr double inverse_deviation_of_sum = 1.0 / 37837.22723720648;  // sqrt(4 * (2^32 - 1) / 12)

  static std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }

  std::uint64_t state_ = 0;
};

}  // namespace edt
