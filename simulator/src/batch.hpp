// Thousands of environments that step together, on arrays that the caller owns.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "environment.hpp"
#include "plain.hpp"
#include "team.hpp"

namespace edt {

// How many environments, of which kind, on how many threads.
struct BatchOptions {
  Model model;
  int stages;  // 1: network alone; 3: read, network, write
  std::uint64_t seed;
  int threads;  // at most; results do not depend on it
  int agents;   // that many consecutive environments share one link
};

// Every span is flat, environment after environment. Calls from several threads take turns.
class Batch {
 public:
  // Takes scenarios that `fault` found nothing wrong with; their number is a multiple of `options.agents`.
  Batch(std::span<const Scenario> scenarios, const BatchOptions& options);

  int environments() const { return static_cast<int>(environments_.size()); }
  const BatchOptions& options() const { return options_; }

  // Begins new episodes where `mask` is not 0 (everywhere without one), with new scenarios where some are given.
  // Random streams go on, so that episodes differ; `reseed` starts them again.
  void reset(std::span<const std::uint8_t> mask, std::span<const Scenario> scenarios);
  void reseed(std::uint64_t seed);

  // Advances the environments where `mask` is not 0 (all without one) by one interval. `actions` is [environments,
  // stages]; observations and metrics as in `layout.hpp`; an empty span is not written. Nothing is allocated.
  void step(std::span<const std::int32_t> actions, std::span<double> observations, std::span<double> metrics,
            std::span<const std::uint8_t> mask);

  void observe(std::span<double> observations);
  void account(std::span<double> accounts);

  // Threads that a step uses now: few where there is little to do.
  int members() const;

 private:
  void begin(std::size_t environment);
  template <int stages>
  void step_slice(const StepArrays& arrays, int member, int members);
  template <int stages>
  void step_group(const StepArrays& arrays, std::size_t first, TaskQueue& queue);
  template <int stages>
  void observe_all(std::span<double> observations) const;
  void reserve_queues();

  BatchOptions options_;
  std::vector<Environment> environments_;
  PlainEnvironments plain_;        // those of `environments_` that can be stepped faster there
  std::vector<TaskQueue> queues_;  // one a thread
  std::mutex turn_;
  Team team_;
};

}  // namespace edt
