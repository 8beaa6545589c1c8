// The rows of the arrays that callers own, one row an environment. Names and order are those of `layout.py`.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "scenario.hpp"

namespace edt {

// What a controller sees of one stage, and of three.
struct NetworkObservation {
  double concurrency;
  double throughput_bps;
  double loss;
};
struct StagesObservation {
  PerStage concurrency;
  PerStage throughput_bps;
  double sender_free_bytes;
  double receiver_free_bytes;
  double loss;
};

// The unmeasured truth of the last interval, of one stage and of three.
struct NetworkMetrics {
  double throughput_bps;
  double loss;
  double capacity_bps;
  double competing_streams;
  double stream_bps;
};
struct StagesMetrics {
  PerStage throughput_bps;
  double sender_free_bytes;
  double receiver_free_bytes;
  double loss;
  PerStage capacity_bps;
  double competing_streams;
  PerStage stream_bps;
};

// Bytes that each stage moved since the last reset, and bytes in the buffers now.
struct Account {
  PerStage moved_bytes;
  double sender_bytes;
  double receiver_bytes;
};

template <typename Row>
constexpr int row_size() {
  static_assert(std::is_trivially_copyable_v<Row> && sizeof(Row) % sizeof(double) == 0);
  return static_cast<int>(sizeof(Row) / sizeof(double));
}

constexpr int observation_size(int stages) {
  return stages == 1 ? row_size<NetworkObservation>() : row_size<StagesObservation>();
}
constexpr int metrics_size(int stages) {
  return stages == 1 ? row_size<NetworkMetrics>() : row_size<StagesMetrics>();
}
inline constexpr int account_size = row_size<Account>();

// `out` holds exactly one row.
template <typename Row>
void write_row(std::span<double> out, const Row& row) {
  std::memcpy(out.data(), &row, sizeof row);
}

// The arrays of one step, flat, environment after environment. Observations, metrics and mask may be empty: nothing is
// written, all environments step.
struct StepArrays {
  std::span<const std::int32_t> actions;
  std::span<double> observations;
  std::span<double> metrics;
  std::span<const std::uint8_t> mask;

  bool steps(std::size_t environment) const { return mask.empty() || mask[environment] != 0; }
};

// One environment's part of a flat array; empty where the array is.
template <typename T>
std::span<T> row_of(std::span<T> flat, std::size_t environment, std::size_t size) {
  return flat.empty() ? flat : flat.subspan(environment * size, size);
}

}  // namespace edt
