// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// A value of one rank on all of them.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/interface.hpp>
#include <lod/mpi/messages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// A binomial tree of ranks, each of which sends on what it has received. (MPI's own broadcast could not be a later
/// step of an operation that does not wait: ranks would begin such steps in different orders.)
template <class Y>
class Broadcast : public Steps {
 public:
  Broadcast(const mpi::Communicator& communicator, int root, Y& y)
      : Steps(communicator), root_(root), y_(&y), agreement_(group, Operation::BROADCAST, root), incoming_(y) {}

  bool next() override {
    switch (step_++) {
      case 0:
        agree();
        return true;
      case 1:
        receive();
        return true;
      case 2:
        send();
        return true;
      default:
        finish();
        return false;
    }
  }

 private:
  bool is_root() const noexcept { return group.rank == root_; }
  /// Counted from the root.
  int place() const noexcept { return (group.rank - root_ + group.size) % group.size; }
  int rank_at(int place) const noexcept { return (place + root_) % group.size; }
  /// The lowest bit of the place, by which it differs from its parent's; for the root, one beyond all places.
  int bit() const noexcept {
    int bit = 1;
    while (bit < group.size && (place() & bit) == 0) bit *= 2;
    return bit;
  }
  int parent() const noexcept { return rank_at(place() - bit()); }
  template <class F>
  void for_each_child(const F& f) const {
    for (int step = bit() / 2; step > 0; step /= 2) {
      if (place() + step < group.size) f(rank_at(place() + step));
    }
  }

  /// Numbers and values, as one message or two.
  template <class Byte>
  Parts<Byte> parts(std::conditional_t<std::is_const_v<Byte>, const std::int64_t, std::int64_t>* numbers,
                    Byte* values) const {
    const Header& header = agreement_.from(root_);
    return {{{numbers, detail::bytes_of<std::int64_t>(header.numbers)}, {values, bytes_of_values(header)}}};
  }

  void agree() {
    agreement_.prepare([&] {
      check_rank(group, root_, agreement_.what());
      if (is_root()) out_ = outgoing(*y_);
      agreement_.to_all(is_root() ? out_.header : expected<Y>());
    });
    agreement_.exchange(messages);
  }
  void receive() {
    agreement_.check();
    const Header& header = agreement_.from(root_);
    for (int rank = 0; rank < group.size; ++rank) {
      check_takes(agreement_.from(rank), header, of_rank(agreement_.what(), rank));
    }
    if (is_root()) return;
    try {
      numbers_.resize(detail::checked_count<std::int64_t>(header.numbers, agreement_.what()));
      incoming_.prepare(header, group.executor.resource());
    } catch (...) {
      error_ = std::current_exception();
      const std::int64_t numbers = detail::bytes_of<std::int64_t>(header.numbers), values = bytes_of_values(header);
      if (values <= group.merged - numbers) {
        pass_on(numbers + values);
      } else {
        pass_on(numbers);
        pass_on(values);
      }
      return;
    }
    values_ = incoming_.values();
    messages.receive(parent(), agreement_.tag(), parts<void>(numbers_.data(), values_));
  }
  /// Without memory for all of it, piece by piece: its children wait.
  void pass_on(std::int64_t bytes) {
    const std::int64_t piece = std::min(bytes, group.piece);
    void* const memory = std::malloc(static_cast<std::size_t>(piece));
    if (!memory && piece > 0) MPI_Abort(group.handle, EXIT_FAILURE);
    Messages pieces(group);
    for (std::int64_t first = 0; first < bytes; first += piece) {
      const std::int64_t count = std::min(bytes - first, piece);
      pieces.receive(parent(), agreement_.tag(), memory, count);
      pieces.complete(true);
      for_each_child([&](int rank) { pieces.send(rank, agreement_.tag(), memory, count); });
      pieces.complete(true);
    }
    std::free(memory);
  }
  void send() {
    if (error_) return;
    const std::int64_t* const numbers = is_root() ? out_.numbers.data() : numbers_.data();
    const void* const values = is_root() ? out_.values : values_;
    for_each_child([&](int rank) { messages.send(rank, agreement_.tag(), parts<const void>(numbers, values)); });
  }
  void finish() {
    if (error_) std::rethrow_exception(error_);
    if (is_root()) return;
    const std::span<const std::int64_t> numbers = numbers_;
    incoming_.finish(group.executor.workspace(), {&numbers, 1});
  }

  int root_;
  Y* y_;
  Agreement agreement_;
  Incoming<Y> incoming_;
  Outgoing out_;
  std::vector<std::int64_t> numbers_;
  void* values_ = nullptr;
  std::exception_ptr error_;
  int step_ = 0;
};

template <class Y>
auto broadcasting(const mpi::Communicator& communicator, int root) {
  return [&communicator, root](Y& y) { return Broadcast<Y>(communicator, root, y); };
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// Lets `y` of all ranks be that of the rank `root`, which is only read: a LoDTensor, SelectedRows, any-typed values, a
/// LoD or descriptions. Throws ShapeMismatch if the elements of another rank's are of another type, OutOfRange for a
/// root that is no rank; on all ranks.
template <between_ranks::Carried Y>
void broadcast_into(const Communicator& communicator, int root, Y& y) {
  between_ranks::run_into(y, between_ranks::broadcasting<Y>(communicator, root));
}
/// The same by value: x of the root. What other ranks pass counts only by its type.
template <between_ranks::Carried Y>
[[nodiscard]] Y broadcast(const Communicator& communicator, int root, Y x = Y()) {
  return between_ranks::run(std::move(x), between_ranks::broadcasting<Y>(communicator, root));
}
/// `broadcast_into` that does not wait. The root must not change `y`, nor others touch it, until it has ended.
template <between_ranks::Carried Y>
[[nodiscard]] Pending<void> start_broadcast_into(const Communicator& communicator, int root, Y& y) {
  return between_ranks::start_into(communicator, y, between_ranks::broadcasting<Y>(communicator, root));
}
template <between_ranks::Carried Y>
[[nodiscard]] Pending<Y> start_broadcast(const Communicator& communicator, int root, Y x = Y()) {
  return between_ranks::start(communicator, std::move(x), between_ranks::broadcasting<Y>(communicator, root));
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
