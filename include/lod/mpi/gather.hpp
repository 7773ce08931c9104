// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// The values of all ranks as one: on one rank, or on all of them.
#pragma once

#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/exchange.hpp>
#include <lod/mpi/messages.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// The same part for all who receive from this rank.
template <class X>
class Whole : public InPlace {
 public:
  Whole(const char* what, const X& x, const Arriving<X>& y) noexcept : what_(what), x_(&x), y_(&y) {}
  std::vector<Outgoing> operator()() const {
    check_apart(what_, *x_, *y_);
    return for_all(outgoing(*x_));
  }

 private:
  const char* what_;
  const X* x_;
  const Arriving<X>* y_;
};

/// The steps of `gather` and `all_gather`, as run_into takes them.
template <class X>
auto gathering(const mpi::Communicator& communicator, const X& x, int root) {
  return [&communicator, &x, root](Arriving<X>& y) {
    return Exchange<Arriving<X>, Whole<X>>(communicator, Operation::GATHER, Pattern::TO_ROOT, root, y, "gather", x, y);
  };
}
template <class X>
auto gathering_on_all(const mpi::Communicator& communicator, const X& x) {
  return [&communicator, &x](Arriving<X>& y) {
    return Exchange<Arriving<X>, Whole<X>>(communicator, Operation::ALL_GATHER, Pattern::DENSE, 0, y, "all_gather", x,
                                           y);
  };
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// The values of all ranks, one after the other in the order of ranks, on the rank `root`: batches as by `concat`, LoDs
/// likewise, row-sparse values with the ids of all, repeated ones too, descriptions as a list. On other ranks the
/// result has the same levels, row shape and height, and no sequences. x is a tensor, a view, row-sparse values,
/// any-typed values, a LoD or descriptions, of the same type, levels and row shape on all ranks, which may have no
/// sequences. Throws InvalidLoD for different levels, ShapeMismatch for other differences, OutOfRange for a root that
/// is no rank; on all ranks. `y` must not overlap x.
template <between_ranks::Carried X>
void gather_into(const Communicator& communicator, const X& x, int root, between_ranks::Arriving<X>& y) {
  between_ranks::run_into(y, between_ranks::gathering(communicator, x, root));
}
template <between_ranks::Carried X>
[[nodiscard]] between_ranks::Arriving<X> gather(const Communicator& communicator, const X& x, int root) {
  return between_ranks::run(between_ranks::made<between_ranks::Arriving<X>>(communicator),
                            between_ranks::gathering(communicator, x, root));
}
/// `gather` that does not wait; all of x, and `y`, are used until it has ended.
template <between_ranks::Carried X>
[[nodiscard]] Pending<void> start_gather_into(const Communicator& communicator, const X& x, int root,
                                              between_ranks::Arriving<X>& y) {
  return between_ranks::start_into(communicator, y, between_ranks::gathering(communicator, x, root));
}
template <between_ranks::Carried X>
[[nodiscard]] auto start_gather(const Communicator& communicator, const X& x, int root) {
  return between_ranks::start(communicator, between_ranks::made<between_ranks::Arriving<X>>(communicator),
                              between_ranks::gathering(communicator, x, root));
}

/// The same on all ranks.
template <between_ranks::Carried X>
void all_gather_into(const Communicator& communicator, const X& x, between_ranks::Arriving<X>& y) {
  between_ranks::run_into(y, between_ranks::gathering_on_all(communicator, x));
}
template <between_ranks::Carried X>
[[nodiscard]] between_ranks::Arriving<X> all_gather(const Communicator& communicator, const X& x) {
  return between_ranks::run(between_ranks::made<between_ranks::Arriving<X>>(communicator),
                            between_ranks::gathering_on_all(communicator, x));
}
/// `all_gather` that does not wait; all of x, and `y`, are used until it has ended.
template <between_ranks::Carried X>
[[nodiscard]] Pending<void> start_all_gather_into(const Communicator& communicator, const X& x,
                                                  between_ranks::Arriving<X>& y) {
  return between_ranks::start_into(communicator, y, between_ranks::gathering_on_all(communicator, x));
}
template <between_ranks::Carried X>
[[nodiscard]] auto start_all_gather(const Communicator& communicator, const X& x) {
  return between_ranks::start(communicator, between_ranks::made<between_ranks::Arriving<X>>(communicator),
                              between_ranks::gathering_on_all(communicator, x));
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
