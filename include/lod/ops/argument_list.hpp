// SPDX-License-Identifier: Apache-2.0
/// @file
/// Arguments of operations that take several forms. Lists of ids, lengths, masks and other numbers: vectors, spans,
/// arrays, lists in braces, or tensors, whose elements are taken row by row. Optional tensors. Several tensors as one
/// range.
///
/// A list in braces has no type of its own: where one is allowed, the parameter is an `IdList`, `IntegerList` or
/// `MaskList`, or the template parameter has a default, as in `ArgumentList Ids = std::initializer_list<std::int64_t>`.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/target.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE {

/// An optional tensor, as a member of an operation's options: nothing, a tensor, a view, or a pointer to one, which may
/// be null. Borrowed, not copied.
template <class T, class Device = Cpu>
class OptionalTensor {
 public:
  using View = LoDTensorView<const T, Device>;  ///< of the tensor

  LOD_TAGGED OptionalTensor() = default;
  /// Nothing.
  LOD_TAGGED OptionalTensor(std::nullptr_t) noexcept {}
  /// A tensor or a view, which must live as long as this object.
  template <LoDTensorLike X>
    requires std::convertible_to<const X&, View> LOD_TAGGED OptionalTensor(const X& x)
  noexcept : view_(x.view()) {}
  /// The tensor it points to; nothing if it is null.
  template <LoDTensorLike X>
    requires std::convertible_to<const X&, View> LOD_TAGGED OptionalTensor(const X* x)
  noexcept {
    if (x) view_ = x->view();
  }

  /// Whether there is a tensor.
  LOD_TAGGED explicit operator bool() const noexcept { return view_.has_value(); }
  /// Access to the tensor, which must exist.
  LOD_TAGGED const View* operator->() const noexcept { return &*view_; }
  /// The first element; null if nothing was given.
  LOD_TAGGED const T* data() const noexcept { return view_ ? view_->data() : nullptr; }

 private:
  std::optional<View> view_;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// A range of numbers in memory, from which a list is read without a copy.
template <class List>
concept NumberRange = !LoDTensorLike<List> && requires(const List& list) {
  { std::size(list) } -> std::convertible_to<std::size_t>;
  requires std::is_arithmetic_v<std::remove_cvref_t<decltype(std::begin(list)[0])>> ||
      std::convertible_to<decltype(std::begin(list)[0]), bool>;
};
template <class List>
concept ArgumentList = LoDTensorLike<List> || NumberRange<List>;

/// The list itself, or the elements of a tensor.
template <ArgumentList List>
decltype(auto) elements_of(const List& list) {
  if constexpr (LoDTensorLike<List>) {
    static_assert(std::same_as<typename List::device, Cpu>, "a list says what the result is like: expected on the CPU");
    return list.view().values();
  } else if constexpr (std::is_array_v<List>) {
    return std::span(list);
  } else {
    return (list);
  }
}

/// Ids, lengths and other numbers, contiguous in memory.
template <ArgumentList List>
std::span<const std::int64_t> ids_of(const List& list) {
  const auto& ids = elements_of(list);
  static_assert(std::same_as<std::remove_cvref_t<decltype(*ids.begin())>, std::int64_t> &&
                    std::contiguous_iterator<decltype(ids.begin())>,
                "the numbers of a list are int64, and lie one after the other");
  return {ids.size() > 0 ? &*ids.begin() : nullptr, ids.size()};
}

/// The element type of a range.
template <class Range>
using element_t = std::remove_cvref_t<decltype(*std::declval<const Range&>().begin())>;

/// Several tensors or views as one argument: a vector, a span, an array. A tensor also has a beginning and an end, but
/// is a single argument.
template <class Range>
concept TensorRange = !LoDTensorLike<Range> && requires(const Range& range) {
  range.size();
  requires LoDTensorLike<element_t<Range>>;
};

/// A list of ids, lengths or other int64 numbers as an argument: a vector, a span, an array, a list in braces, or a
/// tensor on the CPU, whose elements are taken row by row. Borrowed, not copied.
class IdList : public std::span<const std::int64_t> {
 public:
  /// The numbers in braces.
  IdList(std::initializer_list<std::int64_t> ids) noexcept : span(ids.begin(), ids.size()) {}
  /// The list itself, which must live as long as this object.
  template <ArgumentList List>
  IdList(const List& list) noexcept : span(ids_of(list)) {}
};

/// Returns f(iterator to the first element) for a List by its address, or, if List is a pointer, that of its elements.
template <class List, class F>
auto from_first(const void* list, const F& f) {
  if constexpr (std::is_pointer_v<List>) {
    return f(static_cast<List>(list));
  } else {
    const auto& elements = elements_of(*static_cast<const List*>(list));
    return f(elements.begin());
  }
}

/// A list of yes or no, one for each sequence, as an argument. It takes the same forms as an IdList, with elements that
/// are bool, or numbers, which are true unless they are 0. Borrowed, not copied.
class MaskList {
 public:
  /// The elements in braces.
  MaskList(std::initializer_list<bool> mask) noexcept
      : list_(mask.begin()), size_(static_cast<std::int64_t>(mask.size())), find_(find_elements<const bool*>) {}
  /// The list itself, which must live as long as this object.
  template <ArgumentList List>
  MaskList(const List& mask) noexcept
      : list_(&mask), size_(static_cast<std::int64_t>(elements_of(mask).size())), find_(find_elements<List>) {}

  /// The number of elements.
  std::int64_t size() const noexcept { return size_; }
  /// Writes to `positions` where the elements are `kept`, and returns how many they are.
  std::int64_t find(bool kept, std::int64_t* positions) const { return find_(list_, size_, kept, positions); }

 private:
  template <class List>
  static std::int64_t find_elements(const void* list, std::int64_t size, bool kept, std::int64_t* positions) {
    return from_first<List>(list, [&](const auto first) {
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < size; ++i) {
        if (static_cast<bool>(first[i]) == kept) positions[count++] = i;
      }
      return count;
    });
  }

  const void* list_;
  std::int64_t size_;
  std::int64_t (*find_)(const void*, std::int64_t, bool, std::int64_t*);
};

template <class List>
concept ListOfIntegers =
    ArgumentList<List> && std::integral<element_t<decltype(elements_of(std::declval<const List&>()))>>;

/// A list of integers of any type as an argument. It takes the same forms as an IdList. Borrowed, not copied.
class IntegerList {
 public:
  /// The numbers in braces.
  IntegerList(std::initializer_list<std::int64_t> numbers) noexcept
      : list_(numbers.begin()), size_(static_cast<std::int64_t>(numbers.size())), at_(at<const std::int64_t*>) {}
  /// The list itself, which must live as long as this object.
  template <ListOfIntegers List>
  IntegerList(const List& list) noexcept
      : list_(&list), size_(static_cast<std::int64_t>(elements_of(list).size())), at_(at<List>) {}

  /// The number of elements.
  std::int64_t size() const noexcept { return size_; }
  /// Number i.
  Scalar operator[](std::int64_t i) const { return at_(list_, i); }

 private:
  template <class List>
  static Scalar at(const void* list, std::int64_t i) {
    return from_first<List>(list, [i](const auto first) { return Scalar(first[i]); });
  }

  const void* list_;
  std::int64_t size_;
  Scalar (*at_)(const void*, std::int64_t);
};

}  // namespace operation
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
