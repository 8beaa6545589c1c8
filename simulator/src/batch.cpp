// Steps the environments of a batch, each thread its own slice.
#include "batch.hpp"

#include <algorithm>
#include <functional>

namespace edt {
namespace {

// Work of one step, roughly, in nanoseconds; it decides how many threads are worth waking, never what they compute.
constexpr double plain_ns = 5.0;
constexpr double least_slice_ns = 20e3;  // waking a thread and waiting for it takes about as long

double environment_ns(const BatchOptions& options) {
  if (options.model == Model::events) {
    return options.stages == 1 ? 5e3 : 50e3;
  }
  return options.stages == 1 ? 40.0 : 100.0;
}

// Plain environments know neither buffers nor chunks nor other agents.
std::size_t room_for_plain(std::size_t environments, const BatchOptions& options) {
  return options.model == Model::fluid && options.stages == 1 && options.agents == 1 ? environments : 0;
}

struct Slice {
  std::size_t first;
  std::size_t end;
};

Slice slice_of(std::size_t parts, int member, int members) {
  const auto index = static_cast<std::size_t>(member);
  const auto count = static_cast<std::size_t>(members);
  return {parts * index / count, parts * (index + 1) / count};
}

}  // namespace

Batch::Batch(std::span<const Scenario> scenarios, const BatchOptions& options)
    : options_(options),
      plain_(room_for_plain(scenarios.size(), options)),
      queues_(static_cast<std::size_t>(options.threads)),
      team_(options.threads) {
  environments_.reserve(scenarios.size());
  for (std::size_t index = 0; index < scenarios.size(); ++index) {
    environments_.emplace_back(scenarios[index], Random(options.seed, index));
    begin(index);
  }
  reserve_queues();
}

void Batch::reset(std::span<const std::uint8_t> mask, std::span<const Scenario> scenarios) {
  const std::lock_guard lock(turn_);
  for (std::size_t index = 0; index < environments_.size(); ++index) {
    if (!mask.empty() && mask[index] == 0) {
      continue;
    }
    if (!scenarios.empty()) {
      environments_[index].replace(scenarios[index]);
    }
    begin(index);
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
  const StepArrays arrays{actions, observations, metrics, mask};
  const int active = members();
  const auto work = [&](int member) {
    if (options_.stages == 1) {
      step_slice<1>(arrays, member, active);
    } else {
      step_slice<stage_count>(arrays, member, active);
    }
  };
  team_.run(active, std::ref(work));
}

void Batch::observe(std::span<double> observations) {
  const std::lock_guard lock(turn_);
  if (options_.stages == 1) {
    observe_all<1>(observations);
  } else {
    observe_all<stage_count>(observations);
  }
}

void Batch::account(std::span<double> accounts) {
  const std::lock_guard lock(turn_);
  for (std::size_t index = 0; index < environments_.size(); ++index) {
    const std::span<double> row = row_of(accounts, index, account_size);
    if (plain_.holds(index)) {
      plain_.account(index, row);
    } else {
      environments_[index].account(row);
    }
  }
}

int Batch::members() const {
  const auto plain = static_cast<double>(plain_.held());
  const double others = static_cast<double>(environments_.size()) - plain;
  const double worth = (plain * plain_ns + others * environment_ns(options_)) / least_slice_ns;
  return static_cast<int>(std::clamp(worth, 1.0, static_cast<double>(options_.threads)));
}

void Batch::begin(std::size_t environment) {
  Environment& begun = environments_[environment];
  begun.reset(options_.stages);
  if (plain_.blocks() > 0 && begun.is_plain()) {
    plain_.put(environment, begun.path());
  } else {
    plain_.remove(environment);
  }
}

template <int stages>
void Batch::step_slice(const StepArrays& arrays, int member, int members) {
  const Slice blocks = slice_of(plain_.blocks(), member, members);
  for (std::size_t block = blocks.first; block < blocks.end; ++block) {
    plain_.step(block, arrays);
  }
  if (plain_.held() == environments_.size()) {
    return;
  }
  const auto agents = static_cast<std::size_t>(options_.agents);
  const Slice groups = slice_of(environments_.size() / agents, member, members);
  for (std::size_t group = groups.first; group < groups.end; ++group) {
    if (!plain_.holds(group * agents)) {
      step_group<stages>(arrays, group * agents, queues_[static_cast<std::size_t>(member)]);
    }
  }
}

// All agents of a link decide before any of them moves, so that each meets the streams the others have now.
template <int stages>
void Batch::step_group(const StepArrays& arrays, std::size_t first, TaskQueue& queue) {
  const std::size_t end = first + static_cast<std::size_t>(options_.agents);
  int streams = 0;
  for (std::size_t index = first; index < end; ++index) {
    if (arrays.steps(index)) {
      environments_[index].decide<stages>(&arrays.actions[index * stages]);
    }
    streams += environments_[index].network_concurrency();
  }
  for (std::size_t index = first; index < end; ++index) {
    if (!arrays.steps(index)) {
      continue;
    }
    Environment& environment = environments_[index];
    const int others = streams - environment.network_concurrency();
    environment.advance<stages>(options_.model, others, queue, row_of(arrays.metrics, index, metrics_size(stages)));
    if (!arrays.observations.empty()) {
      environment.observe<stages>(row_of(arrays.observations, index, observation_size(stages)));
    }
  }
}

template <int stages>
void Batch::observe_all(std::span<double> observations) const {
  for (std::size_t index = 0; index < environments_.size(); ++index) {
    const std::span<double> row = row_of(observations, index, observation_size(stages));
    if (plain_.holds(index)) {
      plain_.observe(index, row);
    } else {
      environments_[index].observe<stages>(row);
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
