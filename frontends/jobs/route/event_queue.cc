#include "frontends/jobs/route/event_queue.h"

#include <utility>

namespace moec {

void EventQueue::begin(NodeReply reply) {
  {
    const std::lock_guard lock(mutex_);
    if (begun_) return;
    begun_ = std::move(reply);
  }
  changed_.notify_all();
}

bool EventQueue::push(std::string event) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return cancelled_ || events_.size() < kMost; });
    if (cancelled_) return false;
    events_.push_back(std::move(event));
  }
  changed_.notify_all();
  return true;
}

void EventQueue::end() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
}

bool EventQueue::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

NodeReply EventQueue::wait_for_begin() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return begun_.has_value(); });
  return *begun_;
}

EventQueue::News EventQueue::take(std::chrono::milliseconds most) {
  News news;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, most, [&] { return over_ || !events_.empty(); });
    for (const std::string& event : std::exchange(events_, {})) news.events += event;
    news.over = over_;
  }
  changed_.notify_all();
  return news;
}

void EventQueue::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
}

}  // namespace moec
