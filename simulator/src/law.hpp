// The law of what streams carry on a stage and what they lose; every environment of both models draws from it.
#pragma once

#include <algorithm>

namespace edt {

// One stage as its streams meet it in one interval.
struct StageLaw {
  double stream_bps;  // of one stream or worker, with its window and its files' overhead taken off
  double capacity_bps;
  double knee;
  double knee_scale;  // 1 / (4 * knee); 0 without a knee
  double contention;
  double contention_onset;
};

// Shares of segments that are lost: always, and for each multiple of the capacity asked for beyond it.
struct LossLaw {
  double random;
  double congestion;
};

// Streams of a stage: own ones and those of competitors on the same link.
struct Streams {
  double own;
  double others;
};

// What one stage could carry in one interval if its buffers neither starved nor stopped it.
struct StageRate {
  double bps;
  double load;  // what all streams ask for, as a multiple of the capacity
};

// The network's share of one interval.
struct NetworkRate {
  StageRate rate;
  double capacity_bps;
  double loss;
};

inline constexpr double greatest_loss = 0.9;

// Inline and without a branch, so that a loop over many environments becomes vector instructions.

// Streams share a stage evenly. With x the load and w the knee, its use is min(x, 1) smoothed by a parabola from 1 - w
// to 1 + w, and past the onset each further multiple of the capacity costs: use / (1 + contention * (x - onset)).
inline StageRate shared_rate(const StageLaw& law, Streams streams) {
  const double all = streams.own + streams.others;
  const double load = all * law.stream_bps / law.capacity_bps;
  const double into_knee = std::min(std::max(load - (1.0 - law.knee), 0.0), 2.0 * law.knee);
  const double use = std::min(load, 1.0 + law.knee) - into_knee * into_knee * law.knee_scale;
  const double cost = 1.0 + law.contention * std::max(load - law.contention_onset, 0.0);
  return {law.capacity_bps * use * streams.own / (all * cost), load};
}

// The retransmitted share of the network's segments when streams ask for `load` times the capacity.
inline double loss_at(const LossLaw& law, double load) {
  return std::min(law.random + law.congestion * std::max(load - 1.0, 0.0), greatest_loss);
}

// A segment sent again uses the link twice.
inline NetworkRate network_rate(const StageLaw& law, const LossLaw& loss_law, Streams streams) {
  StageRate rate = shared_rate(law, streams);
  const double loss = loss_at(loss_law, rate.load);
  rate.bps *= 1.0 - loss;
  return {rate, law.capacity_bps, loss};
}

}  // namespace edt
