// Runs batches of every kind under a sanitizer, checks the account of bytes, and that threads change nothing. Exit
// status 0: all well.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <thread>
#include <vector>

#include "batch.hpp"

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
// So many that a step is worth several threads, plain environments among them.
constexpr std::size_t fluid_environments = 3072;
constexpr std::size_t event_environments = 48;
constexpr int intervals = 12;

edt::Scenario scenario(std::size_t index) {
  const double scale = 1.0 + static_cast<double>(index % 7);
  edt::Scenario made{};
  made.interval_s = 1.0;
  made.rtt_s = 0.02 * scale;
  made.stream_bps = {80e6 * scale, 160e6, 200e6};
  made.capacity_bps = {1e9, 1e9, 1e9};
  made.window_bytes = index % 2 == 0 ? never : 1e6;
  made.buffer_bytes = {1e6 * scale, 3e6};
  made.chunk_bytes = 1e6;
  made.retry_s = 0.01;
  made.max_concurrency = 20.0 + scale;
  made.initial_concurrency = {1.0, 2.0, 3.0};
  made.file_bytes = 1e7;
  made.file_overhead_s = {0.001, 0.0, 0.002};
  made.knee = 0.05;
  made.contention = {0.0, 0.1, 0.0};
  made.contention_onset = 1.0;
  made.random_loss = 0.001;
  made.congestion_loss = 0.02;
  made.ramp_round_trips = 5.0;
  made.background_deviation_bps = 1e8;
  made.background_correlation_s = 5.0;
  made.change_s = {2.0, 4.0, 6.0, never};
  made.change_capacity.fill({1.0, 0.5, 1.0});
  made.change_stream.fill({1.0, 1.0, 2.0});
  made.change_period_s = 8.0;
  made.competitor_start_s = {1.0, 3.0, never};
  made.competitor_stop_s = {5.0, never, never};
  made.competitor_streams = {2.0, 3.0, 0.0};
  made.cliff_streams = 25.0;
  made.cliff_factor = 0.2;
  made.cliff_s = 2.0;
  made.noise = 0.1;
  made.outlier_probability = 0.1;
  made.outlier_factor = 0.5;
  made.measurement_lag = 0.2;
  made.measurement_delay = static_cast<double>(index % (edt::longest_delay + 1));
  made.decision_delay = static_cast<double>((index + 3) % (edt::longest_delay + 1));
  return made;
}

// The same without all that needs a clock, a memory or chance.
edt::Scenario plain_scenario(std::size_t index) {
  edt::Scenario made = scenario(index);
  made.ramp_round_trips = 0.0;
  made.background_deviation_bps = 0.0;
  made.change_s.fill(never);
  made.competitor_start_s.fill(never);
  made.competitor_stop_s.fill(never);
  made.cliff_streams = never;
  made.noise = 0.0;
  made.outlier_probability = 0.0;
  made.measurement_lag = 0.0;
  made.measurement_delay = 0.0;
  made.decision_delay = 0.0;
  return made;
}

std::vector<edt::Scenario> scenarios(std::size_t environments) {
  std::vector<edt::Scenario> made;
  for (std::size_t index = 0; index < environments; ++index) {
    made.push_back(index % 3 == 1 ? plain_scenario(index) : scenario(index));
  }
  return made;
}

struct Trace {
  std::vector<double> observations;
  std::vector<double> metrics;
  std::vector<double> account;
  bool operator==(const Trace&) const = default;
};

// A few intervals, a masked step and a masked reset among them.
Trace run(edt::Batch& batch) {
  const auto environments = static_cast<std::size_t>(batch.environments());
  const auto stages = static_cast<std::size_t>(batch.options().stages);
  Trace trace;
  trace.observations.resize(environments * static_cast<std::size_t>(edt::observation_size(batch.options().stages)));
  trace.metrics.resize(environments * static_cast<std::size_t>(edt::metrics_size(batch.options().stages)));
  trace.account.resize(environments * edt::account_size);
  std::vector<std::int32_t> actions(environments * stages);
  std::vector<std::uint8_t> mask(environments);
  std::vector<edt::Scenario> fresh = scenarios(environments);
  std::rotate(fresh.begin(), fresh.begin() + 1, fresh.end());  // plain ones become others, and others plain
  for (int interval = 0; interval < intervals; ++interval) {
    for (std::size_t index = 0; index < actions.size(); ++index) {
      actions[index] = static_cast<std::int32_t>((index * 7 + static_cast<std::size_t>(interval) * 5) % 30);
    }
    for (std::size_t index = 0; index < environments; ++index) {
      mask[index] = (index + static_cast<std::size_t>(interval)) % 3 != 0;
    }
    batch.step(actions, trace.observations, interval % 2 == 0 ? std::span<double>(trace.metrics) : std::span<double>(),
               mask);
    if (interval == 6) {
      batch.reset(mask, fresh);
    }
  }
  batch.observe(trace.observations);
  batch.account(trace.account);
  return trace;
}

bool balanced(const Trace& trace) {
  for (std::size_t index = 0; index < trace.account.size(); index += edt::account_size) {
    const double* account = &trace.account[index];
    if (std::abs(account[0] - account[1] - account[3]) > 10.0 ||
        std::abs(account[1] - account[2] - account[4]) > 10.0) {
      return false;
    }
  }
  return true;
}

bool check(edt::Model model, int stages, int agents) {
  const std::vector<edt::Scenario> made =
      scenarios(model == edt::Model::fluid ? fluid_environments : event_environments);
  edt::Batch alone(made, {model, stages, 1, 1, agents});
  edt::Batch shared(made, {model, stages, 1, 4, agents});
  if (shared.members() < 2) {
    std::fprintf(stderr, "one thread does it all: stages %d, agents %d\n", stages, agents);
    return false;
  }
  const Trace first = run(alone);
  if (first != run(shared)) {
    std::fprintf(stderr, "threads change the result: stages %d, agents %d\n", stages, agents);
    return false;
  }
  if (!balanced(first)) {
    std::fprintf(stderr, "bytes are lost or made: stages %d, agents %d\n", stages, agents);
    return false;
  }
  // Two callers of one batch take turns.
  std::thread other([&] { run(shared); });
  run(shared);
  other.join();
  return true;
}

}  // namespace

int main() {
  for (const edt::Scenario& made : scenarios(event_environments)) {
    if (const auto text = edt::fault(made)) {
      std::fprintf(stderr, "%s\n", text->c_str());
      return 1;
    }
  }
  bool well = true;
  for (const edt::Model model : {edt::Model::fluid, edt::Model::events}) {
    for (const int stages : {1, edt::stage_count}) {
      for (const int agents : {1, 3}) {
        well = check(model, stages, agents) && well;
      }
    }
  }
  return well ? 0 : 1;
}
