// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Readers that take their steps from a channel, or from another reader ahead of time. Readers of files are in
/// <lod/io/batches.hpp>.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/forks.hpp>
#include <lod/core/target.hpp>
#include <lod/program/channel.hpp>
#include <lod/program/run.hpp>
#include <lod/program/variable.hpp>
#include <lod/program/waiting_time.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// Reads what is sent to a channel: each value holds the tensors of one step. Reading ends with the last value sent
/// before the channel was closed.
class ChannelReader final : public Reader {
 public:
  /// `desc` describes the tensors of each step.
  LOD_TAGGED explicit ChannelReader(std::shared_ptr<Channel> channel, ReaderDesc desc = {})
      : channel_(std::move(channel)), desc_(std::move(desc)) {}
  ChannelReader(const ChannelReader&) = delete;
  ChannelReader& operator=(const ChannelReader&) = delete;
  LOD_TAGGED ~ChannelReader() override = default;

  LOD_TAGGED ReaderDesc desc() const override { return desc_; }
  LOD_TAGGED std::optional<std::vector<AnyLoDTensor>> next() override { return next_within(no_waiting_limit); }
  LOD_TAGGED std::optional<std::vector<AnyLoDTensor>> next_within(WaitingTime longest) override {
    std::vector<AnyLoDTensor> step;
    const Channel::Outcome outcome = channel_->receive(step, longest);
    if (outcome == Channel::Outcome::TIMED_OUT) detail::throw_waited_too_long("a step");
    if (outcome == Channel::Outcome::CLOSED) return std::nullopt;
    return step;
  }
  /// Empties the channel, and opens it again.
  LOD_TAGGED void restart() override { channel_->reopen(); }
  /// Closes the channel.
  LOD_TAGGED void interrupt() noexcept override { channel_->close(); }

 private:
  std::shared_ptr<Channel> channel_;
  ReaderDesc desc_;
};

/// Reads ahead: a thread of its own takes the next steps from another reader while the caller works on the current one.
/// The thread starts with the first `next`, and from then on nothing else may use that reader. The reader is
/// interrupted if this object is restarted or destroyed before the last step.
///
/// A child of fork() does not have the thread: `next` throws std::runtime_error there, until `restart`, which begins
/// with what fork() left of the other reader. Make readers in the child if that may be in the middle of a step.
class ReadAhead final : public Reader {
 public:
  /// Keeps up to `steps` steps ready. Throws std::invalid_argument for 0 steps, and without a reader.
  LOD_TAGGED explicit ReadAhead(std::shared_ptr<Reader> from, std::size_t steps = 2)
      : from_(std::move(from)), steps_(steps) {
    if (!from_ || steps_ == 0) throw std::invalid_argument("ReadAhead: expected a reader, and 1 step or more");
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  LOD_TAGGED ~ReadAhead() override { stop(); }

  LOD_TAGGED ReaderDesc desc() const override { return from_->desc(); }
  /// Throws what the other reader threw, once the steps before that have been returned.
  LOD_TAGGED std::optional<std::vector<AnyLoDTensor>> next() override { return next_within(no_waiting_limit); }
  LOD_TAGGED std::optional<std::vector<AnyLoDTensor>> next_within(WaitingTime longest) override {
    if (!ahead_) start();
    if (is_lost()) {
      throw std::runtime_error(
          "ReadAhead: next in a child of fork(): its thread is not in this process, expected a "
          "restart");
    }
    std::vector<AnyLoDTensor> step;
    const Channel::Outcome outcome = ahead_->read.receive(step, longest);
    if (outcome == Channel::Outcome::DONE) return step;
    if (outcome == Channel::Outcome::TIMED_OUT) detail::throw_waited_too_long("a step");
    if (ahead_->error) std::rethrow_exception(ahead_->error);
    return std::nullopt;
  }
  LOD_TAGGED void restart() override {
    stop();
    from_->restart();
  }
  LOD_TAGGED void interrupt() noexcept override { from_->interrupt(); }

 private:
  /// What the thread works on.
  struct Ahead {
    LOD_TAGGED explicit Ahead(std::size_t steps) : read(steps) {}
    LOD_TAGGED ~Ahead() = default;
    Channel read;
    std::thread thread = {};
    std::exception_ptr error = {};  // of the thread, before it closes the channel
    const int forks = detail::forks.seen;
  };

  LOD_TAGGED void start() {
    auto ahead = std::make_unique<Ahead>(steps_);
    ahead->thread = std::thread([from = from_, to = ahead.get()] {
      try {
        while (auto step = from->next()) {
          if (to->read.send(std::move(*step)) != Channel::Outcome::DONE) break;
        }
      } catch (...) {
        to->error = std::current_exception();
      }
      to->read.close();
    });
    ahead_ = std::move(ahead);
  }
  LOD_TAGGED bool is_lost() const noexcept { return ahead_->forks != detail::forks.seen; }
  LOD_TAGGED void stop() noexcept {
    if (!ahead_) return;
    if (is_lost()) {
      static_cast<void>(ahead_.release());  // nobody can wait for the thread, nor take back what it holds
      return;
    }
    ahead_->read.close();
    from_->interrupt();
    ahead_->thread.join();
    ahead_.reset();
  }

  std::shared_ptr<Reader> from_;
  std::size_t steps_;
  std::unique_ptr<Ahead> ahead_;  // null before the first step
};

}  // namespace lod::inline LOD_INTERFACE
