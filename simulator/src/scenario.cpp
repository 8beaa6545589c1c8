// The table of scenario fields, and the check of a scenario against it.
#include "scenario.hpp"

#include <cmath>
#include <sstream>
#include <type_traits>

namespace edt {
namespace {

static_assert(std::is_standard_layout_v<Scenario> && std::is_trivially_copyable_v<Scenario>);

constexpr double tiny_rate = 1e3;
constexpr double large_rate = 1e15;
constexpr double large_bytes = 1e15;
constexpr double long_time = 1e9;

constexpr Field fields[] = {
    {"interval_s", offsetof(Scenario, interval_s), 1, 1, 1e-3, 3600, Number::real},
    {"rtt_s", offsetof(Scenario, rtt_s), 1, 1, 0, 10, Number::real},
    {"stream_bps", offsetof(Scenario, stream_bps), 1, 3, tiny_rate, large_rate, Number::real},
    {"capacity_bps", offsetof(Scenario, capacity_bps), 1, 3, tiny_rate, large_rate, Number::real},
    {"window_bytes", offsetof(Scenario, window_bytes), 1, 1, 1, large_bytes, Number::real_or_infinite},
    {"buffer_bytes", offsetof(Scenario, buffer_bytes), 1, 2, 1, large_bytes, Number::whole},
    {"chunk_bytes", offsetof(Scenario, chunk_bytes), 1, 1, 1e3, large_bytes, Number::real},
    {"retry_s", offsetof(Scenario, retry_s), 1, 1, 1e-6, 1, Number::real},
    {"max_concurrency", offsetof(Scenario, max_concurrency), 1, 1, 1, 4096, Number::whole},
    {"initial_concurrency", offsetof(Scenario, initial_concurrency), 1, 3, 1, 4096, Number::whole},
    {"file_bytes", offsetof(Scenario, file_bytes), 1, 1, 1, large_bytes, Number::real_or_infinite},
    {"file_overhead_s", offsetof(Scenario, file_overhead_s), 1, 3, 0, 3600, Number::real},
    {"file_round_trips", offsetof(Scenario, file_round_trips), 1, 1, 0, 1000, Number::real},
    {"knee", offsetof(Scenario, knee), 1, 1, 0, 0.9, Number::real},
    {"contention", offsetof(Scenario, contention), 1, 3, 0, 100, Number::real},
    {"contention_onset", offsetof(Scenario, contention_onset), 1, 1, 1, 1000, Number::real},
    {"random_loss", offsetof(Scenario, random_loss), 1, 1, 0, 0.5, Number::real},
    {"congestion_loss", offsetof(Scenario, congestion_loss), 1, 1, 0, 10, Number::real},
    {"ramp_round_trips", offsetof(Scenario, ramp_round_trips), 1, 1, 0, 1e4, Number::real},
    {"background_bps", offsetof(Scenario, background_bps), 1, 1, 0, large_rate, Number::real},
    {"background_deviation_bps", offsetof(Scenario, background_deviation_bps), 1, 1, 0, large_rate, Number::real},
    {"background_correlation_s", offsetof(Scenario, background_correlation_s), 1, 1, 1e-3, long_time, Number::real},
    {"change_s", offsetof(Scenario, change_s), 1, 4, 0, long_time, Number::real_or_infinite},
    {"change_capacity", offsetof(Scenario, change_capacity), 4, 3, 1e-3, 1e3, Number::real},
    {"change_stream", offsetof(Scenario, change_stream), 4, 3, 1e-3, 1e3, Number::real},
    {"change_period_s", offsetof(Scenario, change_period_s), 1, 1, 1e-3, long_time, Number::real_or_infinite},
    {"competitor_start_s", offsetof(Scenario, competitor_start_s), 1, 3, 0, long_time, Number::real_or_infinite},
    {"competitor_stop_s", offsetof(Scenario, competitor_stop_s), 1, 3, 0, long_time, Number::real_or_infinite},
    {"competitor_streams", offsetof(Scenario, competitor_streams), 1, 3, 0, 1e5, Number::real},
    {"cliff_streams", offsetof(Scenario, cliff_streams), 1, 1, 1, 1e6, Number::real_or_infinite},
    {"cliff_factor", offsetof(Scenario, cliff_factor), 1, 1, 1e-3, 1, Number::real},
    {"cliff_s", offsetof(Scenario, cliff_s), 1, 1, 0, long_time, Number::real},
    {"noise", offsetof(Scenario, noise), 1, 1, 0, 0.5, Number::real},
    {"outlier_probability", offsetof(Scenario, outlier_probability), 1, 1, 0, 1, Number::real},
    {"outlier_factor", offsetof(Scenario, outlier_factor), 1, 1, 0, 10, Number::real},
    {"measurement_lag", offsetof(Scenario, measurement_lag), 1, 1, 0, 0.99, Number::real},
    {"measurement_delay", offsetof(Scenario, measurement_delay), 1, 1, 0, longest_delay, Number::whole},
    {"decision_delay", offsetof(Scenario, decision_delay), 1, 1, 0, longest_delay, Number::whole},
};

bool within(const Field& field, double value) {
  if (field.number == Number::real_or_infinite && value == HUGE_VAL) {
    return true;
  }
  if (field.number == Number::whole && value != std::floor(value)) {
    return false;
  }
  return value >= field.low && value <= field.high;  // false for NaN
}

std::string describe(const Field& field, double value) {
  std::ostringstream text;
  text << "`" << field.name << "` is " << value << ", must be ";
  text << (field.number == Number::whole ? "a whole number" : "a number") << " from " << field.low << " to "
       << field.high;
  text << (field.number == Number::real_or_infinite ? ", or infinite" : "");
  return text.str();
}

}  // namespace

std::span<const Field> scenario_fields() {
  return fields;
}

std::optional<std::string> fault(const Scenario& scenario) {
  const auto* bytes = reinterpret_cast<const char*>(&scenario);
  for (const Field& field : fields) {
    const auto* values = reinterpret_cast<const double*>(bytes + field.offset);
    for (int index = 0; index < field.rows * field.columns; ++index) {
      if (!within(field, values[index])) {
        return describe(field, values[index]);
      }
    }
  }
  for (int index = 1; index < change_count; ++index) {
    if (scenario.change_s[index] < scenario.change_s[index - 1]) {
      return "`change_s` is not in ascending order";
    }
  }
  for (double streams : scenario.initial_concurrency) {
    if (streams > scenario.max_concurrency) {
      return "`initial_concurrency` exceeds `max_concurrency`";
    }
  }
  return std::nullopt;
}

}  // namespace edt
