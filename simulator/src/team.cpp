// The team's rounds: start the members, wait for them.
#include "team.hpp"

#include <cstddef>
#include <span>

namespace edt {

Team::Team(int members) : seats_(static_cast<std::size_t>(members - 1)) {
  for (int member = 1; member < members; ++member) {
    threads_.emplace_back([this, member] { serve(member); });
  }
}

Team::~Team() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  for (Seat& seat : seats_) {
    seat.called.notify_one();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void Team::run(int members, const std::function<void(int)>& work) {
  if (members <= 1) {
    work(0);
    return;
  }
  const std::span<Seat> called = std::span(seats_).first(static_cast<std::size_t>(members - 1));
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    busy_ = members - 1;
    for (Seat& seat : called) {
      seat.has_work = true;
    }
  }
  for (Seat& seat : called) {
    seat.called.notify_one();
  }
  work(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void Team::serve(int member) {
  Seat& seat = seats_[static_cast<std::size_t>(member - 1)];
  std::unique_lock lock(mutex_);
  while (true) {
    seat.called.wait(lock, [&] { return ending_ || seat.has_work; });
    if (ending_) {
      return;
    }
    seat.has_work = false;
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
