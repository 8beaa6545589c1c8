// The parameters of one simulated path and its two ends, in physical units, and the table that names, lays out and
// bounds them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace edt {

inline constexpr int stage_count = 3;
inline constexpr int change_count = 4;
inline constexpr int competitor_count = 3;
inline constexpr int longest_delay = 8;
inline constexpr double bits_per_byte = 8.0;

// Stages in the order in which every array holds them.
enum Stage : int { read = 0, network = 1, write = 2 };

using PerStage = std::array<double, stage_count>;

// What the fields mean is told to users in `edt_simulator/scenario.py`; order, names and bounds are in
// `scenario_fields`.
struct Scenario {
  double interval_s;
  double rtt_s;
  PerStage stream_bps;
  PerStage capacity_bps;
  double window_bytes;
  std::array<double, 2> buffer_bytes;
  double chunk_bytes;
  double retry_s;
  double max_concurrency;
  PerStage initial_concurrency;
  double file_bytes;
  PerStage file_overhead_s;
  double file_round_trips;
  double knee;
  PerStage contention;
  double contention_onset;
  double random_loss;
  double congestion_loss;
  double ramp_round_trips;
  double background_bps;
  double background_deviation_bps;
  double background_correlation_s;
  std::array<double, change_count> change_s;
  std::array<PerStage, change_count> change_capacity;
  std::array<PerStage, change_count> change_stream;
  double change_period_s;
  std::array<double, competitor_count> competitor_start_s;
  std::array<double, competitor_count> competitor_stop_s;
  std::array<double, competitor_count> competitor_streams;
  double cliff_streams;
  double cliff_factor;
  double cliff_s;
  double noise;
  double outlier_probability;
  double outlier_factor;
  double measurement_lag;
  double measurement_delay;
  double decision_delay;
};

enum class Number { real, real_or_infinite, whole };

// One field: where it lies in a `Scenario`, its shape (`rows` x `columns` doubles; 1 x 1 is a scalar) and what it may
// hold.
struct Field {
  const char* name;
  std::size_t offset;
  int rows;
  int columns;
  double low;
  double high;
  Number number;
};

std::span<const Field> scenario_fields();

// Says what is wrong with a scenario, naming the field; nothing when it may be simulated.
std::optional<std::string> fault(const Scenario& scenario);

}  // namespace edt
