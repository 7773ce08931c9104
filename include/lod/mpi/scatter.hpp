// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// A batch shared out between ranks.
#pragma once

#include <lod/core/lod_batch.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/exchange.hpp>
#include <lod/mpi/gather.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/ops/select.hpp>

#include <cstdint>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// The parts of `split`, where they lie.
template <class X>
class EvenParts : public InPlace {
 public:
  EvenParts(int ranks, const X& x, const Arriving<X>& y) noexcept : ranks_(ranks), x_(&x), y_(&y) {}
  std::vector<Outgoing> operator()() const {
    check_apart("scatter", *x_, *y_);
    const auto view = x_->view();
    std::vector<Outgoing> parts;
    std::int64_t begin = 0;
    const auto add = [&](std::int64_t end) {
      parts.push_back(outgoing(view.between(begin, end)));
      begin = end;
    };
    detail::even_cuts(
        view.size(), ranks_, [&](std::int64_t i) { return operation::rows_before(view.lod_view(), i); }, add);
    add(view.size());
    return parts;
  }

 private:
  int ranks_;
  const X* x_;
  const Arriving<X>* y_;
};

template <class X>
auto scattering(const mpi::Communicator& communicator, const X& x, int root) {
  return [&communicator, &x, root](Arriving<X>& y) {
    return Exchange<Arriving<X>, EvenParts<X>>(communicator, Operation::SCATTER, Pattern::FROM_ROOT, root, y,
                                               communicator.size(), x, y);
  };
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// The batch x of the rank `root`, shared out in whole top-level sequences (rows, where there is no level), as even in
/// rows as these allow: rank r gets part r of `split(x, ranks)`, which may have no sequences. So the parts are in the
/// order of ranks, and `gather` of them is x again. What other ranks pass as x counts only by its type. Throws
/// ShapeMismatch if that differs, OutOfRange for a root that is no rank; on all ranks. `y` must not overlap x.
template <LoDTensorLike X>
void scatter_into(const Communicator& communicator, const X& x, int root, between_ranks::Arriving<X>& y) {
  between_ranks::run_into(y, between_ranks::scattering(communicator, x, root));
}
template <LoDTensorLike X>
[[nodiscard]] between_ranks::Arriving<X> scatter(const Communicator& communicator, const X& x, int root) {
  return between_ranks::run(between_ranks::made<between_ranks::Arriving<X>>(communicator),
                            between_ranks::scattering(communicator, x, root));
}

/// The gradient of `scatter`: the gradients of the parts on the rank `root`, as by `gather`. On other ranks it has no
/// sequences.
template <LoDTensorLike DY>
void scatter_grad_into(const Communicator& communicator, const DY& dy, int root, between_ranks::Arriving<DY>& dx) {
  gather_into(communicator, dy, root, dx);
}
template <LoDTensorLike DY>
[[nodiscard]] between_ranks::Arriving<DY> scatter_grad(const Communicator& communicator, const DY& dy, int root) {
  return gather(communicator, dy, root);
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
