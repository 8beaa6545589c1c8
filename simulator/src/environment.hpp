// One environment: a path, its buffers and counters, and what a controller gets to see of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "events.hpp"
#include "layout.hpp"
#include "path.hpp"
#include "stages.hpp"

namespace edt {

enum class Model { fluid, events };

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
  template <int stages>
  void observe(std::span<double> observation) const;
  void account(std::span<double> account) const;

  // Whether `PlainEnvironments` may run it in the fluid model of one stage. Asked right after a reset.
  bool is_plain() const;

  const Path& path() const { return path_; }
  int network_concurrency() const { return applied_[network]; }
  int most_tasks() const;

 private:
  using Concurrency = std::array<int, stage_count>;
  using LateObservation = std::array<double, observation_size(stage_count)>;

  // The truth of one interval.
  struct Interval {
    PerStage throughput_bps;
    double loss;
    double network_capacity_bps;
    double competing_streams;
  };

  struct Measured {
    PerStage throughput_bps;
    double loss;
  };

  Interval run_one(Model model, double others, TaskQueue& queue);
  Interval run_three(Model model, double others, TaskQueue& queue);
  Tasks tasks() const;
  template <int stages>
  void measure(const Interval& interval);
  double measured(double truth, double before);
  template <int stages>
  void write_observation(std::span<double> observation) const;
  template <int stages>
  void write_metrics(const Interval& interval, std::span<double> metrics) const;

  Path path_;
  Random random_;
  Buffers buffers_{};
  Moved total_{};
  Concurrency applied_{};
  Measured smoothed_{};
  std::int64_t intervals_ = 0;
  // Rings, empty where nothing is late: decisions not yet in force, and observations from the newest to the one seen.
  std::vector<Concurrency> decisions_;
  std::vector<LateObservation> observations_;
  std::size_t newest_observation_ = 0;
};

}  // namespace edt
