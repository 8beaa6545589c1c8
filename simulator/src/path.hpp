// What the stages of one environment can carry during an interval: capacity shared by streams, and all that changes it
// with time. Both models draw their rates from here.
#pragma once

#include <algorithm>

#include "random.hpp"
#include "scenario.hpp"

namespace edt {

// Rates at which streams and stages run, from one change of the scenario to the next.
struct Conditions {
  PerStage stream_bps;  // of one stream or worker, with its window and its files' overhead taken off
  PerStage capacity_bps;
  double competing_streams;
};

// What one stage could carry in one interval if its buffers neither starved nor stopped it.
struct StageRate {
  double bps;
  double load;  // what all streams ask for, as a multiple of the capacity
};

// Streams of a stage: own ones and those of competitors on the same link.
struct Streams {
  double own;
  double others;
};

// The network's share of one interval.
struct NetworkRate {
  StageRate rate;
  double capacity_bps;
  double loss;
};

// The path of one environment: its scenario, the clock, and what it remembers from interval to interval.
class Path {
 public:
  explicit Path(const Scenario& scenario);

  void reset();

  // Called once an interval, before the rates: moves to the conditions that hold at the start of the interval.
  void update_conditions() {
    if (varies_) {
      conditions_ = conditions_at(elapsed_s());
    }
  }

  // Called once an interval, after `update_conditions`; `others` are streams on the same link beside the scenario's own
  // competitors.
  NetworkRate network_rate(double concurrency, double others, Random& random);

  StageRate storage_rate(Stage stage, double concurrency) const {
    return shared_rate(stage, conditions_.capacity_bps[stage], {concurrency, 0.0});
  }

  // The retransmitted share of the network's segments when streams ask for `load` times the capacity.
  double loss_at(double load) const;

  void end_interval() { ++intervals_; }

  double elapsed_s() const { return static_cast<double>(intervals_) * scenario_.interval_s; }
  double competing_streams() const { return conditions_.competing_streams; }
  const Scenario& scenario() const { return scenario_; }

 private:
  static constexpr double least_capacity_share = 0.01;  // of the link, left to us whatever the background sends
  static constexpr double greatest_loss = 0.9;

  Conditions conditions_at(double time_s) const;
  StageRate shared_rate(Stage stage, double capacity_bps, Streams streams) const;
  double background_bps(Random& random);
  double warm_streams(double concurrency);
  double cliff(double streams);

  Scenario scenario_;
  Conditions conditions_{};
  bool varies_;
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
  const double link_bps = conditions_.capacity_bps[network];
  const double free_bps = std::max(link_bps - background_bps(random), least_capacity_share * link_bps);
  const double capacity_bps = free_bps * cliff(concurrency + competing);
  StageRate rate = shared_rate(network, capacity_bps, {warm_streams(concurrency), competing});
  const double loss = loss_at(rate.load);
  rate.bps *= 1.0 - loss;  // a segment sent again uses the link twice
  return {rate, capacity_bps, loss};
}

inline double Path::loss_at(double load) const {
  return std::min(scenario_.random_loss + scenario_.congestion_loss * std::max(load - 1.0, 0.0), greatest_loss);
}

// Streams share a stage evenly. With x the load and w the knee, its use is min(x, 1) smoothed by a parabola from 1 - w
// to 1 + w, and past the onset each further multiple of the capacity costs: use / (1 + contention * (x - onset)).
inline StageRate Path::shared_rate(Stage stage, double capacity_bps, Streams streams) const {
  const double knee = scenario_.knee;
  const double all = streams.own + streams.others;
  const double load = all * conditions_.stream_bps[stage] / capacity_bps;
  const double into_knee = std::min(std::max(load - (1.0 - knee), 0.0), 2.0 * knee);
  const double use = std::min(load, 1.0 + knee) - into_knee * into_knee * knee_scale_;
  const double cost = 1.0 + scenario_.contention[stage] * std::max(load - scenario_.contention_onset, 0.0);
  return {capacity_bps * use * streams.own / (all * cost), load};
}

// A mean plus an Ornstein-Uhlenbeck process, sampled once an interval.
inline double Path::background_bps(Random& random) {
  if (background_kick_bps_ > 0.0) {
    background_excess_bps_ = background_keep_ * background_excess_bps_ + background_kick_bps_ * random.bell();
  }
  return std::max(scenario_.background_bps + background_excess_bps_, 0.0);
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
