// Capacity law, ramp, background, competitors, changes and the cliff; both models draw their rates from here.
#include "path.hpp"

#include <algorithm>
#include <cmath>

namespace edt {
namespace {

constexpr double bits_per_byte = 8.0;
constexpr double least_capacity_share = 0.01;  // of the link, left to us whatever the background sends
constexpr double greatest_loss = 0.9;

bool is_varying(const Scenario& scenario) {
  return std::isfinite(scenario.change_s[0]) ||
         std::any_of(scenario.competitor_start_s.begin(), scenario.competitor_start_s.end(),
                     [](double start_s) { return std::isfinite(start_s); });
}

// A worker needs size/rate + overhead for a file, so its rate over many files is less than while it moves bytes.
double with_file_overhead(double stream_bps, double overhead_s, double file_bytes) {
  return stream_bps / (1.0 + overhead_s * stream_bps / (bits_per_byte * file_bytes));
}

}  // namespace

Path::Path(const Scenario& scenario)
    : scenario_(scenario), varies_(is_varying(scenario)), knee_scale_(scenario.knee > 0.0 ? 0.25 / scenario.knee : 0.0) {
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
  collapsed_until_s_ = -1.0;
  conditions_ = conditions_at(0.0);
}

NetworkRate Path::network_rate(double concurrency, double others, Random& random) {
  const double competing = conditions_.competing_streams + others;
  const double link_bps = conditions_.capacity_bps[network];
  const double free_bps = std::max(link_bps - background_bps(random), least_capacity_share * link_bps);
  const double capacity_bps = free_bps * cliff(concurrency + competing);
  StageRate rate = shared_rate(network, capacity_bps, {warm_streams(concurrency), competing});
  const double loss = loss_at(rate.load);
  rate.bps *= 1.0 - loss;  // a segment sent again uses the link twice
  return {rate, capacity_bps, loss};
}

double Path::loss_at(double load) const {
  return std::min(scenario_.random_loss + scenario_.congestion_loss * std::max(load - 1.0, 0.0), greatest_loss);
}

Conditions Path::conditions_at(double time_s) const {
  PerStage capacity_factor{1.0, 1.0, 1.0};
  PerStage stream_factor{1.0, 1.0, 1.0};
  const double cycle_s = std::isfinite(scenario_.change_period_s) ? std::fmod(time_s, scenario_.change_period_s) : time_s;
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

// Streams share a stage evenly. With x the load and w the knee, its use is min(x, 1) smoothed by a parabola from 1 - w to 1 + w, and
// past the onset each further multiple of the capacity costs: use / (1 + contention * (x - onset)).
StageRate Path::shared_rate(Stage stage, double capacity_bps, Streams streams) const {
  const double knee = scenario_.knee;
  const double all = streams.own + streams.others;
  const double load = all * conditions_.stream_bps[stage] / capacity_bps;
  const double into_knee = std::clamp(load - (1.0 - knee), 0.0, 2.0 * knee);
  const double use = std::min(load, 1.0 + knee) - into_knee * into_knee * knee_scale_;
  const double cost = 1.0 + scenario_.contention[stage] * std::max(load - scenario_.contention_onset, 0.0);
  return {capacity_bps * use * streams.own / (all * cost), load};
}

// A mean plus an Ornstein-Uhlenbeck process, sampled once an interval.
double Path::background_bps(Random& random) {
  if (background_kick_bps_ > 0.0) {
    background_excess_bps_ = background_keep_ * background_excess_bps_ + background_kick_bps_ * random.bell();
  }
  return std::max(scenario_.background_bps + background_excess_bps_, 0.0);
}

// Streams opened now approach their rate exponentially; closed ones are gone at once. Answers the mean over the interval.
double Path::warm_streams(double concurrency) {
  if (ramp_mean_ == 0.0) {
    return concurrency;
  }
  const double cold = concurrency - std::min(warm_, concurrency);
  warm_ = concurrency - cold * ramp_remainder_;
  return concurrency - cold * ramp_mean_;
}

// A server that was asked for too many streams serves all of them badly for a time.
double Path::cliff(double streams) {
  if (streams > scenario_.cliff_streams) {
    collapsed_until_s_ = elapsed_s() + scenario_.cliff_s;
    return scenario_.cliff_factor;
  }
  return elapsed_s() < collapsed_until_s_ ? scenario_.cliff_factor : 1.0;
}

}  // namespace edt
