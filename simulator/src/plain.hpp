// The fast way through the fluid model of one stage, for environments without clock, memory or chance.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "layout.hpp"
#include "path.hpp"

namespace edt {

// Environments whose rate follows from their concurrency alone, in blocks of arrays instead of one by one: a step costs
// nanoseconds and a hundred bytes of cache. Bit for bit what `Environment` answers, because both evaluate `law.hpp`.
class PlainEnvironments {
 public:
  // Room for that many environments, none of which is held yet.
  explicit PlainEnvironments(std::size_t environments);

  // Takes an environment in, or begins its next episode. Its path is steady and was just reset.
  void put(std::size_t environment, const Path& path);
  void remove(std::size_t environment);

  bool holds(std::size_t environment) const {
    return environment < environments_ && block_of(environment).held[environment % lanes];
  }
  std::size_t held() const { return held_; }
  std::size_t blocks() const { return blocks_.size(); }

  // Advances the held environments of one block by one interval. Blocks may be stepped side by side.
  void step(std::size_t block, const StepArrays& arrays);

  void observe(std::size_t environment, std::span<double> observation) const;
  void account(std::size_t environment, std::span<double> account) const;

 private:
  static constexpr std::size_t lanes = 64;

  using Numbers = std::array<double, lanes>;
  using Counts = std::array<std::int32_t, lanes>;

  struct Rates {
    Numbers bps;
    Numbers loss;
  };

  // A lane that holds nothing has the constants of a harmless path, so that all lanes are computed alike.
  struct Block {
    Block();

    void set_law(std::size_t lane, const StageLaw& law, const LossLaw& loss_law);
    Rates rates() const;

    Numbers stream_bps;
    Numbers capacity_bps;
    Numbers knee;
    Numbers knee_scale;
    Numbers contention;
    Numbers contention_onset;
    Numbers random_loss;
    Numbers congestion_loss;
    Numbers interval_s;
    Counts most;
    Counts applied;
    Numbers throughput_bps;
    Numbers loss;
    Numbers moved_bytes;
    std::array<bool, lanes> held;
  };

  const Block& block_of(std::size_t environment) const { return blocks_[environment / lanes]; }
  void finish_lane(std::size_t environment, const Rates& rates, const StepArrays& arrays);

  std::size_t environments_;
  std::vector<Block> blocks_;
  std::size_t held_ = 0;
};

}  // namespace edt
