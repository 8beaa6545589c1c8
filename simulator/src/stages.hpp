// What the two models share: the pace of the stages, the buffers between them, and the account of bytes.
#pragma once

#include "scenario.hpp"

namespace edt {

// Bytes a second that each stage can move while neither starved nor stopped.
using Pace = PerStage;

// Bytes that each stage moved.
using Moved = PerStage;

// The two bounded buffers between read, network and write. Always 0 <= used <= size.
struct Buffers {
  double sender_bytes;
  double receiver_bytes;
  double sender_size;
  double receiver_size;
};

}  // namespace edt
