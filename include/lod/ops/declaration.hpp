// SPDX-License-Identifier: Apache-2.0
/// @file
/// An operation is declared once, as `operation::Declared` of its tag; the forms that users call follow from that.
///
/// A declaration says how many tensors an operation takes, its options and its results (`Takes`), its name and which
/// operation is its gradient; `run` is its body. Bodies see views of arguments and a `Destination` for each output, so
/// that there is one for each executor and type of elements, whether tensors, views or slices were given. The public
/// names are objects:
///
///     inline constexpr operation::Call<op::add> add{};
///     inline constexpr operation::CallInto<op::add> add_into{};
///
/// A name that is a C function as well (`div`, `select`), or one that takes template arguments (`sequence_cumsum<U>`),
/// cannot be that of an object: there functions call one.
#pragma once

#include <lod/executor.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The declaration of an operation; each specialises this for its tag.
template <class Op>
struct Declared;

/// What the declaration of an operation derives from: it takes so many tensors, then options, and gives so many
/// tensors. All have one type of elements, unless the declaration has an `Element` of its own.
template <int tensors, class Given, int results = 1>
struct Takes {
  using Options = Given;                   ///< what follows the tensors
  static constexpr int inputs = tensors;   ///< how many tensors it takes
  static constexpr int outputs = results;  ///< how many tensors it gives
  /// The elements of an output of `Of`, where those of the arguments are T.
  template <class T, class Of>
  using Element = T;
  /// What it gives by value; an aggregate, where that is several tensors.
  template <class T, class Device>
  using Result = LoDTensor<T, Device>;
};

/// A tensor as the body of an operation sees it.
template <class E, class T>
using Input = LoDTensorView<const T, typename E::device>;
/// An output as the body of an operation sees it: what `prepare` takes.
template <class E, class T>
using To = Destination<T, typename E::device>;

/// An argument, whose elements are to be of type T.
template <class E, class T, LoDTensorLike X>
Input<E, T> input(const X& x) {
  static_assert(std::same_as<value_type_t<X>, T>, "the tensors that this operation takes have one element type");
  check_device<E, X>();
  return x.view();
}
/// An output of an operation on elements of type T.
template <class Op, class E, class T, class Z>
auto output(Z& z) {
  using Element = typename Declared<Op>::template Element<T, value_type_t<Z>>;
  check_output<E, Element, Z>();
  return To<E, Element>(z);
}

/// The operation on new tensors, of which it returns what it gives.
template <class Op, Executor E, LoDTensorLike X, LoDTensorLike... Xs>
auto evaluate(const E& executor, const typename Declared<Op>::Options& options, const X& x, const Xs&... xs) {
  using T = value_type_t<X>;
  using Tensor = LoDTensor<T, typename E::device>;
  using Result = typename Declared<Op>::template Result<T, typename E::device>;
  detail::check_elements<Op, T>();
  if constexpr (Declared<Op>::outputs == 1) {
    Result y(executor.resource());
    Declared<Op>::run(executor, input<E, T>(x), input<E, T>(xs)..., options, To<E, T>(y));
    return y;
  } else {
    static_assert(Declared<Op>::outputs == 2);
    Result y{Tensor(executor.resource()), Tensor(executor.resource())};
    auto& [first, second] = y;
    Declared<Op>::run(executor, input<E, T>(x), input<E, T>(xs)..., options, To<E, T>(first), To<E, T>(second));
    return y;
  }
}

/// The outputs of a form of the operation.
template <class Op, class... Zs>
concept OutputsOf = sizeof...(Zs) == Declared<Op>::outputs && (LoDTensorLike<std::remove_cvref_t<Zs>> && ...);

template <class Op, int tensors>
struct Forms;
template <class Op, int tensors>
struct FormsInto;

/// The forms by value of an operation on one tensor.
template <class Op>
struct Forms<Op, 1> {
  using Options = typename Declared<Op>::Options;

  template <Executor E, LoDTensorLike X>
  [[nodiscard]] auto operator()(const E& executor, const X& x, const Options& options = {}) const {
    return evaluate<Op>(executor, options, x);
  }
  template <LoDTensorLike X>
  [[nodiscard]] auto operator()(const X& x, const Options& options = {}) const {
    return (*this)(default_executor<device_t<X>>(), x, options);
  }
};
/// Of two.
template <class Op>
struct Forms<Op, 2> {
  using Options = typename Declared<Op>::Options;

  template <Executor E, LoDTensorLike X, LoDTensorLike Y>
  [[nodiscard]] auto operator()(const E& executor, const X& x, const Y& y, const Options& options = {}) const {
    return evaluate<Op>(executor, options, x, y);
  }
  template <LoDTensorLike X, LoDTensorLike Y>
  [[nodiscard]] auto operator()(const X& x, const Y& y, const Options& options = {}) const {
    return (*this)(default_executor<device_t<X>>(), x, y, options);
  }
};
/// Of three.
template <class Op>
struct Forms<Op, 3> {
  using Options = typename Declared<Op>::Options;

  template <Executor E, LoDTensorLike X, LoDTensorLike Y, LoDTensorLike Z>
  [[nodiscard]] auto operator()(const E& executor, const X& x, const Y& y, const Z& z,
                                const Options& options = {}) const {
    return evaluate<Op>(executor, options, x, y, z);
  }
  template <LoDTensorLike X, LoDTensorLike Y, LoDTensorLike Z>
  [[nodiscard]] auto operator()(const X& x, const Y& y, const Z& z, const Options& options = {}) const {
    return (*this)(default_executor<device_t<X>>(), x, y, z, options);
  }
};

/// The forms of an operation on one tensor that write to outputs of the caller's, which come last.
template <class Op>
struct FormsInto<Op, 1> {
  using Options = typename Declared<Op>::Options;

  template <Executor E, LoDTensorLike X, class... Outputs>
    requires OutputsOf<Op, Outputs...>
  void operator()(const E& executor, const X& x, const Options& options, Outputs&&... outputs) const {
    using T = value_type_t<X>;
    detail::check_elements<Op, T>();
    Declared<Op>::run(executor, input<E, T>(x), options, output<Op, E, T>(outputs)...);
  }
  template <Executor E, LoDTensorLike X, class... Outputs>
    requires OutputsOf<Op, Outputs...>
  void operator()(const E& executor, const X& x, Outputs&&... outputs) const {
    (*this)(executor, x, Options{}, outputs...);
  }
};
/// Of two.
template <class Op>
struct FormsInto<Op, 2> {
  using Options = typename Declared<Op>::Options;

  template <Executor E, LoDTensorLike X, LoDTensorLike Y, class... Outputs>
    requires OutputsOf<Op, Outputs...>
  void operator()(const E& executor, const X& x, const Y& y, const Options& options, Outputs&&... outputs) const {
    using T = value_type_t<X>;
    detail::check_elements<Op, T>();
    Declared<Op>::run(executor, input<E, T>(x), input<E, T>(y), options, output<Op, E, T>(outputs)...);
  }
  template <Executor E, LoDTensorLike X, LoDTensorLike Y, class... Outputs>
    requires OutputsOf<Op, Outputs...>
  void operator()(const E& executor, const X& x, const Y& y, Outputs&&... outputs) const {
    (*this)(executor, x, y, Options{}, outputs...);
  }
};
/// Of three.
template <class Op>
struct FormsInto<Op, 3> {
  using Options = typename Declared<Op>::Options;

  template <Executor E, LoDTensorLike X, LoDTensorLike Y, LoDTensorLike Z, class... Outputs>
    requires OutputsOf<Op, Outputs...>
  void operator()(const E& executor, const X& x, const Y& y, const Z& z, const Options& options,
                  Outputs&&... outputs) const {
    using T = value_type_t<X>;
    detail::check_elements<Op, T>();
    Declared<Op>::run(executor, input<E, T>(x), input<E, T>(y), input<E, T>(z), options, output<Op, E, T>(outputs)...);
  }
  template <Executor E, LoDTensorLike X, LoDTensorLike Y, LoDTensorLike Z, class... Outputs>
    requires OutputsOf<Op, Outputs...>
  void operator()(const E& executor, const X& x, const Y& y, const Z& z, Outputs&&... outputs) const {
    (*this)(executor, x, y, z, Options{}, outputs...);
  }
};

/// `f`: the operation by value, with or without an executor.
template <class Op>
struct Call : Forms<Op, Declared<Op>::inputs> {};
/// `f_into`: the operation into outputs of the caller's.
template <class Op>
struct CallInto : FormsInto<Op, Declared<Op>::inputs> {};

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
