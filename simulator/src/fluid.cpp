// The fluid model of the three stages.
#include "fluid.hpp"

#include <algorithm>
#include <limits>

namespace edt {
namespace {

// An interval has a handful of such pieces; the bound keeps rounding at a buffer's edge from looping forever.
constexpr int most_pieces = 32;

// The rates that empty and full buffers leave: a starved stage runs at its supplier's rate, a stopped one at its
// consumer's.
Pace coupled(const Pace& pace, const Buffers& buffers) {
  double sending = pace[network];
  if (buffers.sender_bytes <= 0.0) {
    sending = std::min(sending, pace[read]);
  }
  if (buffers.receiver_bytes >= buffers.receiver_size) {
    sending = std::min(sending, pace[write]);
  }
  const bool sender_full = buffers.sender_bytes >= buffers.sender_size;
  const bool receiver_empty = buffers.receiver_bytes <= 0.0;
  return {sender_full ? std::min(pace[read], sending) : pace[read], sending,
          receiver_empty ? std::min(pace[write], sending) : pace[write]};
}

// Seconds until a buffer that changes by `rate` becomes full or empty.
double seconds_to_edge(double used, double size, double rate) {
  if (rate > 0.0) {
    return (size - used) / rate;
  }
  return rate < 0.0 ? used / -rate : std::numeric_limits<double>::infinity();
}

// Puts a buffer exactly on the edge it has reached.
double advanced(double used, double size, double rate, double seconds, double edge_s) {
  if (edge_s <= seconds) {
    return rate > 0.0 ? size : 0.0;
  }
  return used + rate * seconds;
}

}  // namespace

Moved flow(const Pace& pace, double interval_s, Buffers& buffers) {
  Moved moved{};
  double left_s = interval_s;
  for (int piece = 0; piece < most_pieces && left_s > 0.0; ++piece) {
    const Pace rates = coupled(pace, buffers);
    const double sender_rate = rates[read] - rates[network];
    const double receiver_rate = rates[network] - rates[write];
    const double sender_edge_s = seconds_to_edge(buffers.sender_bytes, buffers.sender_size, sender_rate);
    const double receiver_edge_s = seconds_to_edge(buffers.receiver_bytes, buffers.receiver_size, receiver_rate);
    const double seconds = std::min({left_s, sender_edge_s, receiver_edge_s});
    for (int stage = 0; stage < stage_count; ++stage) {
      moved[stage] += rates[stage] * seconds;
    }
    buffers.sender_bytes = advanced(buffers.sender_bytes, buffers.sender_size, sender_rate, seconds, sender_edge_s);
    buffers.receiver_bytes =
        advanced(buffers.receiver_bytes, buffers.receiver_size, receiver_rate, seconds, receiver_edge_s);
    left_s -= seconds;
  }
  return moved;
}

}  // namespace edt
