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

  int members() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls `work(member)` once for every member and returns when all are done. `work` must not throw. One call at a
  // time.
  void run(const std::function<void(int)>& work);

 private:
  void serve(int member);

  std::mutex mutex_;
  std::condition_variable started_;
  std::condition_variable done_;
  const std::function<void(int)>* work_ = nullptr;
  unsigned long long round_ = 0;
  int busy_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace edt
