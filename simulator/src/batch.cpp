// Steps the environments of a batch, each thread its own slice.
#include "batch.hpp"

#include <algorithm>
#include <functional>

namespace edt {
namespace {

// One environment's part of a flat array; empty where the array is.
template <typename T>
std::span<T> row(std::span<T> flat, std::size_t environment, std::size_t size) {
  return flat.empty() ? flat : flat.subspan(environment * size, size);
}

bool chosen(std::span<const std::uint8_t> mask, std::size_t environment) {
  return mask.empty() || mask[environment] != 0;
}

}  // namespace

Batch::Batch(std::span<const Scenario> scenarios, const BatchOptions& options)
    : options_(options), queues_(static_cast<std::size_t>(options.threads)), team_(options.threads) {
  environments_.reserve(scenarios.size());
  for (const Scenario& scenario : scenarios) {
    environments_.emplace_back(scenario, Random(options.seed, environments_.size()));
    environments_.back().reset(options.stages);
  }
  reserve_queues();
}

void Batch::reset(std::span<const std::uint8_t> mask, std::span<const Scenario> scenarios) {
  const std::lock_guard lock(turn_);
  for (std::size_t index = 0; index < environments_.size(); ++index) {
    if (!chosen(mask, index)) {
      continue;
    }
    if (!scenarios.empty()) {
      environments_[index].replace(scenarios[index]);
    }
    environments_[index].reset(options_.stages);
  }
  if (!scenarios.empty()) {
    reserve_queues();
  }
}

void Batch::reseed(std::uint64_t seed) {
  const std::lock_guard lock(turn_);
  for (std::size_t index = 0; index < environments_.size(); ++index) {
    environments_[index].reseed(Random(seed, index));
  }
}

void Batch::step(std::span<const std::int32_t> actions, std::span<double> observations, std::span<double> metrics,
                 std::span<const std::uint8_t> mask) {
  const std::lock_guard lock(turn_);
  const Step step{actions, observations, metrics, mask};
  const auto work = [&](int member) { step_slice(step, member); };
  team_.run(std::ref(work));
}

void Batch::observe(std::span<double> observations) {
  const std::lock_guard lock(turn_);
  const auto size = static_cast<std::size_t>(observation_size(options_.stages));
  for (std::size_t index = 0; index < environments_.size(); ++index) {
    environments_[index].observe(row(observations, index, size));
  }
}

void Batch::account(std::span<double> accounts) {
  const std::lock_guard lock(turn_);
  for (std::size_t index = 0; index < environments_.size(); ++index) {
    environments_[index].account(row(accounts, index, account_size));
  }
}

void Batch::step_slice(const Step& step, int member) {
  const auto agents = static_cast<std::size_t>(options_.agents);
  const std::size_t groups = environments_.size() / agents;
  const auto members = static_cast<std::size_t>(team_.members());
  const auto slice = static_cast<std::size_t>(member);
  for (std::size_t group = groups * slice / members; group < groups * (slice + 1) / members; ++group) {
    if (options_.stages == 1) {
      step_group<1>(step, group * agents, queues_[slice]);
    } else {
      step_group<stage_count>(step, group * agents, queues_[slice]);
    }
  }
}

// All agents of a link decide before any of them moves, so that each meets the streams the others have now.
template <int stages>
void Batch::step_group(const Step& step, std::size_t first, TaskQueue& queue) {
  const std::size_t end = first + static_cast<std::size_t>(options_.agents);
  int streams = 0;
  for (std::size_t index = first; index < end; ++index) {
    if (chosen(step.mask, index)) {
      environments_[index].decide<stages>(&step.actions[index * stages]);
    }
    streams += environments_[index].network_concurrency();
  }
  const auto observed = static_cast<std::size_t>(observation_size(stages));
  const auto measured = static_cast<std::size_t>(metrics_size(stages));
  for (std::size_t index = first; index < end; ++index) {
    if (!chosen(step.mask, index)) {
      continue;
    }
    Environment& environment = environments_[index];
    const int others = streams - environment.network_concurrency();
    environment.advance<stages>(options_.model, others, queue, row(step.metrics, index, measured));
    if (!step.observations.empty()) {
      environment.observe(row(step.observations, index, observed));
    }
  }
}

void Batch::reserve_queues() {
  if (options_.model == Model::fluid) {
    return;
  }
  int most = 0;
  for (const Environment& environment : environments_) {
    most = std::max(most, environment.most_tasks());
  }
  for (TaskQueue& queue : queues_) {
    queue.reserve(static_cast<std::size_t>(most));
  }
}

}  // namespace edt
