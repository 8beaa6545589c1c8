// A fixed team of threads that share the environments of one batch.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace edt {

// Owns and joins its threads. The caller is member 0, so a team of one has no thread of its own.
class Team {
 public:
  explicit Team(int members);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Calls `work(member)` once for each of the first `members` and returns when all are done; the others sleep on.
  // `work` must not throw. One call at a time.
  void run(int members, const std::function<void(int)>& work);

 private:
  // Where a thread waits for its part.
  struct Seat {
    std::condition_variable called;
    bool has_work = false;
  };

  void serve(int member);

  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<Seat> seats_;  // of members 1 and up
  const std::function<void(int)>* work_ = nullptr;
  int busy_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace edt
