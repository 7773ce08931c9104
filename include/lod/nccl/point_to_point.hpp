// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup gpu_ranks
/// Values from one GPU to another.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/interface.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/nccl/communicator.hpp>
#include <lod/nccl/sizes.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_gpus::inline LOD_TARGET {

/// What a receiver answers once it has memory, and what stands for a message that failed.
struct Answer {
  std::int64_t failed = 0;
  between_ranks::Words words{};
};

/// A value on its way from this rank to another, one the other way, or both. The receiver answers before anything is
/// enqueued: what NCCL sends cannot be dropped.
template <class X, class Y>
class Transfer {
 public:
  Transfer(const nccl::Communicator& communicator, const char* what)
      : group_(&group_of(communicator)), hosts_(&between_ranks::group_of(group_->hosts)), what_(what) {}

  void operator()(const X* x, int to, Y* y, int from) {
    if (x) between_ranks::check_rank(*hosts_, to, what_);
    if (y) between_ranks::check_rank(*hosts_, from, what_);
    if (x) {
      error_of_sender_ = attempt([&] {
        group_->check_work();
        if (y) check_apart(what_, *x, *y);
        out_ = outgoing(*x);
      });
    }
    out_.header.failed = error_of_sender_ ? 1 : 0;
    exchange([&](between_ranks::Messages& messages) {
      if (x) messages.send(to, first, &out_.header, sizeof out_.header);
      if (y) messages.receive(from, first, &header_, sizeof header_);
    });
    const Answer sent = answer(error_of_sender_);
    Answer received, from_receiver, from_sender;
    if (y && !header_.failed) error_of_receiver_ = attempt([&] { prepare(*y, from); });
    received = answer(error_of_receiver_);
    const bool takes_numbers = y && !header_.failed && !error_of_receiver_;
    exchange([&](between_ranks::Messages& messages) {
      if (x) {
        messages.receive(to, third, &from_receiver, sizeof from_receiver);
        if (error_of_sender_) {
          messages.send(to, second, &sent, sizeof sent);
        } else {
          messages.send(to, second, out_.numbers.data(), static_cast<std::int64_t>(out_.numbers.size_bytes()));
        }
      }
      if (y) {
        messages.send(from, third, &received, sizeof received);
        if (header_.failed) {
          messages.receive(from, second, &from_sender, sizeof from_sender);
        } else {
          messages.receive(from, second, takes_numbers ? numbers_.data() : nullptr,
                           detail::bytes_of<std::int64_t>(header_.numbers));
        }
      }
    });
    enqueue(x && !error_of_sender_ && !from_receiver.failed, to, takes_numbers ? y : nullptr, from);
    if (error_of_sender_) std::rethrow_exception(error_of_sender_);
    if (error_of_receiver_) std::rethrow_exception(error_of_receiver_);
    if (from_sender.failed) throw mpi::RankError(from, from_sender.words.text);
    if (from_receiver.failed) throw mpi::RankError(to, from_receiver.words.text);
  }

 private:
  static constexpr int first = 0, second = 1, third = 2;  // tags

  template <class F>
  static std::exception_ptr attempt(const F& f) noexcept {
    try {
      f();
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }
  static Answer answer(const std::exception_ptr& error) {
    return {error ? 1 : 0, between_ranks::Words(error ? between_ranks::text_of(error) : "")};
  }
  template <class Post>
  void exchange(const Post& post) {
    between_ranks::Messages messages(*hosts_);
    post(messages);
    between_ranks::finish(*hosts_, nullptr, [&](bool wait) { return messages.complete(wait); });
  }
  void prepare(Y& y, int from) {
    group_->check_work();
    between_ranks::check_takes(expected<Y>().header, header_, between_ranks::of_rank(what_, from));
    numbers_.resize(detail::checked_count<std::int64_t>(header_.numbers, what_));
    landing_.emplace(y).prepare(header_, group_->executor.resource());
  }
  void enqueue(bool sends, int to, Y* y, int from) {
    Calls calls(*group_);
    if (sends) {
      for_each_block<Landing<Y>>(out_.header, &out_, nullptr,
                                 [&](std::int64_t bytes, const std::byte* data, std::byte*) {
                                   calls.send(data, bytes * out_.header.rows, to);
                                 });
    }
    if (y) {
      for_each_block(header_, nullptr, &*landing_, [&](std::int64_t bytes, const std::byte*, std::byte* data) {
        calls.receive(data, bytes * header_.rows, from);
      });
    }
    calls.end();
    if (!y) return;
    const std::span<const std::int64_t> numbers = numbers_;
    landing_->finish(between_ranks::joined_levels(hosts_->executor.workspace(), header_.levels, {&numbers, 1}, LoD()));
  }

  Group* group_;
  between_ranks::Group* hosts_;
  const char* what_;
  Outgoing out_;
  Header header_;
  std::vector<std::int64_t> numbers_;
  std::optional<Landing<Y>> landing_;
  std::exception_ptr error_of_sender_;
  std::exception_ptr error_of_receiver_;
};

}  // namespace lod::inline LOD_INTERFACE::between_gpus::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::nccl::inline LOD_TARGET {

/// Sends x, a tensor, a view or row-sparse values on a GPU, to the rank `to`, which must call `receive`, and waits on
/// the CPU until that has memory for it; not for the values. Ranks that send to each other do so by `send_receive`.
/// Throws OutOfRange for a rank that there is not, and, on both ranks, with nothing enqueued, what either throws: on
/// the other one it is a mpi::RankError.
template <between_gpus::Carried X>
void send(const Communicator& communicator, const X& x, int to) {
  using Y = between_gpus::Arriving<X>;
  between_gpus::Transfer<X, Y>(communicator, "send")(&x, to, nullptr, 0);
}
/// What the rank `from` sends, as a Y: a LoDTensor or SelectedRows, on a GPU. Throws ShapeMismatch for another one, and
/// for another type of elements; otherwise as `send`.
template <between_gpus::Carried Y>
void receive_into(const Communicator& communicator, int from, Y& y) {
  between_gpus::Transfer<Y, Y>(communicator, "receive")(nullptr, 0, &y, from);
}
template <between_gpus::Carried Y>
[[nodiscard]] Y receive(const Communicator& communicator, int from) {
  Y y(communicator.executor().resource());
  receive_into(communicator, from, y);
  return y;
}
/// Both at once: x to the rank `to`, and into `y` what comes from the rank `from`, which must do the same, or `send`;
/// `to` must do the same, or `receive`. If one of the two fails, the other one is done, and this throws. `y` must not
/// overlap x.
template <between_gpus::Carried X, between_gpus::Carried Y>
void send_receive_into(const Communicator& communicator, const X& x, int to, int from, Y& y) {
  between_gpus::Transfer<X, Y>(communicator, "send_receive")(&x, to, &y, from);
}
template <between_gpus::Carried X>
[[nodiscard]] between_gpus::Arriving<X> send_receive(const Communicator& communicator, const X& x, int to, int from) {
  between_gpus::Arriving<X> y(communicator.executor().resource());
  send_receive_into(communicator, x, to, from, y);
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::nccl::inline LOD_TARGET
