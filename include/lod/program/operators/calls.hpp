// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that call one operation of this library, whose arguments come from the operator's slots.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/variable.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

// Arguments of operations. The first one determines the element type T.

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
/// The row shape of a tensor.
struct RowShapeOf {
  Slot slot;
};
/// The contents of a slot, as an operation takes them; any other argument is passed as it is.
template <class T, class E, class A>
decltype(auto) argument(const OperatorCall<E>& call, const A& given) {
  if constexpr (std::derived_from<A, Tensor>) {
    return call.template view<T>(given.slot);
  } else if constexpr (std::same_as<A, Ids>) {
    return call.template view<std::int64_t>(given.slot);
  } else if constexpr (std::same_as<A, LevelsOf>) {
    return (call.tensor(given.slot).lod());
  } else if constexpr (std::same_as<A, RowShapeOf>) {
    return (call.tensor(given.slot).row_shape());
  } else {
    return (given);
  }
}

/// An operator that runs into(executor, arguments..., the tensor of `out`).
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

/// An output that may be left out; `spare` is then written instead.
template <class T, class E>
OutputTensor<T, typename E::device> output_or(const OperatorCall<E>& call, const Slot& out, Variable& spare,
                                              std::size_t i = 0) {
  if (call.has(out, i)) return call.template output<T>(out, i);
  using Any = typename OperatorCall<E>::Any;
  if (!spare.holds<Any>()) spare = Variable(Any());
  return OutputTensor<T, typename E::device>(spare, call.executor().resource(), nullptr);
}

/// All outputs of a parameter as a range of tensors, each of which may be left out, as above. They are in the
/// workspace, since an OutputTensor cannot be moved.
template <class T, class E>
class OutputTensors {
  using Output = OutputTensor<T, typename E::device>;

 public:
  /// `spare` has a variable for each of them.
  OutputTensors(const OperatorCall<E>& call, const Slot& out, std::span<Variable> spare) : OutputTensors(call, out) {
    for (; size_ < out.size; ++size_) {
      ::new (static_cast<void*>(memory_.data() + size_)) Output(output_or<T>(call, out, spare[size_], size_));
    }
  }
  OutputTensors(const OutputTensors&) = delete;
  OutputTensors& operator=(const OutputTensors&) = delete;
  ~OutputTensors() { std::destroy_n(memory_.data(), size_); }

  struct Iterator {
    Output* at;
    LoDTensor<T, typename E::device>& operator*() const noexcept { return **at; }
    Iterator& operator++() noexcept {
      ++at;
      return *this;
    }
  };
  Iterator begin() const noexcept { return {memory_.data()}; }
  std::size_t size() const noexcept { return size_; }

 private:
  OutputTensors(const OperatorCall<E>& call, const Slot& out)
      : memory_(call.executor().workspace(), static_cast<std::int64_t>(out.size)) {}

  Workspace::Loan<Output> memory_;
  std::size_t size_ = 0;
};

/// As `calls`, for an operation with two results, each of which may be left out.
template <Executor E, class Into, class First, class... More>
RunOperator<E> calls_for_two(const Into& into, const Slot& out, const Slot& other, const First& first,
                             const More&... more) {
  return [=, spare = Variable(), other_spare = Variable()](OperatorCall<E>& call) mutable {
    first.with_type(call, [&](auto element) {
      using T = typename decltype(element)::type;
      auto y = output_or<T>(call, out, spare);
      auto z = output_or<T>(call, other, other_spare);
      into(call.executor(), argument<T>(call, first), argument<T>(call, more)..., *y, *z);
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
