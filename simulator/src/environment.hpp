// One environment: a path, its buffers and counters, and what a controller gets to see of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "events.hpp"
#include "path.hpp"
#include "stages.hpp"

namespace edt {

enum class Model { fluid, events };

// One stage:    concurrency, throughput_bps, loss.
// Three stages: concurrency x3, throughput_bps x3, sender_free_bytes, receiver_free_bytes, loss.
constexpr int observation_size(int stages) {
  return stages == 1 ? 3 : 9;
}
inline constexpr int longest_observation = observation_size(3);

// Unmeasured truth of the last interval: throughput_bps of each stage, [free bytes of both buffers,] loss,
// capacity_bps, competing_streams.
constexpr int metrics_size(int stages) {
  return stages == 1 ? 4 : 8;
}

// Since the last reset: bytes read, sent and written; now: bytes in the sender's and in the receiver's buffer.
inline constexpr int account_size = 5;

class Environment {
 public:
  Environment(const Scenario& scenario, Random random);

  void reset(int stages);
  void replace(const Scenario& scenario) { path_ = Path(scenario); }
  void reseed(Random random) { random_ = random; }

  // First half of an interval: what was decided `decision_delay` intervals ago comes into force.
  // `action` holds `stages` numbers.
  template <int stages>
  void decide(const std::int32_t* action);

  // Second half: one interval passes, while `others` foreign streams use the same link. An empty span is not written.
  template <int stages>
  void advance(Model model, double others, TaskQueue& queue, std::span<double> metrics);

  // What the controller sees: the measurement of `measurement_delay` intervals ago.
  void observe(std::span<double> observation) const;
  void account(std::span<double> account) const;

  int network_concurrency() const { return applied_[network]; }
  int most_tasks() const;

 private:
  using Concurrency = std::array<int, stage_count>;
  using Observation = std::array<double, longest_observation>;

  // The truth of one interval.
  struct Interval {
    PerStage throughput_bps;
    double loss;
    double capacity_bps;
    double competing_streams;
  };

  Interval run_one(Model model, double others, TaskQueue& queue);
  Interval run_three(Model model, double others, TaskQueue& queue);
  Tasks tasks() const;
  template <int stages>
  void measure(const Interval& interval);
  double measured(double truth, double before);
  template <int stages>
  void write_observation(Observation& observation) const;
  void write_metrics(const Interval& interval, int stages, std::span<double> metrics) const;

  Path path_;
  Random random_;
  Buffers buffers_{};
  Moved total_{};
  Concurrency applied_{};
  Interval smoothed_{};
  std::int64_t intervals_ = 0;
  std::int64_t newest_observation_ = 0;
  std::array<Concurrency, longest_delay> decisions_{};
  std::array<Observation, longest_delay + 1> observations_{};
};

}  // namespace edt
