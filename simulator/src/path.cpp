// What a path precomputes, and the conditions that change with time.
#include "path.hpp"

#include <algorithm>
#include <cmath>

namespace edt {
namespace {

// A worker needs size/rate + overhead for a file, so its rate over many files is less than while it moves bytes.
double with_file_overhead(double stream_bps, double overhead_s, double file_bytes) {
  return stream_bps / (1.0 + overhead_s * stream_bps / (bits_per_byte * file_bytes));
}

// Seconds since the steps of capacity and streams last began again.
double since_cycle_began(const Scenario& scenario, double time_s) {
  return std::isfinite(scenario.change_period_s) ? std::fmod(time_s, scenario.change_period_s) : time_s;
}

}  // namespace

Path::Path(const Scenario& scenario)
    : scenario_(scenario), knee_scale_(scenario.knee > 0.0 ? 0.25 / scenario.knee : 0.0) {
  const double ramp_s = scenario.ramp_round_trips * scenario.rtt_s;
  if (ramp_s > 0.0) {
    ramp_remainder_ = std::exp(-scenario.interval_s / ramp_s);
    ramp_mean_ = (1.0 - ramp_remainder_) * ramp_s / scenario.interval_s;
  }
  if (scenario.background_deviation_bps > 0.0) {
    background_keep_ = std::exp(-scenario.interval_s / scenario.background_correlation_s);
    background_kick_bps_ = scenario.background_deviation_bps * std::sqrt(1.0 - background_keep_ * background_keep_);
  }
  reset();
}

void Path::reset() {
  intervals_ = 0;
  warm_ = 0.0;
  background_excess_bps_ = 0.0;
  collapsed_until_s_ = 0.0;
  renew_conditions();
}

bool Path::is_steady() const {
  return conditions_until_s_ == HUGE_VAL && conditions_.competing_streams == 0.0 && ramp_mean_ == 0.0 &&
         background_kick_bps_ == 0.0 && scenario_.max_concurrency <= scenario_.cliff_streams;
}

void Path::renew_conditions() {
  conditions_ = conditions_at(elapsed_s());
  conditions_until_s_ = conditions_end_s(elapsed_s());
}

Conditions Path::conditions_at(double time_s) const {
  PerStage capacity_factor{1.0, 1.0, 1.0};
  PerStage stream_factor{1.0, 1.0, 1.0};
  const double cycle_s = since_cycle_began(scenario_, time_s);
  for (int change = 0; change < change_count && scenario_.change_s[change] <= cycle_s; ++change) {
    capacity_factor = scenario_.change_capacity[change];
    stream_factor = scenario_.change_stream[change];
  }
  Conditions conditions{};
  for (int stage = 0; stage < stage_count; ++stage) {
    const bool on_network = stage == network;
    const double round_trips_s = on_network ? scenario_.file_round_trips * scenario_.rtt_s : 0.0;
    // One stream carries at most a window a round trip [EDT section III]; without a round trip there is no such bound.
    const double window_bps = on_network ? bits_per_byte * scenario_.window_bytes / scenario_.rtt_s : HUGE_VAL;
    const double stream_bps = std::min(scenario_.stream_bps[stage] * stream_factor[stage], window_bps);
    conditions.stream_bps[stage] =
        with_file_overhead(stream_bps, scenario_.file_overhead_s[stage] + round_trips_s, scenario_.file_bytes);
    conditions.capacity_bps[stage] = scenario_.capacity_bps[stage] * capacity_factor[stage];
  }
  for (int index = 0; index < competitor_count; ++index) {
    if (scenario_.competitor_start_s[index] <= time_s && time_s < scenario_.competitor_stop_s[index]) {
      conditions.competing_streams += scenario_.competitor_streams[index];
    }
  }
  return conditions;
}

// A time until which the conditions surely stay as they are at `time_s`; infinity if they stay for good. It is a little
// early where there is a change: rounding may shift one by less than the slack, and conditions asked for once too often
// are the same.
double Path::conditions_end_s(double time_s) const {
  constexpr double slack = 1e-9;  // of the change's time
  double end_s = HUGE_VAL;
  const auto consider = [&](double change_s) {
    if (change_s * (1.0 + slack) > time_s) {
      end_s = std::min(end_s, change_s * (1.0 - slack));
    }
  };
  if (std::isfinite(scenario_.change_s[0])) {
    const double cycle_start_s = time_s - since_cycle_began(scenario_, time_s);
    for (double change_s : scenario_.change_s) {
      consider(cycle_start_s + change_s);
    }
    consider(cycle_start_s + scenario_.change_period_s);
  }
  for (int index = 0; index < competitor_count; ++index) {
    consider(scenario_.competitor_start_s[index]);
    consider(scenario_.competitor_stop_s[index]);
  }
  return end_s;
}

}  // namespace edt
