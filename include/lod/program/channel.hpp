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
#include <lod/core/target.hpp>
#include <lod/program/waiting_time.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// A bounded queue of values, first in, first out; a value is a list of tensors. Any number of threads send and
/// receive. Tensors are passed on, not copied: a tensor that the sender keeps shares its memory with the received one.
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
  LOD_TAGGED explicit Channel(std::size_t capacity) noexcept : capacity_(capacity) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  LOD_TAGGED ~Channel() = default;

  /// Waits for room, no longer than `longest`, and sends. If it is not sent, the value is lost.
  LOD_TAGGED Outcome send(Value value, WaitingTime longest = no_waiting_limit) {
    const Deadline deadline(longest);
    std::unique_lock lock(mutex_);
    const std::size_t room = capacity_ > 0 ? capacity_ : 1;
    const auto may_send = [&] { return is_closed_ || values_.size() < room; };
    if (!wait(lock, deadline, may_send)) return Outcome::TIMED_OUT;
    if (is_closed_) return Outcome::CLOSED;
    std::optional<Outcome> outcome;
    values_.push_back({std::move(value), capacity_ > 0 ? nullptr : &outcome});
    changed_.notify_all();
    if (capacity_ > 0) return Outcome::DONE;
    if (wait(lock, deadline, [&] { return outcome.has_value(); })) return *outcome;
    values_.pop_back();  // its own, the only one
    changed_.notify_all();
    return Outcome::TIMED_OUT;
  }
  /// Waits for a value, no longer than `longest`, and takes it. If there is none, `value` stays as it is.
  LOD_TAGGED Outcome receive(Value& value, WaitingTime longest = no_waiting_limit) {
    const Deadline deadline(longest);
    std::unique_lock lock(mutex_);
    const auto may_receive = [&] { return is_closed_ || !values_.empty(); };
    if (!wait(lock, deadline, may_receive)) return Outcome::TIMED_OUT;
    if (values_.empty()) return Outcome::CLOSED;
    value = std::move(values_.front().value);
    take_first(Outcome::DONE);
    return Outcome::DONE;
  }

  /// Closes the channel: nothing more can be sent, and waiting threads stop waiting. What has been sent can still be
  /// received. Does nothing if the channel is already closed.
  LOD_TAGGED void close() noexcept {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    if (capacity_ == 0 && !values_.empty()) take_first(Outcome::CLOSED);
    changed_.notify_all();
  }
  /// Empties the channel, and opens it again if it is closed.
  LOD_TAGGED void reopen() {
    const std::lock_guard lock(mutex_);
    while (!values_.empty()) take_first(Outcome::CLOSED);
    is_closed_ = false;
    changed_.notify_all();
  }
  /// Whether the channel is closed.
  LOD_TAGGED bool is_closed() const {
    const std::lock_guard lock(mutex_);
    return is_closed_;
  }
  /// How many values wait to be received.
  LOD_TAGGED std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
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

  /// Waits until `is_true()`, or the deadline; returns whether it is true.
  template <class Condition>
  LOD_TAGGED bool wait(std::unique_lock<std::mutex>& lock, const Deadline& deadline, const Condition& is_true) {
    if (deadline.ends) return changed_.wait_until(lock, deadline.at, is_true);
    changed_.wait(lock, is_true);
    return true;
  }
  /// Drops the first value, and tells its sender the outcome if the sender waits for it.
  LOD_TAGGED void take_first(Outcome outcome) noexcept {
    if (values_.front().outcome) *values_.front().outcome = outcome;
    values_.pop_front();
    changed_.notify_all();
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  /// Guards all that follows. Each change wakes all threads that wait, since they wait for different things.
  std::condition_variable changed_;
  std::deque<Sent> values_;
  bool is_closed_ = false;
};

}  // namespace lod::inline LOD_INTERFACE
