// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations on any number of tensors or row-sparse tensors, which users pass one by one, or as one range.
///
/// `Takes<Several<Tensor>>`: the body sees a span of views. `Takes<Several<Of<SelectedRows>>>`: a span of pointers.
/// `Takes<Several<TensorOf<U>>, Several<Tensor>>`, two ranges, may have options and several results: the body sees
/// `Views`, those with elements of type T first.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/supports.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Any number of arguments of a kind.
template <class Kind>
struct Several;

/// An argument as an element of the span.
template <class X>
auto source(const X& x) noexcept {
  if constexpr (LoDTensorLike<X>) {
    return x.view();
  } else if constexpr (std::is_pointer_v<X>) {
    return x;
  } else {
    return &x;
  }
}
template <class X>
using Source = decltype(source(std::declval<const X&>()));

/// A range of such arguments.
template <class Range, class Kind>
concept RangeOf = !LoDTensorLike<Range> && requires(const Range& range) {
  range.size();
  requires FirstArgument<std::remove_cv_t<std::remove_pointer_t<element_t<Range>>>, Kind>;
};

template <class Op, class Kind>
struct Forms<Op, Takes<Several<Kind>>> {
  template <Executor E, RangeOf<Kind> Xs>
  [[nodiscard]] auto operator()(const E& executor, const Xs& xs) const {
    using X = std::remove_cv_t<std::remove_pointer_t<element_t<Xs>>>;
    typename Kind::template Result<value_type_t<X>, device_t<X>> y(executor.resource());
    CallInto<Op>()(executor, xs, y);
    return y;
  }
  template <RangeOf<Kind> Xs>
  [[nodiscard]] auto operator()(const Xs& xs) const {
    using X = std::remove_cv_t<std::remove_pointer_t<element_t<Xs>>>;
    return (*this)(default_executor<device_t<X>>(), xs);
  }
  template <Executor E, FirstArgument<Kind> X, FirstArgument<Kind>... More>
  [[nodiscard]] auto operator()(const E& executor, const X& x, const More&... more) const {
    typename Kind::template Result<value_type_t<X>, device_t<X>> y(executor.resource());
    CallInto<Op>()(executor, x, more..., y);
    return y;
  }
  template <FirstArgument<Kind> X, FirstArgument<Kind>... More>
  [[nodiscard]] auto operator()(const X& x, const More&... more) const {
    return (*this)(default_executor<device_t<X>>(), x, more...);
  }
};
template <class Op, class Kind>
struct FormsInto<Op, Takes<Several<Kind>>> {
  template <Executor E, RangeOf<Kind> Xs, class Y>
  void operator()(const E& executor, const Xs& xs, Y&& y) const {
    using One = Source<element_t<Xs>>;
    const Workspace::Loan<One> sources(executor.workspace(), static_cast<std::int64_t>(xs.size()));
    std::int64_t count = 0;
    for (const auto& x : xs) ::new (static_cast<void*>(&sources[count++])) One(source(x));
    run<std::remove_cv_t<std::remove_pointer_t<element_t<Xs>>>>(executor, std::span<const One>(sources.span()), y);
  }
  /// The last argument is the output.
  template <Executor E, FirstArgument<Kind> X, class... More>
    requires(sizeof...(More) > 0)
  void operator()(const E& executor, const X& x, More&&... more) const {
    constexpr std::size_t others = sizeof...(More) - 1;
    const auto all = std::forward_as_tuple(more...);
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      const Source<X> sources[] = {source(x), source(std::get<i>(all))...};
      run<X>(executor, std::span<const Source<X>>(sources), std::get<others>(all));
    }
    (std::make_index_sequence<others>{});
  }

 private:
  template <class X, Executor E, class One, class Y>
  static void run(const E& executor, std::span<const One> sources, Y& y) {
    using T = value_type_t<X>;
    detail::check_elements<Op, T>();
    check_device<E, X>();
    Declared<Op>::template run<E, T>(executor, sources, output<Kind, E, T>(y));
  }
};

/// The tensors of a range as the body of an operation sees them.
template <class T, class Device>
class Views : public std::span<const LoDTensorView<const T, Device>> {
 public:
  using value_type = T;   ///< that of the tensors
  using device = Device;  ///< theirs

  explicit Views(std::span<const LoDTensorView<const T, Device>> views) noexcept
      : std::span<const LoDTensorView<const T, Device>>(views) {}
};
/// Their kind where the elements are of type U, whatever T is.
template <class U>
struct ViewsOf {
  template <class T, class Device>
  using Argument = Views<U, Device>;
};
/// Makes them, in scratch memory.
template <class T, class Device>
class RangeViews {
 public:
  template <Executor E, TensorRange Xs>
  RangeViews(const E& executor, const Xs& xs) : views_(executor.workspace(), static_cast<std::int64_t>(xs.size())) {
    std::int64_t count = 0;
    for (const auto& x : xs) {
      ::new (static_cast<void*>(&views_[count++])) LoDTensorView<const T, Device>(TensorArgument<T, Device>(x));
    }
  }
  Views<T, Device> get() const noexcept { return Views<T, Device>(views_.span()); }

 private:
  Workspace::Loan<LoDTensorView<const T, Device>> views_;
};

template <class Op, class U, template <class, class> class ByValue, class... Kinds>
struct Body<Op, Takes<Several<TensorOf<U>>, Several<Tensor>>, ResultKinds<ByValue, Kinds...>>
    : Body<Op, Takes<Of<Views>, ViewsOf<U>>, ResultKinds<ByValue, Kinds...>> {};
template <class Op, class U>
struct Forms<Op, Takes<Several<TensorOf<U>>, Several<Tensor>>> {
  template <Executor E, TensorRange Ids, TensorRange Xs>
  [[nodiscard]] auto operator()(const E& executor, const Ids& ids, const Xs& xs,
                                const Options<Op, element_t<Xs>>& options = Options<Op, element_t<Xs>>{}) const {
    using X = element_t<Xs>;
    const RangeViews<U, device_t<X>> views(executor, ids);
    const RangeViews<value_type_t<X>, device_t<X>> with(executor, xs);
    return BodyOf<Op>::evaluate(executor, with.get(), views.get(), options);
  }
  template <TensorRange Ids, TensorRange Xs>
  [[nodiscard]] auto operator()(const Ids& ids, const Xs& xs,
                                const Options<Op, element_t<Xs>>& options = Options<Op, element_t<Xs>>{}) const {
    return (*this)(default_executor<device_t<element_t<Xs>>>(), ids, xs, options);
  }
};
template <class Op, class U>
struct FormsInto<Op, Takes<Several<TensorOf<U>>, Several<Tensor>>> {
  template <Executor E, TensorRange Ids, TensorRange Xs, class... Zs>
    requires(sizeof...(Zs) == BodyOf<Op>::outputs)
  void operator()(const E& executor, const Ids& ids, const Xs& xs, const Options<Op, element_t<Xs>>& options,
                  Zs&&... outputs) const {
    using X = element_t<Xs>;
    const RangeViews<U, device_t<X>> views(executor, ids);
    const RangeViews<value_type_t<X>, device_t<X>> with(executor, xs);
    BodyOf<Op>::run(executor, with.get(), views.get(), options, outputs...);
  }
};

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
