// The team's rounds: start all members, wait for all.
#include "team.hpp"

namespace edt {

Team::Team(int members) {
  for (int member = 1; member < members; ++member) {
    threads_.emplace_back([this, member] { serve(member); });
  }
}

Team::~Team() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void Team::run(const std::function<void(int)>& work) {
  if (threads_.empty()) {
    work(0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    busy_ = static_cast<int>(threads_.size());
    ++round_;
  }
  started_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void Team::serve(int member) {
  unsigned long long served = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    started_.wait(lock, [&] { return ending_ || round_ != served; });
    if (ending_) {
      return;
    }
    served = round_;
    const auto* work = work_;
    lock.unlock();
    (*work)(member);
    lock.lock();
    if (--busy_ == 0) {
      done_.notify_one();
    }
  }
}

}  // namespace edt
