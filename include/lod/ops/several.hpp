// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations on any number of tensors or row-sparse tensors, which users pass one by one, or as one range.
///
/// `Takes<Several<Tensor>>`: the body sees a span of views. `Takes<Several<Of<SelectedRows>>>`: a span of pointers.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/executor.hpp>
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

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
