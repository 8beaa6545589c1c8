// The event-queue model: Algorithm 1 of [EDT] for one stage and of [AutoMDT] for three, one task a chunk.
#pragma once

#include <vector>

#include "random.hpp"
#include "stages.hpp"

namespace edt {

// What an interval of the event queue needs to know of its path.
struct Tasks {
  double interval_s;
  double chunk_bytes;
  double retry_s;
  std::array<int, stage_count> concurrency;
};

// The thread tasks of one interval, earliest first; ties go to the thread that was scheduled first, so runs repeat
// exactly. Keeps its memory from interval to interval.
class TaskQueue {
 public:
  struct Task {
    double time_s;
    int thread;
    Stage stage;
    double bytes_left;  // of the thread in this interval ([EDT]'s rem_bw_thread)
  };

  void reserve(std::size_t threads) { tasks_.reserve(threads); }
  void clear() { tasks_.clear(); }
  bool empty() const { return tasks_.empty(); }

  // Only for tasks no earlier than those in the queue, as all are at the start of an interval.
  void append(const Task& task) { tasks_.push_back(task); }

  Task& earliest() { return tasks_.front(); }

  // Restores the order after the time of the earliest task grew.
  void delay_earliest();
  void remove_earliest();

 private:
  static bool before(const Task& left, const Task& right) {
    return left.time_s < right.time_s || (left.time_s == right.time_s && left.thread < right.thread);
  }

  std::vector<Task> tasks_;
};

// Network stage alone [EDT Alg. 1]. All byte counts are whole numbers, so the account of bytes is exact.
double run_one_stage(const Tasks& tasks, double network_pace, Random& random, TaskQueue& queue);

// Read, network and write with bounded buffers [AutoMDT Alg. 1].
Moved run_three_stages(const Tasks& tasks, const Pace& pace, Buffers& buffers, Random& random, TaskQueue& queue);

}  // namespace edt
