// What the stages of one environment can carry during an interval: capacity shared by streams, and all that changes it
// with time. Both models draw their rates from here.
#pragma once

#include <algorithm>

#include "law.hpp"
#include "random.hpp"
#include "scenario.hpp"

namespace edt {

// Rates at which streams and stages run, from one change of the scenario to the next.
struct Conditions {
  PerStage stream_bps;  // of one stream or worker, with its window and its files' overhead taken off
  PerStage capacity_bps;
  double competing_streams;
};

// The path of one environment: its scenario, the clock, and what it remembers from interval to interval.
class Path {
 public:
  explicit Path(const Scenario& scenario);

  void reset();

  // Called once an interval, before the rates: moves to the conditions that hold at the start of the interval.
  void update_conditions() {
    if (elapsed_s() >= conditions_until_s_) {
      renew_conditions();
    }
  }

  // Called once an interval, after `update_conditions`; `others` are streams on the same link beside the scenario's own
  // competitors.
  NetworkRate network_rate(double concurrency, double others, Random& random);

  StageRate storage_rate(Stage stage, double concurrency) const {
    return shared_rate(stage_law(stage, conditions_.capacity_bps[stage]), {concurrency, 0.0});
  }

  LossLaw loss_law() const { return {scenario_.random_loss, scenario_.congestion_loss}; }

  // Whether the network's rate follows from the concurrency alone: no clock, no memory, no chance, no competitors.
  // Asked right after a reset.
  bool is_steady() const;

  // The network of a steady path, in every interval.
  StageLaw steady_law() const { return stage_law(network, free_bps()); }

  void end_interval() { ++intervals_; }

  double elapsed_s() const { return static_cast<double>(intervals_) * scenario_.interval_s; }
  const Conditions& conditions() const { return conditions_; }
  const Scenario& scenario() const { return scenario_; }

 private:
  static constexpr double least_capacity_share = 0.01;  // of the link, left to us whatever the background sends

  void renew_conditions();
  Conditions conditions_at(double time_s) const;
  double conditions_end_s(double time_s) const;
  StageLaw stage_law(Stage stage, double capacity_bps) const;
  void drift_background(Random& random);
  double free_bps() const;
  double warm_streams(double concurrency);
  double cliff(double streams);

  Scenario scenario_;
  Conditions conditions_{};
  double conditions_until_s_ = 0.0;
  double knee_scale_;
  double ramp_remainder_ = 0.0;  // of cold streams, the share still cold when the interval ends
  double ramp_mean_ = 0.0;       // and the same share averaged over the interval
  double background_keep_ = 0.0;
  double background_kick_bps_ = 0.0;
  long long intervals_ = 0;
  double warm_ = 0.0;
  double background_excess_bps_ = 0.0;
  double collapsed_until_s_ = 0.0;
};

// Inline from here on: these run once for each environment and interval.

inline NetworkRate Path::network_rate(double concurrency, double others, Random& random) {
  const double competing = conditions_.competing_streams + others;
  drift_background(random);
  const double capacity_bps = free_bps() * cliff(concurrency + competing);
  return edt::network_rate(stage_law(network, capacity_bps), loss_law(), {warm_streams(concurrency), competing});
}

inline StageLaw Path::stage_law(Stage stage, double capacity_bps) const {
  return {conditions_.stream_bps[stage], capacity_bps, scenario_.knee, knee_scale_, scenario_.contention[stage],
          scenario_.contention_onset};
}

// The background is a mean plus an Ornstein-Uhlenbeck process, sampled once an interval.
inline void Path::drift_background(Random& random) {
  if (background_kick_bps_ > 0.0) {
    background_excess_bps_ = background_keep_ * background_excess_bps_ + background_kick_bps_ * random.bell();
  }
}

// What the background leaves of the link.
inline double Path::free_bps() const {
  const double link_bps = conditions_.capacity_bps[network];
  const double background_bps = std::max(scenario_.background_bps + background_excess_bps_, 0.0);
  return std::max(link_bps - background_bps, least_capacity_share * link_bps);
}

// Streams opened now approach their rate exponentially; closed ones are gone at once. Answers the mean over the
// interval.
inline double Path::warm_streams(double concurrency) {
  if (ramp_mean_ == 0.0) {
    return concurrency;
  }
  const double cold = concurrency - std::min(warm_, concurrency);
  warm_ = concurrency - cold * ramp_remainder_;
  return concurrency - cold * ramp_mean_;
}

// A server that was asked for too many streams serves all of them badly for a time.
inline double Path::cliff(double streams) {
  if (streams > scenario_.cliff_streams) {
    collapsed_until_s_ = elapsed_s() + scenario_.cliff_s;
    return scenario_.cliff_factor;
  }
  return collapsed_until_s_ > 0.0 && elapsed_s() < collapsed_until_s_ ? scenario_.cliff_factor : 1.0;
}

}  // namespace edt
