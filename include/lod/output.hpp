// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The outputs of operations. An operation says which levels its result has and what a row is; an output tensor takes
/// that structure, reusing its memory, and an output view must have it already.
#pragma once

#include <lod/error.hpp>
#include <lod/executor.hpp>
#include <lod/kernel.hpp>
#include <lod/lod_index.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/lod_view.hpp>
#include <lod/shape.hpp>
#include <lod/sizes.hpp>
#include <lod/staging.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_TARGET {

/// The element type of a tensor or view, without const.
template <class X>
using value_type_t = typename X::value_type;
/// The device of a tensor or view.
template <class X>
using device_t = typename X::device;

/// What an operation changes in place: a tensor, or a view of values that are not const.
template <class X>
concept MutableTensorLike = LoDTensorLike<std::remove_cvref_t<X>> &&
    !std::is_const_v<std::remove_reference_t<decltype(*std::declval<std::remove_reference_t<X>&>().data())>>;

namespace operation {

// Structures of results. Each can tell, without allocating, whether an output has it already, and can make it.

/// The levels of an argument.
struct SameLevels {
  LoDView from;
  std::int64_t rows() const noexcept { return from.rows(); }
  bool is(const LoDView& other) const noexcept { return from == other; }
  LoD make() const { return from.lod(); }
};

/// The levels of an argument that are above `level`: one row for each sequence of that level.
struct LevelsAbove {
  LoDView from;
  int level;
  std::int64_t rows() const { return from.size(level); }
  bool is(const LoDView& other) const {
    return other.levels() == level && other.rows() == rows() && LoDView::equal_levels(from, other, level);
  }
  LoD make() const {
    std::vector<std::vector<std::int64_t>> offsets;
    for (int above = 0; above < level; ++above) {
      offsets.emplace_back();
      const auto kept = from.offsets(above);
      for (std::int64_t offset : kept) offsets.back().push_back(offset - kept[0]);
    }
    return LoD::from_offsets(offsets);
  }
};

/// No level.
struct PlainRows {
  std::int64_t count;
  std::int64_t rows() const noexcept { return count; }
  bool is(const LoDView& other) const noexcept { return other.levels() == 0 && other.rows() == count; }
  LoD make() const { return LoD(); }
};

/// New levels, written one after the other, outermost first, into scratch memory.
class NewLevels {
 public:
  /// Room for `levels` levels with `sequences` sequences in all. Where there is no level, `rows` rows. Throws
  /// InvalidLoD for more levels than a LoD has.
  NewLevels(Workspace& workspace, int levels, std::int64_t sequences, std::int64_t rows = 0)
      : numbers_(workspace, room(levels, sequences)), sizes_(workspace, levels), rows_(rows) {}

  /// Adds a level of `size` sequences; its offsets are to be written into the span, which begins with 0.
  std::span<std::int64_t> add(std::int64_t size) {
    std::int64_t* offsets = numbers_.data() + used_;
    offsets[0] = 0;
    sizes_[levels_++] = size;
    used_ += size + 1;
    return {offsets, static_cast<std::size_t>(size) + 1};
  }

  int levels() const noexcept { return levels_; }
  std::int64_t rows() const noexcept { return levels_ > 0 ? numbers_[used_ - 1] : rows_; }
  bool is(const LoDView& other) const {
    if (other.levels() != levels_ || other.rows() != rows()) return false;
    const std::int64_t* offsets = numbers_.data();
    for (int level = 0; level < levels_; ++level) {
      const auto theirs = other.offsets(level);
      if (static_cast<std::int64_t>(theirs.size()) != sizes_[level] + 1) return false;
      for (std::size_t i = 0; i < theirs.size(); ++i) {
        if (theirs[i] - theirs[0] != offsets[i]) return false;
      }
      offsets += sizes_[level] + 1;
    }
    return true;
  }
  LoD make() const {
    std::vector<std::span<const std::int64_t>> spans;
    const std::int64_t* offsets = numbers_.data();
    for (int level = 0; level < levels_; ++level) {
      spans.push_back({offsets, static_cast<std::size_t>(sizes_[level]) + 1});
      offsets += sizes_[level] + 1;
    }
    return LoD::from_offsets({spans.data(), spans.size()});
  }

 private:
  static std::int64_t room(int levels, std::int64_t sequences) {
    detail::check_level_count(static_cast<std::size_t>(levels), "the result");
    return detail::saturated_sum(sequences, levels);
  }

  Workspace::Loan<std::int64_t> numbers_;
  Workspace::Loan<std::int64_t> sizes_;
  std::int64_t rows_;
  std::int64_t used_ = 0;
  int levels_ = 0;
};

/// Throws ShapeMismatch where `y` is a view that does not have the structure and the row shape, or a tensor on memory
/// of the user's that is too small; another tensor can take them. For operations with several outputs, which are to be
/// checked before the first is changed.
template <class T, class Device, class Structure>
void check_output(const LoDTensor<T, Device>& y, const Structure& structure, const Shape& row_shape) {
  y.check_room(Shape(structure.rows(), row_shape).elements());
}
template <class T, class Device, class Structure>
void check_output(const LoDTensorView<T, Device>& y, const Structure& structure, const Shape& row_shape) {
  if (!structure.is(y.lod_view()) || y.row_shape() != row_shape) {
    throw ShapeMismatch(detail::text({"output: a view of shape ", to_string(y.shape()), " with ", y.levels(),
                                      " levels, expected shape ", to_string(Shape(structure.rows(), row_shape)),
                                      " and the levels of the result"}));
  }
}

/// Gives `y` the structure and the row shape, and returns where to write. An output that has them already is left as it
/// is, so that a second call allocates nothing.
template <class T, class Device, class Structure>
LoDTensorView<T, Device> fit(LoDTensor<T, Device>& y, const Structure& structure, const Shape& row_shape) {
  if (!structure.is(y.lod_view()) || y.row_shape() != row_shape) {
    y.resize(structure.make(), row_shape, structure.rows());
  }
  return y.view();
}
/// A view as the output must have them: see `check_output`.
template <class T, class Device, class Structure>
LoDTensorView<T, Device> fit(const LoDTensorView<T, Device>& y, const Structure& structure, const Shape& row_shape) {
  check_output(y, structure, row_shape);
  return y;
}
/// The same for the output of an operation, whose elements are of type T; void where the operation writes those of any.
/// A tensor that was made without a memory resource, as one on a GPU may be, gets that of the executor.
template <class T = void, Executor E, class Y, class Structure>
auto prepare(const E& executor, Y&& y, const Structure& structure, const Shape& row_shape) {
  using Output = std::remove_cvref_t<Y>;
  static_assert(std::same_as<typename Output::device, typename E::device>,
                "the tensors of an operation are in the memory of its executor's device: lod::to brings them there");
  static_assert(
      std::is_void_v<T> || std::same_as<typename Output::value_type, T>,
      "an output has elements of the type that the operation gives: that of its argument, std::int64_t for an "
      "index or for lengths");
  if constexpr (requires { y.resource(); }) {
    if (!y.resource()) y = Output(executor.resource());
  }
  return fit(y, structure, row_shape);
}

/// Throws InvalidLoD unless x has a level; `what` begins the text, `argument` follows it.
template <class View>
void check_has_level(const View& x, const char* what, const char* argument = "") {
  if (x.levels() == 0) {
    throw InvalidLoD(detail::text({what, argument, ": the tensor has no level, expected at least one"}));
  }
}

/// For the texts of errors: where the offsets of a level, counted from the first, are not those expected.
inline std::string difference(std::span<const std::int64_t> found, std::span<const std::int64_t> expected) {
  if (found.size() != expected.size()) {
    return detail::text({found.size() - 1, " sequences, expected ", expected.size() - 1});
  }
  for (std::size_t i = 1; i < found.size(); ++i) {
    const std::int64_t offset = found[i] - found[0], other = expected[i] - expected[0];
    if (offset != other) return detail::text({"offset ", offset, " at position ", i, ", expected ", other});
  }
  return {};
}

/// Throws ShapeMismatch unless both row shapes are the same.
inline void check_row_shape(const Shape& found, const Shape& expected, const char* what) {
  if (found != expected) {
    throw ShapeMismatch(detail::text({what, ": rows of shape ", to_string(found), ", expected ", to_string(expected)}));
  }
}

/// Throws ShapeMismatch unless there are `expected` rows; `hint` ends the text.
inline void check_row_count(std::int64_t found, std::int64_t expected, const char* what, const char* hint = "") {
  if (found != expected) throw ShapeMismatch(detail::text({what, ": ", found, " rows, expected ", expected, hint}));
}

}  // namespace operation

}  // namespace lod::inline LOD_TARGET
