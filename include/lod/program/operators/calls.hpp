// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that are one operation of this library, with its arguments from the slots of the operator.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

// Arguments of operations. The first one decides the type T of elements.

/// A tensor with elements of the type T.
struct Tensor {
  Slot slot;
};
/// The first argument: a tensor of float or double.
struct Reals : Tensor {
  template <class E, class F>
  void with_type(const OperatorCall<E>& call, const F& f) const {
    call.with_floating(slot, f);
  }
};
/// The first argument: a tensor of float, double or integers.
struct Numbers : Tensor {
  template <class E, class F>
  void with_type(const OperatorCall<E>& call, const F& f) const {
    call.with_number(slot, f);
  }
};
/// The first argument: a tensor of integers.
struct Integers : Tensor {
  template <class E, class F>
  void with_type(const OperatorCall<E>& call, const F& f) const {
    call.with_id(slot, f);
  }
};
/// A tensor of std::int64_t, whatever T is.
struct Ids {
  Slot slot;
};
/// The levels of a tensor, whatever its elements.
struct LevelsOf {
  Slot slot;
};
/// What is in a slot, as an operation takes it; any other argument stays as it is.
template <class T, class E, class A>
decltype(auto) argument(const OperatorCall<E>& call, const A& given) {
  if constexpr (std::derived_from<A, Tensor>) {
    return call.template view<T>(given.slot);
  } else if constexpr (std::same_as<A, Ids>) {
    return call.template view<std::int64_t>(given.slot);
  } else if constexpr (std::same_as<A, LevelsOf>) {
    return (call.tensor(given.slot).lod());
  } else {
    return (given);
  }
}

/// The run of an operator that calls an operation: into(executor, arguments..., the tensor of `out`).
template <Executor E, class Into, class First, class... More>
RunOperator<E> calls(const Into& into, const Slot& out, const First& first, const More&... more) {
  return [=](OperatorCall<E>& call) {
    first.with_type(call, [&](auto element) {
      using T = typename decltype(element)::type;
      auto y = call.template output<T>(out);
      into(call.executor(), argument<T>(call, first), argument<T>(call, more)..., *y);
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
