// One interval of a block of plain environments: all rates first, then what each environment shows of them.
#include "plain.hpp"

#include <algorithm>

namespace edt {
namespace {

constexpr StageLaw harmless_law{1.0, 1.0, 0.0, 0.0, 0.0, 1.0};

}  // namespace

PlainEnvironments::PlainEnvironments(std::size_t environments)
    : environments_(environments), blocks_((environments + lanes - 1) / lanes) {}

void PlainEnvironments::put(std::size_t environment, const Path& path) {
  const Scenario& scenario = path.scenario();
  const std::size_t lane = environment % lanes;
  Block& block = blocks_[environment / lanes];
  block.set_law(lane, path.steady_law(), path.loss_law());
  block.interval_s[lane] = scenario.interval_s;
  block.most[lane] = static_cast<std::int32_t>(scenario.max_concurrency);
  block.applied[lane] = static_cast<std::int32_t>(scenario.initial_concurrency[network]);
  block.throughput_bps[lane] = 0.0;
  block.loss[lane] = 0.0;
  block.moved_bytes[lane] = 0.0;
  held_ += block.held[lane] ? 0 : 1;
  block.held[lane] = true;
}

void PlainEnvironments::remove(std::size_t environment) {
  if (holds(environment)) {
    blocks_[environment / lanes].held[environment % lanes] = false;
    --held_;
  }
}

void PlainEnvironments::step(std::size_t block, const StepArrays& arrays) {
  const std::size_t first = block * lanes;
  const std::size_t end = std::min(first + lanes, environments_);
  Block& stepped = blocks_[block];
  for (std::size_t environment = first; environment < end; ++environment) {
    const std::size_t lane = environment - first;
    if (arrays.steps(environment)) {
      stepped.applied[lane] = std::min(std::max(arrays.actions[environment], 1), stepped.most[lane]);
    }
  }
  const Rates rates = stepped.rates();
  for (std::size_t environment = first; environment < end; ++environment) {
    if (stepped.held[environment - first] && arrays.steps(environment)) {
      finish_lane(environment, rates, arrays);
    }
  }
}

void PlainEnvironments::observe(std::size_t environment, std::span<double> observation) const {
  const Block& block = block_of(environment);
  const std::size_t lane = environment % lanes;
  write_row(observation,
            NetworkObservation{static_cast<double>(block.applied[lane]), block.throughput_bps[lane], block.loss[lane]});
}

// Memory to memory: what is sent has been read and will be written.
void PlainEnvironments::account(std::size_t environment, std::span<double> account) const {
  const double bytes = block_of(environment).moved_bytes[environment % lanes];
  write_row(account, Account{{bytes, bytes, bytes}, 0.0, 0.0});
}

inline void PlainEnvironments::finish_lane(std::size_t environment, const Rates& rates, const StepArrays& arrays) {
  const std::size_t lane = environment % lanes;
  Block& block = blocks_[environment / lanes];
  block.throughput_bps[lane] = rates.bps[lane];
  block.loss[lane] = rates.loss[lane];
  block.moved_bytes[lane] += rates.bps[lane] / bits_per_byte * block.interval_s[lane];
  if (!arrays.observations.empty()) {
    observe(environment, row_of(arrays.observations, environment, row_size<NetworkObservation>()));
  }
  if (!arrays.metrics.empty()) {
    write_row(row_of(arrays.metrics, environment, row_size<NetworkMetrics>()),
              NetworkMetrics{rates.bps[lane], rates.loss[lane], block.capacity_bps[lane], 0.0, block.stream_bps[lane]});
  }
}

PlainEnvironments::Block::Block() : interval_s{}, throughput_bps{}, loss{}, moved_bytes{}, held{} {
  most.fill(1);
  applied.fill(1);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    set_law(lane, harmless_law, {0.0, 0.0});
  }
}

void PlainEnvironments::Block::set_law(std::size_t lane, const StageLaw& law, const LossLaw& loss_law) {
  stream_bps[lane] = law.stream_bps;
  capacity_bps[lane] = law.capacity_bps;
  knee[lane] = law.knee;
  knee_scale[lane] = law.knee_scale;
  contention[lane] = law.contention;
  contention_onset[lane] = law.contention_onset;
  random_loss[lane] = loss_law.random;
  congestion_loss[lane] = loss_law.congestion;
}

// No branch, no call, and arrays that cannot overlap: compilers make vector instructions of this loop.
inline PlainEnvironments::Rates PlainEnvironments::Block::rates() const {
  Rates rates;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const StageLaw law{stream_bps[lane], capacity_bps[lane], knee[lane],
                       knee_scale[lane], contention[lane],   contention_onset[lane]};
    const NetworkRate rate =
        network_rate(law, {random_loss[lane], congestion_loss[lane]}, {static_cast<double>(applied[lane]), 0.0});
    rates.bps[lane] = rate.rate.bps;
    rates.loss[lane] = rate.loss;
  }
  return rates;
}

}  // namespace edt
