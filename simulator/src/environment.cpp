// One interval of one environment: decide, advance, measure.
#include "environment.hpp"

#include <algorithm>
#include <utility>

#include "fluid.hpp"

namespace edt {

// Templates and what they inline stand before their callers, as they must.

// Noise is the exponential's first terms, so of mean one and never negative: with x = noise * bell,
// (1 + x + x^2/2) / (1 + noise^2/2).
inline double Environment::measured(double truth, double before) {
  const Scenario& scenario = path_.scenario();
  double value = truth;
  if (scenario.noise > 0.0) {
    const double x = scenario.noise * random_.bell();
    value *= (1.0 + x + 0.5 * x * x) / (1.0 + 0.5 * scenario.noise * scenario.noise);
  }
  if (scenario.outlier_probability > 0.0 && random_.uniform() < scenario.outlier_probability) {
    value *= scenario.outlier_factor;
  }
  // The first interval has nothing to lag behind.
  return intervals_ > 1 ? value + scenario.measurement_lag * (before - value) : value;
}

template <int stages>
void Environment::write_observation(std::span<double> observation) const {
  if constexpr (stages == 1) {
    write_row(observation, NetworkObservation{static_cast<double>(applied_[network]), smoothed_.throughput_bps[network],
                                              smoothed_.loss});
  } else {
    StagesObservation row{{}, smoothed_.throughput_bps, 0.0, 0.0, smoothed_.loss};
    std::copy(applied_.begin(), applied_.end(), row.concurrency.begin());
    row.sender_free_bytes = buffers_.sender_size - buffers_.sender_bytes;
    row.receiver_free_bytes = buffers_.receiver_size - buffers_.receiver_bytes;
    write_row(observation, row);
  }
}

// Rates that competitors and buffers do not touch are those of the conditions, which hold for a whole interval.
template <int stages>
void Environment::write_metrics(const Interval& interval, std::span<double> metrics) const {
  const Conditions& conditions = path_.conditions();
  if constexpr (stages == 1) {
    write_row(metrics, NetworkMetrics{interval.throughput_bps[network], interval.loss, interval.network_capacity_bps,
                                      interval.competing_streams, conditions.stream_bps[network]});
  } else {
    const PerStage capacity_bps{conditions.capacity_bps[read], interval.network_capacity_bps,
                                conditions.capacity_bps[write]};
    write_row(metrics, StagesMetrics{interval.throughput_bps, buffers_.sender_size - buffers_.sender_bytes,
                                     buffers_.receiver_size - buffers_.receiver_bytes, interval.loss, capacity_bps,
                                     interval.competing_streams, conditions.stream_bps});
  }
}

template <int stages>
void Environment::measure(const Interval& interval) {
  smoothed_.loss = std::min(measured(interval.loss, smoothed_.loss), 1.0);
  for (int stage = 0; stage < stage_count; ++stage) {
    if (stages == stage_count || stage == network) {
      smoothed_.throughput_bps[stage] = measured(interval.throughput_bps[stage], smoothed_.throughput_bps[stage]);
    }
  }
  if (!observations_.empty()) {
    newest_observation_ = (newest_observation_ + 1) % observations_.size();
    LateObservation& newest = observations_[newest_observation_];
    write_observation<stages>(newest);
  }
}

Environment::Environment(const Scenario& scenario, Random random) : path_(scenario), random_(random) {}

void Environment::reset(int stages) {
  const Scenario& scenario = path_.scenario();
  path_.reset();
  buffers_ = {0.0, 0.0, scenario.buffer_bytes[0], scenario.buffer_bytes[1]};
  total_ = {};
  smoothed_ = {};
  intervals_ = 0;
  for (int stage = 0; stage < stage_count; ++stage) {
    applied_[stage] = static_cast<int>(scenario.initial_concurrency[stage]);
  }
  decisions_.assign(static_cast<std::size_t>(scenario.decision_delay), applied_);
  LateObservation first{};
  if (stages == 1) {
    write_observation<1>(first);
  } else {
    write_observation<stage_count>(first);
  }
  const auto late = static_cast<std::size_t>(scenario.measurement_delay);
  observations_.assign(late == 0 ? 0 : late + 1, first);
  newest_observation_ = 0;
}

bool Environment::is_plain() const {
  const Scenario& scenario = path_.scenario();
  return path_.is_steady() && scenario.noise == 0.0 && scenario.outlier_probability == 0.0 &&
         scenario.measurement_lag == 0.0 && decisions_.empty() && observations_.empty();
}

template <int stages>
void Environment::decide(const std::int32_t* action) {
  const auto most = static_cast<std::int32_t>(path_.scenario().max_concurrency);
  Concurrency decision = applied_;
  if constexpr (stages == 1) {
    decision[network] = std::min(std::max(action[0], 1), most);
  } else {
    for (int stage = 0; stage < stage_count; ++stage) {
      decision[stage] = std::min(std::max(action[stage], 1), most);
    }
  }
  if (!decisions_.empty()) {
    std::swap(decision, decisions_[static_cast<std::size_t>(intervals_) % decisions_.size()]);
  }
  applied_ = decision;
}

template <int stages>
void Environment::advance(Model model, double others, TaskQueue& queue, std::span<double> metrics) {
  path_.update_conditions();
  const Interval interval = stages == 1 ? run_one(model, others, queue) : run_three(model, others, queue);
  path_.end_interval();
  ++intervals_;
  measure<stages>(interval);
  if (!metrics.empty()) {
    write_metrics<stages>(interval, metrics);
  }
}

template <int stages>
void Environment::observe(std::span<double> observation) const {
  if (observations_.empty()) {
    write_observation<stages>(observation);
    return;
  }
  // The slot after the newest holds the oldest.
  const LateObservation& seen = observations_[(newest_observation_ + 1) % observations_.size()];
  std::copy_n(seen.begin(), observation.size(), observation.begin());
}

template void Environment::decide<1>(const std::int32_t*);
template void Environment::decide<stage_count>(const std::int32_t*);
template void Environment::advance<1>(Model, double, TaskQueue&, std::span<double>);
template void Environment::advance<stage_count>(Model, double, TaskQueue&, std::span<double>);
template void Environment::observe<1>(std::span<double>) const;
template void Environment::observe<stage_count>(std::span<double>) const;

void Environment::account(std::span<double> account) const {
  write_row(account, Account{total_, buffers_.sender_bytes, buffers_.receiver_bytes});
}

int Environment::most_tasks() const {
  return stage_count * static_cast<int>(path_.scenario().max_concurrency);
}

Environment::Interval Environment::run_one(Model model, double others, TaskQueue& queue) {
  const double interval_s = path_.scenario().interval_s;
  const NetworkRate link = path_.network_rate(applied_[network], others, random_);
  const double pace = link.rate.bps / bits_per_byte;
  const double bytes = model == Model::fluid ? pace * interval_s : run_one_stage(tasks(), pace, random_, queue);
  // Memory to memory: what is sent has been read and will be written.
  for (double& stage_bytes : total_) {
    stage_bytes += bytes;
  }
  const double bps = model == Model::fluid ? link.rate.bps : bytes * bits_per_byte / interval_s;
  return {{0.0, bps, 0.0}, link.loss, link.capacity_bps, path_.conditions().competing_streams + others};
}

Environment::Interval Environment::run_three(Model model, double others, TaskQueue& queue) {
  const double interval_s = path_.scenario().interval_s;
  const NetworkRate link = path_.network_rate(applied_[network], others, random_);
  const Pace pace{path_.storage_rate(read, applied_[read]).bps / bits_per_byte, link.rate.bps / bits_per_byte,
                  path_.storage_rate(write, applied_[write]).bps / bits_per_byte};
  const Moved moved = model == Model::fluid ? flow(pace, interval_s, buffers_)
                                            : run_three_stages(tasks(), pace, buffers_, random_, queue);
  Interval interval{{}, 0.0, link.capacity_bps, path_.conditions().competing_streams + others};
  for (int stage = 0; stage < stage_count; ++stage) {
    total_[stage] += moved[stage];
    interval.throughput_bps[stage] = moved[stage] * bits_per_byte / interval_s;
  }
  // Streams that wait for buffers do not press on the link.
  interval.loss = loss_at(path_.loss_law(), link.rate.load * interval.throughput_bps[network] / link.rate.bps);
  return interval;
}

Tasks Environment::tasks() const {
  const Scenario& scenario = path_.scenario();
  return {scenario.interval_s, scenario.chunk_bytes, scenario.retry_s, applied_};
}

}  // namespace edt
