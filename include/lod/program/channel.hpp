// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The channel: a queue of tensors between threads, such as those of two programs that run at the same time.
///
///     auto channel = std::make_shared<lod::Channel>(4);
///     std::thread producer([=] {
///       while (auto batch = make_batch()) channel->send({*batch});
///       channel->close();
///     });
///     lod::Channel::Value value;
///     while (channel->receive(value) == lod::Channel::Outcome::DONE) train(value[0]);
///     producer.join();
///
/// In a program, a variable of the type CHANNEL holds one by a shared pointer, and the operators channel_create,
/// channel_send, channel_recv and channel_close work on it. <lod/program/readers.hpp> makes a reader of it.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/forks.hpp>
#include <lod/core/target.hpp>
#include <lod/program/waiting_time.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// A bounded queue of values, first in, first out; a value is a list of tensors. Any number of threads send and
/// receive. Tensors are passed on, not copied: a tensor that the sender keeps shares its memory with the received one.
///
/// In a child of fork() it works if no thread was sending or receiving during the fork. Otherwise those threads and
/// what they had begun are lost: there, `send`, `receive` and `reopen` throw std::runtime_error, and it counts as
/// closed.
class Channel {
 public:
  /// What is sent, such as the tensors of a batch.
  using Value = std::vector<AnyLoDTensor>;
  /// How an attempt to send or to receive ended.
  enum class Outcome {
    DONE,      ///< sent, or received
    CLOSED,    ///< the channel is closed; a receiver has had everything sent before
    TIMED_OUT  ///< nothing happened within the time to wait
  };

  /// A channel with room for `capacity` values that have not been received yet. With 0, a sender waits until a receiver
  /// has taken its value.
  LOD_TAGGED explicit Channel(std::size_t capacity) : capacity_(capacity), queue_(std::make_unique<Queue>()) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  LOD_TAGGED ~Channel() {
    // A condition variable would wait for the lost threads.
    if (!Visit(*this)) static_cast<void>(queue_.release());
  }

  /// Waits for room, no longer than `longest`, and sends. If it is not sent, the value is lost.
  LOD_TAGGED Outcome send(Value value, WaitingTime longest = no_waiting_limit) {
    const Deadline deadline(longest);
    const Visit visit(*this);
    visit.expect("send");
    auto& [mutex, changed, values, is_closed] = *queue_;
    std::unique_lock lock(mutex);
    const std::size_t room = capacity_ > 0 ? capacity_ : 1;
    if (!wait(lock, deadline, [&queue = *queue_, room] { return queue.is_closed || queue.values.size() < room; })) {
      return Outcome::TIMED_OUT;
    }
    if (is_closed) return Outcome::CLOSED;
    std::optional<Outcome> outcome;
    values.push_back({std::move(value), capacity_ > 0 ? nullptr : &outcome});
    changed.notify_all();
    if (capacity_ > 0) return Outcome::DONE;
    if (wait(lock, deadline, [&] { return outcome.has_value(); })) return *outcome;
    values.pop_back();  // its own, the only one
    changed.notify_all();
    return Outcome::TIMED_OUT;
  }
  /// Waits for a value, no longer than `longest`, and takes it. If there is none, `value` stays as it is.
  LOD_TAGGED Outcome receive(Value& value, WaitingTime longest = no_waiting_limit) {
    const Deadline deadline(longest);
    const Visit visit(*this);
    visit.expect("receive");
    auto& values = queue_->values;
    std::unique_lock lock(queue_->mutex);
    if (!wait(lock, deadline, [&queue = *queue_] { return queue.is_closed || !queue.values.empty(); })) {
      return Outcome::TIMED_OUT;
    }
    if (values.empty()) return Outcome::CLOSED;
    value = std::move(values.front().value);
    take_first(Outcome::DONE);
    return Outcome::DONE;
  }

  /// Closes the channel: nothing more can be sent, and waiting threads stop waiting. What has been sent can still be
  /// received. Does nothing if the channel is already closed.
  LOD_TAGGED void close() noexcept {
    const Visit visit(*this);
    if (!visit) return;
    const std::lock_guard lock(queue_->mutex);
    queue_->is_closed = true;
    if (capacity_ == 0 && !queue_->values.empty()) take_first(Outcome::CLOSED);
    queue_->changed.notify_all();
  }
  /// Empties the channel, and opens it again if it is closed.
  LOD_TAGGED void reopen() {
    const Visit visit(*this);
    visit.expect("reopen");
    const std::lock_guard lock(queue_->mutex);
    while (!queue_->values.empty()) take_first(Outcome::CLOSED);
    queue_->is_closed = false;
    queue_->changed.notify_all();
  }
  /// Whether the channel is closed.
  LOD_TAGGED bool is_closed() const {
    const Visit visit(*this);
    if (!visit) return true;
    const std::lock_guard lock(queue_->mutex);
    return queue_->is_closed;
  }
  /// How many values wait to be received.
  LOD_TAGGED std::size_t size() const {
    const Visit visit(*this);
    if (!visit) return 0;
    const std::lock_guard lock(queue_->mutex);
    return queue_->values.size();
  }
  /// The capacity that it was constructed with.
  LOD_TAGGED std::size_t capacity() const noexcept { return capacity_; }

 private:
  struct Sent {
    Value value;
    std::optional<Outcome>* outcome;  ///< where the sender waits for the outcome; null if it does not wait
  };
  /// When a thread stops waiting.
  struct Deadline {
    LOD_TAGGED explicit Deadline(WaitingTime longest) {
      const auto now = std::chrono::steady_clock::now();
      ends = longest < std::chrono::steady_clock::time_point::max() - now;
      if (ends) at = now + longest;
    }
    bool ends;
    std::chrono::steady_clock::time_point at = {};
  };

  struct Queue {
    std::mutex mutex;
    /// Guards all that follows. Each change wakes all threads that wait, since they wait for different things.
    std::condition_variable changed;
    std::deque<Sent> values = {};
    bool is_closed = false;
  };
  /// The threads of this process that are in a member function. Aligned, so that compilers exchange it in one word.
  struct alignas(8) Visitors {
    int forks = detail::forks.seen;  ///< that this process comes from
    unsigned inside = 0;             ///< their number, and `lost` if there were some during one of these forks
  };
  static_assert(std::atomic<Visitors>::is_always_lock_free);
  static constexpr unsigned lost = 1U << 31;
  /// A thread that is in a member function. False if the queue is in the hands of lost threads, and must not be used.
  class Visit {
   public:
    LOD_TAGGED explicit Visit(const Channel& channel) noexcept : channel_(channel) {
      Visitors before = channel.visitors_.load(), now = {};
      do {
        now = before;
        if (now.forks != detail::forks.seen) now = {detail::forks.seen, now.inside > 0 ? lost : 0};
        ++now.inside;
      } while (!channel.visitors_.compare_exchange_weak(before, now));
      is_allowed_ = (now.inside & lost) == 0;
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    LOD_TAGGED ~Visit() {
      Visitors before = channel_.visitors_.load(), now = {};
      do {
        now = before;
        --now.inside;
      } while (!channel_.visitors_.compare_exchange_weak(before, now));
    }
    LOD_TAGGED explicit operator bool() const noexcept { return is_allowed_; }
    /// Throws std::runtime_error if it is false.
    LOD_TAGGED void expect(const char* action) const {
      if (is_allowed_) return;
      throw std::runtime_error(detail::text({"Channel: ", action,
                                             " in a child of fork(): threads that were using it "
                                             "are not in this process, expected a new channel"}));
    }

   private:
    const Channel& channel_;
    bool is_allowed_;
  };

  /// Waits until `is_true()`, or the deadline; returns whether it is true.
  template <class Condition>
  LOD_TAGGED bool wait(std::unique_lock<std::mutex>& lock, const Deadline& deadline, const Condition& is_true) {
    if (deadline.ends) return queue_->changed.wait_until(lock, deadline.at, is_true);
    queue_->changed.wait(lock, is_true);
    return true;
  }
  /// Drops the first value, and tells its sender the outcome if the sender waits for it.
  LOD_TAGGED void take_first(Outcome outcome) noexcept {
    auto& values = queue_->values;
    if (values.front().outcome) *values.front().outcome = outcome;
    values.pop_front();
    queue_->changed.notify_all();
  }

  const std::size_t capacity_;
  std::unique_ptr<Queue> queue_;
  mutable std::atomic<Visitors> visitors_ = Visitors();
};

}  // namespace lod::inline LOD_INTERFACE
