// The fluid model: constant rates within an interval, buffers that fill and drain in straight lines, solved exactly.
#pragma once

#include "stages.hpp"

namespace edt {

// Moves what the stages can move in `interval_s`, cutting the interval where a buffer becomes full or empty.
Moved flow(const Pace& pace, double interval_s, Buffers& buffers);

}  // namespace edt
