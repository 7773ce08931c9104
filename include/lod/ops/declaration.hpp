// SPDX-License-Identifier: Apache-2.0
/// @file
/// An operation is declared once, as `operation::Declared` of its tag; the forms that users call follow from that.
///
///     template <>
///     struct Declared<op::sequence_max_pool_grad> : Takes<Tensor, TensorOf<std::int64_t>, LoD>, With<PoolOptions> {
///       static constexpr const char* name = "sequence_max_pool_grad";
///       template <Executor E, class T>
///       static void run(executor, dy, index, lod, options, dx) { ... }
///     };
///
/// It says what the operation takes (`Takes`), its options if it has any (`With`), its results unless it is one tensor
/// of the same element type (`Gives`), and its kernels (`Launches`). `run` is its body. It sees views of tensors and a
/// `Destination` for each output, so that there is only one body for an executor and an element type, whether tensors,
/// views or slices are passed. The public names are objects:
///
///     inline constexpr operation::Call<op::sequence_max_pool_grad> sequence_max_pool_grad{};
///     inline constexpr operation::CallInto<op::sequence_max_pool_grad> sequence_max_pool_grad_into{};
///
/// A name that is also a C function (`div`, `select`), or that takes template arguments (`sequence_cumsum<U>`), cannot
/// be an object's: there, functions call an object. The same where other forms of the name are functions (`concat`), or
/// where parameters have the name (`filter`), for which compilers would warn of shadowing.
///
/// The first argument says what T is. In `Takes<TensorOf<U>, Tensor>`, for ids and what goes with them, it is the
/// second one, and the body sees that before the ids.
///
/// This header includes what every declaration needs: elements, kernels, outputs, LOD_TARGET.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/floating_point_control.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/supports.hpp>

#include <concepts>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The declaration of an operation; each specialises this for its tag.
template <class Op>
struct Declared;

/// A tensor as the body of an operation sees it.
template <class E, class T>
using Input = LoDTensorView<const T, typename E::device>;
/// An output as the body of an operation sees it: what `prepare` takes.
template <class E, class T>
using To = Destination<T, typename E::device>;

/// A tensor as a parameter of an operation: a view of what the user passes.
template <class T, class Device>
class TensorArgument : public LoDTensorView<const T, Device> {
 public:
  template <LoDTensorLike X>
  TensorArgument(const X& x) noexcept : LoDTensorView<const T, Device>(view_of(x)) {}

 private:
  template <class X>
  static auto view_of(const X& x) noexcept {
    static_assert(std::same_as<device_t<X>, Device>, "the tensors of an operation are in the memory of one device");
    static_assert(std::same_as<value_type_t<X>, T>,
                  "the tensors that an operation takes have one element type, an index std::int64_t");
    return x.view();
  }
};

/// A kind of argument or result: a tensor with fixed elements, where T is the element type of the operation's first
/// argument. `Argument` is the parameter's type, `Result` the type that is returned, `Element` the element type of an
/// output if the caller's tensor has elements of type `Of`.
template <class U>
struct TensorOf {
  template <class T, class Device>
  using Argument = TensorArgument<U, Device>;
  template <class T, class Device>
  using Result = LoDTensor<U, Device>;
  template <class T, class Of>
  using Element = U;
};
/// The same with elements of type T.
struct Tensor {
  template <class T, class Device>
  using Argument = TensorArgument<T, Device>;
  template <class T, class Device>
  using Result = LoDTensor<T, Device>;
  template <class T, class Of>
  using Element = T;
};
/// The same with elements of the type in which those of type T are summed up: float for float16 and bfloat16.
struct Accumulated {
  template <class T, class Device>
  using Argument = TensorArgument<kernel::Accumulator<T>, Device>;
  template <class T, class Device>
  using Result = LoDTensor<kernel::Accumulator<T>, Device>;
  template <class T, class Of>
  using Element = kernel::Accumulator<T>;
};
/// Sums as a result: the caller's output may have the type in which they are computed.
struct Sums : Tensor {
  template <class T, class Of>
  using Element = std::conditional_t<kernel::has_wide_sums<T, Of>, Of, T>;
};
/// Anything else with elements of type T: `SelectedRows`, the weights of a network.
template <template <class, class> class Holder>
struct Of {
  template <class T, class Device>
  using Argument = Holder<T, Device>;
  template <class T, class Device>
  using Result = Holder<T, Device>;
};

/// Outputs of these kinds. `ByValue` is the only output, or an aggregate with a member for each.
template <template <class, class> class ByValue, class... Kinds>
struct ResultKinds;

/// A base of declarations: the arguments before the options. Each is a kind, as above, or the parameter's type.
template <class First, class... More>
struct Takes {
  using Arguments = Takes;
};
/// A base of declarations: the options, which callers may omit. Omitted for operations without options.
template <class Given>
struct With {
  template <class T, class Device>
  using Options = Given;
};
/// The same for options that depend on the elements and the device.
template <template <class, class> class Given>
struct WithTyped {
  template <class T, class Device>
  using Options = Given<T, Device>;
};
/// A base of declarations: the result, if it is not a `Tensor`.
template <class Kind>
struct Gives {
  using Returned = ResultKinds<Kind::template Result, Kind>;
};
/// A base of declarations: two to four results, which are returned in an aggregate.
template <template <class, class> class ByValue, class... Kinds>
struct GivesAll {
  using Returned = ResultKinds<ByValue, Kinds...>;
};

/// A base of declarations: kernels for elements of type T, which the compiled libraries then contain for each type that
/// the operation takes. A kernel that several operations launch is named by one of them. Kernels with other template
/// arguments than T are named by a member `Kernels` of the declaration. Operations that are functions declare nothing
/// but this.
template <class... Tags>
struct Launches {
  template <class T>
  using Kernels = kernel::Instances<kernel::Instance<Tags, T>...>;
};
/// The same for kernels whose only elements are ids, always std::int64_t.
template <class... Tags>
struct LaunchesOnIds {
  using IdKernels = kernel::Instances<kernel::Instance<Tags>...>;
};

/// The options of an operation without options. Braces do not convert to it.
struct NoOptions {
  explicit NoOptions() = default;
};

template <class Kind, class T, class Device>
struct ArgumentOf {
  using type = Kind;
};
template <class Kind, class T, class Device>
  requires requires { typename std::type_identity<typename Kind::template Argument<T, Device>>; }
struct ArgumentOf<Kind, T, Device> {
  using type = typename Kind::template Argument<T, Device>;
};
template <class Op, class T, class Device>
struct OptionsOf {
  using type = NoOptions;
};
template <class Op, class T, class Device>
  requires requires { typename std::type_identity<typename Declared<Op>::template Options<T, Device>>; }
struct OptionsOf<Op, T, Device> {
  using type = typename Declared<Op>::template Options<T, Device>;
};
template <class Op>
struct OutputsOf {
  using type = Gives<Tensor>::Returned;
};
template <class Op>
  requires requires { typename Declared<Op>::Returned; }
struct OutputsOf<Op> {
  using type = typename Declared<Op>::Returned;
};

/// The parameter for an argument, or for the options, where the first argument is an X.
template <class Kind, class X>
using Argument = typename ArgumentOf<Kind, value_type_t<X>, device_t<X>>::type;
template <class Op, class X>
using Options = typename OptionsOf<Op, value_type_t<X>, device_t<X>>::type;
/// What may be the first argument.
template <class X, class Kind>
concept FirstArgument = (std::same_as<Kind, Tensor> && LoDTensorLike<X>) || std::same_as<X, Argument<Kind, X>>;

/// Makes a result without memory, which it will take from a resource.
template <class Y>
struct Unfilled {
  template <class Resource>
  static Y from(Resource* resource) {
    if constexpr (std::constructible_from<Y, Resource*>) {
      return Y(resource);
    } else {
      return Y();
    }
  }
};

/// An argument as the body of an operation takes it: most as they are, ids of 32 bits as those of 64.
template <class E, class X>
decltype(auto) input(const E& executor, const X& argument) {
  if constexpr (requires { argument.as_input(executor); }) {
    return argument.as_input(executor);
  } else {
    return (argument);
  }
}
/// An output as the body of an operation takes it.
template <class Kind, class E, class T, class Z>
decltype(auto) output(Z& z) {
  if constexpr (requires { typename std::type_identity<typename Kind::template Element<T, T>>; }) {
    using Element = typename Kind::template Element<T, value_type_t<Z>>;
    check_output<E, Element, Z>();
    return To<E, Element>(z);
  } else {
    return (z);
  }
}

template <class Op, class Arguments, class Outputs>
struct Body;
/// The body of an operation, once its arguments have the types of its parameters.
template <class Op, class First, class... More, template <class, class> class ByValue, class... Kinds>
struct Body<Op, Takes<First, More...>, ResultKinds<ByValue, Kinds...>> {
  static constexpr int outputs = sizeof...(Kinds);  ///< how many outputs it has

  template <Executor E, class X, class... Zs>
  static void run(const E& executor, const X& x, const Argument<More, X>&... more, const Options<Op, X>& options,
                  Zs&... zs) {
    using T = value_type_t<X>;
    detail::check_elements<Op, T>();
    check_device<E, X>();
    const Argument<First, X>& first = x;
    const detail::FloatingPointControl standard;  // also for what it derives from options
    if constexpr (std::same_as<Options<Op, X>, NoOptions>) {
      Declared<Op>::template run<E, T>(executor, first, input(executor, more)..., output<Kinds, E, T>(zs)...);
    } else {
      detail::pin(options);
      Declared<Op>::template run<E, T>(executor, first, input(executor, more)..., options, output<Kinds, E, T>(zs)...);
    }
  }
  /// Runs the operation with new results and returns them.
  template <Executor E, class X>
  static auto evaluate(const E& executor, const X& x, const Argument<More, X>&... more, const Options<Op, X>& options) {
    using T = value_type_t<X>;
    using Device = device_t<X>;
    ByValue<T, Device> y{Unfilled<typename Kinds::template Result<T, Device>>::from(executor.resource())...};
    if constexpr (outputs == 1) {
      run(executor, x, more..., options, y);
    } else if constexpr (outputs == 2) {
      auto& [a, b] = y;
      run(executor, x, more..., options, a, b);
    } else if constexpr (outputs == 3) {
      auto& [a, b, c] = y;
      run(executor, x, more..., options, a, b, c);
    } else {
      auto& [a, b, c, d] = y;
      run(executor, x, more..., options, a, b, c, d);
    }
    return y;
  }
};
template <class Op, class U, template <class, class> class ByValue, class... Kinds>
struct Body<Op, Takes<TensorOf<U>, Tensor>, ResultKinds<ByValue, Kinds...>>
    : Body<Op, Takes<Tensor, TensorOf<U>>, ResultKinds<ByValue, Kinds...>> {};
template <class Op>
using BodyOf = Body<Op, typename Declared<Op>::Arguments, typename OutputsOf<Op>::type>;

template <class Op, class Arguments>
struct Forms;
template <class Op, class Arguments>
struct FormsInto;
/// The forms of an operation that return their results.
template <class Op, class First, class... More>
struct Forms<Op, Takes<First, More...>> {
  template <Executor E, FirstArgument<First> X>
  [[nodiscard]] auto operator()(const E& executor, const X& x, const Argument<More, X>&... more,
                                const Options<Op, X>& options = Options<Op, X>{}) const {
    return BodyOf<Op>::evaluate(executor, x, more..., options);
  }
  template <FirstArgument<First> X>
  [[nodiscard]] auto operator()(const X& x, const Argument<More, X>&... more,
                                const Options<Op, X>& options = Options<Op, X>{}) const {
    return BodyOf<Op>::evaluate(default_executor<device_t<X>>(), x, more..., options);
  }
};
/// The forms that write to outputs of the caller's, which come last.
template <class Op, class First, class... More>
struct FormsInto<Op, Takes<First, More...>> {
  template <Executor E, FirstArgument<First> X, class... Zs>
    requires(sizeof...(Zs) == BodyOf<Op>::outputs)
  void operator()(const E& executor, const X& x, const Argument<More, X>&... more, const Options<Op, X>& options,
                  Zs&&... outputs) const {
    BodyOf<Op>::run(executor, x, more..., options, outputs...);
  }
  template <Executor E, FirstArgument<First> X, class... Zs>
    requires(sizeof...(Zs) == BodyOf<Op>::outputs && (!std::same_as<std::remove_cvref_t<Zs>, Options<Op, X>> && ...))
  void operator()(const E& executor, const X& x, const Argument<More, X>&... more, Zs&&... outputs) const {
    BodyOf<Op>::run(executor, x, more..., Options<Op, X>{}, outputs...);
  }
};

/// The same where the second tensor says what T is.
template <class Op, class U>
struct Forms<Op, Takes<TensorOf<U>, Tensor>> {
  template <Executor E, LoDTensorLike X>
  [[nodiscard]] auto operator()(const E& executor, const Argument<TensorOf<U>, X>& ids, const X& x,
                                const Options<Op, X>& options = Options<Op, X>{}) const {
    return BodyOf<Op>::evaluate(executor, x, ids, options);
  }
  template <LoDTensorLike X>
  [[nodiscard]] auto operator()(const Argument<TensorOf<U>, X>& ids, const X& x,
                                const Options<Op, X>& options = Options<Op, X>{}) const {
    return BodyOf<Op>::evaluate(default_executor<device_t<X>>(), x, ids, options);
  }
};
template <class Op, class U>
struct FormsInto<Op, Takes<TensorOf<U>, Tensor>> {
  template <Executor E, LoDTensorLike X, class... Zs>
    requires(sizeof...(Zs) == BodyOf<Op>::outputs)
  void operator()(const E& executor, const Argument<TensorOf<U>, X>& ids, const X& x, const Options<Op, X>& options,
                  Zs&&... outputs) const {
    BodyOf<Op>::run(executor, x, ids, options, outputs...);
  }
};

/// `f`: the operation by value, with or without an executor.
template <class Op>
struct Call : Forms<Op, typename Declared<Op>::Arguments> {};
/// `f_into`: the operation into outputs of the caller's.
template <class Op>
struct CallInto : FormsInto<Op, typename Declared<Op>::Arguments> {};

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
