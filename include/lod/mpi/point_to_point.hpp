// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// Values from one rank to another.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/interface.hpp>
#include <lod/mpi/messages.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

inline void check_tag(int tag, const char* what) {
  if (tag < 0 || tag >= Group::user_tags) {
    throw OutOfRange(detail::text({what, ": tag ", tag, ", expected 0 to ", Group::user_tags - 1}));
  }
}

/// Sends a header under the user's tag, then the contents under a tag that it names: so messages under one tag that are
/// received at the same time stay apart.
template <class X>
class Sending : public Steps {
 public:
  Sending(const mpi::Communicator& communicator, const X& x, int to, int tag)
      : Steps(communicator), x_(&x), to_(to), tag_(tag) {}

  bool next() override {
    if (begun_) {
      if (error_) std::rethrow_exception(error_);
      return false;
    }
    begun_ = true;
    check_rank(group, to_, "send");
    check_tag(tag_, "send");
    try {
      out_ = outgoing(*x_);
    } catch (...) {  // the receiver would wait
      error_ = std::current_exception();
      out_ = Outgoing();
      out_.header.failed = 1;
      words_ = Words(text_of(error_));
    }
    Header& header = out_.header;
    header.tag = group.tag_of_content();
    const int content = static_cast<int>(header.tag);
    messages.send(to_, tag_, &header, sizeof header);
    if (error_) {
      messages.send(to_, content, words_.text, sizeof words_.text);
    } else {
      messages.send(to_, content, out_.numbers.data(), detail::bytes_of<std::int64_t>(header.numbers));
      messages.send(to_, content, out_.values, bytes_of_values(header));
    }
    return true;
  }

 private:
  const X* x_;
  int to_;
  int tag_;
  Outgoing out_;
  Words words_;
  std::exception_ptr error_;
  bool begun_ = false;
};

template <class Y>
class Receiving : public Steps {
 public:
  Receiving(const mpi::Communicator& communicator, int from, int tag, Y& y)
      : Steps(communicator), from_(from), tag_(tag), incoming_(y) {}

  bool next() override {
    switch (step_++) {
      case 0:
        check_rank(group, from_, "receive");
        check_tag(tag_, "receive");
        messages.receive(from_, tag_, &header_, sizeof header_);
        return true;
      case 1:
        receive();
        return true;
      default:
        finish();
        return false;
    }
  }

 private:
  void receive() {
    const int content = static_cast<int>(header_.tag);
    if (header_.failed) {
      messages.receive(from_, content, words_.text, sizeof words_.text);
      return;
    }
    try {
      check_takes(expected<Y>(), header_, of_rank("receive", from_));
      numbers_.resize(detail::checked_count<std::int64_t>(header_.numbers, "receive"));
      incoming_.prepare(header_, group.executor.resource());
    } catch (...) {
      error_ = std::current_exception();
    }
    messages.receive(from_, content, error_ ? nullptr : numbers_.data(),
                     detail::bytes_of<std::int64_t>(header_.numbers));
    messages.receive(from_, content, error_ ? nullptr : incoming_.values(), bytes_of_values(header_));
  }
  void finish() {
    if (header_.failed) throw mpi::RankError(from_, words_.text);
    if (error_) std::rethrow_exception(error_);
    const std::span<const std::int64_t> numbers = numbers_;
    incoming_.finish(group.executor.workspace(), {&numbers, 1});
  }

  int from_;
  int tag_;
  Incoming<Y> incoming_;
  Header header_;
  Words words_;
  std::vector<std::int64_t> numbers_;
  std::exception_ptr error_;
  int step_ = 0;
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// Sends x to the rank `to`, which must call `receive` with the same tag, 0 to 8191: a tensor, a view or a slice, row-
/// sparse values, any-typed values, a LoD, or, with <lod/mpi_descriptions.hpp>, descriptions. As MPI_Send, it may wait
/// for that. Messages under one tag arrive in the order in which they are sent. If x cannot be sent, for example since
/// its ids are more than its rows, the receiver gets a RankError. Throws OutOfRange for a rank that there is not, and
/// for a tag outside that range.
template <between_ranks::Carried X>
void send(const Communicator& communicator, const X& x, int to, int tag = 0) {
  between_ranks::run(between_ranks::Sending<X>(communicator, x, to, tag));
}
/// `send` that does not wait. The values of x are used until it has ended.
template <between_ranks::Carried X>
[[nodiscard]] Pending<void> start_send(const Communicator& communicator, const X& x, int to, int tag = 0) {
  return {communicator, std::make_unique<between_ranks::Sending<X>>(communicator, x, to, tag)};
}

/// What the rank `from` sends, as a Y: a LoDTensor, SelectedRows, an AnyLoDTensor, AnySelectedRows, a LoD, or
/// descriptions. Any-typed values may be received as typed ones, a description as a list of one, and the other way
/// round. Throws ShapeMismatch for something else and for
/// another type of elements, in which case it is dropped; RankError if it could not be sent; OutOfRange as `send` does.
template <between_ranks::Carried Y>
void receive_into(const Communicator& communicator, int from, int tag, Y& y) {
  between_ranks::run(between_ranks::Receiving<Y>(communicator, from, tag, y));
}
template <between_ranks::Carried Y>
[[nodiscard]] Y receive(const Communicator& communicator, int from, int tag = 0) {
  Y y = between_ranks::made<Y>(communicator);
  receive_into(communicator, from, tag, y);
  return y;
}
/// `receive` that does not wait.
template <between_ranks::Carried Y>
[[nodiscard]] Pending<void> start_receive_into(const Communicator& communicator, int from, int tag, Y& y) {
  return {communicator, std::make_unique<between_ranks::Receiving<Y>>(communicator, from, tag, y)};
}
template <between_ranks::Carried Y>
[[nodiscard]] Pending<Y> start_receive(const Communicator& communicator, int from, int tag = 0) {
  return between_ranks::start(communicator, between_ranks::made<Y>(communicator), [&communicator, from, tag](Y& y) {
    return between_ranks::Receiving<Y>(communicator, from, tag, y);
  });
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
