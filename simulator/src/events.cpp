// The event-queue model: what a thread does when its turn comes.
#include "events.hpp"

#include <algorithm>
#include <cmath>

namespace edt {
namespace {

constexpr double noise_share = 0.8;  // [EDT Alg. 1, line 3]

// [EDT Alg. 1, lines 3 and 4]: noise = U(0, 0.8) * chunk.
double transfer_size(double chunk_bytes, Random& random) {
  return std::max(std::floor(chunk_bytes * (1.0 - noise_share * random.uniform())), 1.0);
}

// What the buffers let a stage move now: read needs room at the sender, network bytes and room, write bytes at the
// receiver.
double available(Stage stage, const Buffers& buffers) {
  switch (stage) {
    case read:
      return buffers.sender_size - buffers.sender_bytes;
    case network:
      return std::min(buffers.sender_bytes, buffers.receiver_size - buffers.receiver_bytes);
    case write:
      return buffers.receiver_bytes;
  }
  return 0.0;
}

void book(Stage stage, double bytes, Buffers& buffers) {
  if (stage == read) {
    buffers.sender_bytes += bytes;
  } else if (stage == network) {
    buffers.sender_bytes -= bytes;
    buffers.receiver_bytes += bytes;
  } else {
    buffers.receiver_bytes -= bytes;
  }
}

}  // namespace

void TaskQueue::delay_earliest() {
  const Task moving = tasks_.front();
  std::size_t hole = 0;
  for (std::size_t child = 1; child < tasks_.size(); child = 2 * hole + 1) {
    if (child + 1 < tasks_.size() && before(tasks_[child + 1], tasks_[child])) {
      ++child;
    }
    if (!before(tasks_[child], moving)) {
      break;
    }
    tasks_[hole] = tasks_[child];
    hole = child;
  }
  tasks_[hole] = moving;
}

void TaskQueue::remove_earliest() {
  tasks_.front() = tasks_.back();
  tasks_.pop_back();
  if (!tasks_.empty()) {
    delay_earliest();
  }
}

// The pace of a thread is its share of what the stage carries: past saturation streams share the link evenly at every
// instant, where the paper lets the first ones take all of it and the others nothing; the sum over the interval,
// "overall bandwidth", is the same.
double run_one_stage(const Tasks& tasks, double network_pace, Random& random, TaskQueue& queue) {
  const int threads = tasks.concurrency[network];
  const double thread_pace = network_pace / threads;
  queue.clear();
  for (int thread = 0; thread < threads; ++thread) {
    queue.append({0.0, thread, network, thread_pace * tasks.interval_s});
  }
  double stage_left = std::floor(network_pace * tasks.interval_s);
  double moved = 0.0;
  while (!queue.empty()) {
    TaskQueue::Task& task = queue.earliest();
    const double bytes = std::floor(std::min({transfer_size(tasks.chunk_bytes, random), task.bytes_left, stage_left}));
    moved += bytes;
    stage_left -= bytes;
    task.bytes_left -= bytes;
    task.time_s += bytes / thread_pace + tasks.retry_s;
    // A thread whose bandwidth is used up gets none before the interval ends, so it need not try again.
    if (task.time_s < tasks.interval_s && bytes >= 1.0) {
      queue.delay_earliest();
    } else {
      queue.remove_earliest();
    }
  }
  return moved;
}

// A task is never longer than what is left of the interval, so dividing by the interval is exact; the papers' "finish
// time" of the task popped last can be almost two intervals and would halve the throughput. Epsilon is added where a
// thread had to wait.
Moved run_three_stages(const Tasks& tasks, const Pace& pace, Buffers& buffers, Random& random, TaskQueue& queue) {
  queue.clear();
  int thread = 0;
  for (Stage stage : {read, network, write}) {
    for (int index = 0; index < tasks.concurrency[stage]; ++index) {
      queue.append({0.0, thread++, stage, 0.0});
    }
  }
  Moved moved{};
  while (!queue.empty()) {
    TaskQueue::Task& task = queue.earliest();
    const double thread_pace = pace[task.stage] / tasks.concurrency[task.stage];
    const double in_time = std::floor(thread_pace * (tasks.interval_s - task.time_s));
    const double possible = std::min(in_time, available(task.stage, buffers));
    const double bytes = possible >= 1.0 ? std::min(possible, transfer_size(tasks.chunk_bytes, random)) : 0.0;
    book(task.stage, bytes, buffers);
    moved[task.stage] += bytes;
    const bool must_wait = bytes >= possible && bytes < in_time;
    task.time_s += std::max(bytes / thread_pace, must_wait ? tasks.retry_s : 0.0);
    if (task.time_s < tasks.interval_s && in_time >= 1.0) {
      queue.delay_earliest();
    } else {
      queue.remove_earliest();
    }
  }
  return moved;
}

}  // namespace edt
