// What the stages of one environment can carry during an interval: capacity shared by streams, and all that changes it with time.
#pragma once

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

  // Called once an interval, after `update_conditions`; `others` are streams on the same link beside the scenario's own competitors.
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
  double collapsed_until_s_ = -1.0;
};

}  // namespace edt
