// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The outputs of operations. An operation says which levels its result has and what a row is; an output tensor takes
/// that structure, reusing its memory, and an output view must have it already.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// The element type of a tensor or view, without const.
template <class X>
using value_type_t = typename X::value_type;
/// The device of a tensor or view.
template <class X>
using device_t = typename X::device;

/// An argument that an operation changes in place: a tensor, or a view of values that are not const.
template <class X>
concept MutableTensorLike = LoDTensorLike<std::remove_cvref_t<X>> &&
    !std::is_const_v<std::remove_reference_t<decltype(*std::declval<std::remove_reference_t<X>&>().data())>>;

namespace operation {

// Structures of results. Each can tell, without allocating, whether an output already has it, and can create it.

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

/// No levels.
struct PlainRows {
  std::int64_t count;
  std::int64_t rows() const noexcept { return count; }
  bool is(const LoDView& other) const noexcept { return other.levels() == 0 && other.rows() == count; }
  LoD make() const { return LoD(); }
};

/// New levels, written one after the other, outermost first, into scratch memory.
class NewLevels {
 public:
  /// Memory for `levels` levels with `sequences` sequences in all. Without levels, `rows` rows. Throws InvalidLoD for
  /// more levels than a LoD can have.
  NewLevels(Workspace& workspace, int levels, std::int64_t sequences, std::int64_t rows = 0)
      : numbers_(workspace, room(levels, sequences)), sizes_(workspace, levels), rows_(rows) {}
  /// The first `kept` levels of `from`, and memory for `levels` more below them, with `sequences` sequences in all.
  NewLevels(Workspace& workspace, const LoDView& from, int kept, int levels, std::int64_t sequences,
            std::int64_t rows = 0)
      : NewLevels(workspace, kept + levels, sequences_above(from, kept) + sequences, rows) {
    for (int level = 0; level < kept; ++level) add(from.offsets(level));
  }

  /// Adds a level of `size` sequences; the caller must write its offsets into the span, which begins with 0.
  std::span<std::int64_t> add(std::int64_t size) {
    std::int64_t* offsets = numbers_.data() + used_;
    offsets[0] = 0;
    sizes_[levels_++] = size;
    used_ += size + 1;
    return {offsets, static_cast<std::size_t>(size) + 1};
  }
  /// Adds a level of an argument, unchanged.
  void add(std::span<const std::int64_t> offsets) {
    const auto out = add(static_cast<std::int64_t>(offsets.size()) - 1);
    for (std::size_t i = 0; i < offsets.size(); ++i) out[i] = offsets[i] - offsets[0];
  }
  /// The total number of sequences of the first `levels` levels.
  static std::int64_t sequences_above(const LoDView& lod, int levels) {
    std::int64_t sequences = 0;
    for (int level = 0; level < levels; ++level) sequences += lod.size(level);
    return sequences;
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
      spans.emplace_back(offsets, static_cast<std::size_t>(sizes_[level]) + 1);
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

/// The name of an output in error texts: "sequence_pad: dense", or "add: the output", if there is only one.
struct OutputName {
  OutputName(const char* of, const char* which = "the output") noexcept : operation(of), output(which) {}
  std::string text() const { return detail::text({operation, ": ", output}); }

  const char* operation;
  const char* output;
};

/// An output of the caller's: a tensor, which takes the structure of the result, or a view, which must already have it.
/// Borrowed, not copied.
template <class T, class Device>
class Destination {
 public:
  explicit Destination(LoDTensor<T, Device>& tensor) noexcept : tensor_(&tensor) {}
  explicit Destination(const LoDTensorView<T, Device>& view) noexcept : view_(&view) {}

  /// The tensor; null if the output is a view.
  LoDTensor<T, Device>* tensor() const noexcept { return tensor_; }
  /// The view, if the output is one.
  const LoDTensorView<T, Device>& view() const noexcept { return *view_; }

 private:
  LoDTensor<T, Device>* tensor_ = nullptr;
  const LoDTensorView<T, Device>* view_ = nullptr;
};

/// The levels that an output has before the operation.
template <class Y>
LoDView levels_before(const Y& y) noexcept {
  if constexpr (requires { y.tensor(); }) {
    return y.tensor() ? y.tensor()->lod_view() : y.view().lod_view();
  } else {
    return y.lod_view();
  }
}

/// Memory that an operation reads, or another output that it writes, and its name in error texts: an output must not
/// overlap it. All of a tensor's memory counts, since views of former values may exist.
class OtherMemory {
 public:
  template <class T, class Device>
  OtherMemory(const char* name, const LoDTensor<T, Device>& x) noexcept
      : OtherMemory(name, x.data(), x.capacity(), sizeof(T)) {
    tensor_ = &x;
  }
  template <class T, class Device>
  OtherMemory(const char* name, const LoDTensorView<T, Device>& x) noexcept
      : OtherMemory(name, x.data(), x.rows() * x.row_size(), sizeof(T)) {}
  template <class T, class Device>
  OtherMemory(const char* name, const Destination<T, Device>& y) noexcept
      : OtherMemory(y.tensor() ? OtherMemory(name, *y.tensor()) : OtherMemory(name, y.view())) {}
  template <class T>
  OtherMemory(const char* name, std::span<T> values) noexcept
      : OtherMemory(name, values.data(), static_cast<std::int64_t>(values.size()), sizeof(T)) {}
  /// What the operation reads in place of the caller's memory, which counts: ids of 32 bits that were widened.
  template <class Given>
    requires requires(const Given& x) { x.memory_of_caller(); }
  OtherMemory(const char* name, const Given& x) noexcept : OtherMemory(name, x.memory_of_caller()) {}
  /// An optional tensor.
  template <class Optional>
    requires requires(const Optional& x) { x->row_size(); }
  OtherMemory(const char* name, const Optional& x) noexcept
      : OtherMemory(name, x.data(), x ? x->rows() * x->row_size() : 0, sizeof(*x.data())) {}

  /// The same for an operation that can work in place: the output may begin where this does.
  OtherMemory in_place(bool allowed) const noexcept {
    OtherMemory same = *this;
    same.in_place_ = allowed;
    return same;
  }

  const char* name() const noexcept { return name_; }
  std::uintptr_t begin() const noexcept { return begin_; }
  bool empty() const noexcept { return begin_ == end_; }
  /// Whether both contain, or will contain, the same memory: one tensor cannot become two results.
  bool overlaps(const OtherMemory& other) const noexcept {
    if (in_place_ && begin_ == other.begin_) return false;
    if (tensor_ && tensor_ == other.tensor_) return true;
    if (empty() || other.empty()) return false;
    return begin_ < other.end_ && other.begin_ < end_;
  }

 private:
  OtherMemory(const char* name, const void* data, std::int64_t count, std::size_t size) noexcept
      : name_(name),
        begin_(reinterpret_cast<std::uintptr_t>(data)),
        end_(begin_ + static_cast<std::uintptr_t>(count) * size) {}

  const char* name_;
  std::uintptr_t begin_;
  std::uintptr_t end_;
  const void* tensor_ = nullptr;
  bool in_place_ = false;
};

/// An argument of an operation that can work in place: the output may begin where it does.
template <class X>
OtherMemory in_place(const char* name, const X& x, bool allowed = true) noexcept {
  return OtherMemory(name, x).in_place(allowed);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_overlap(const OutputName& name, const OtherMemory& other) {
  throw std::invalid_argument(detail::text({name.text(), " overlaps ", other.name(), ", expected memory of its own"}));
}
/// Throws std::invalid_argument if an output, which is a tensor or a view, overlaps one of the others.
template <class Y>
[[gnu::always_inline]] inline void check_apart(const OutputName& name, const Y& y,
                                               std::initializer_list<OtherMemory> others) {
  const OtherMemory written(name.output, y);
  for (const OtherMemory& other : others) {
    if (other.overlaps(written)) throw_overlap(name, other);
  }
}

/// The same for any number of arguments; the text names one of them by `one` and its number.
template <class View, class Y>
void check_apart_from_all(const OutputName& name, const Y& y, std::span<const View> arguments,
                          const char* one = "tensor ") {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (OtherMemory("", arguments[i]).overlaps(OtherMemory("", y))) {
      throw std::invalid_argument(detail::text({name.text(), " overlaps ", one, i, ", expected memory of its own"}));
    }
  }
}
/// The same for several outputs, which must not overlap each other either.
inline void check_apart(const char* what, std::span<const OtherMemory> outputs,
                        std::span<const OtherMemory> arguments) {
  const auto check = [&](const OtherMemory& output, std::span<const OtherMemory> others) {
    for (const OtherMemory& other : others) {
      if (other.overlaps(output)) {
        throw std::invalid_argument(
            detail::text({what, ": ", output.name(), " overlaps ", other.name(), ", expected memory of its own"}));
      }
    }
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check(outputs[i], arguments);
    check(outputs[i], outputs.first(i));
  }
}

/// Where an operation writes. A tensor takes over its new structure, and new memory if its own does not suffice, when
/// the operation ends, at the destruction of this object: if an exception ends it, the tensor is unchanged. (Its memory
/// may have been written to: an operation allocates all memory before that.)
template <class T, class Device>
class [[nodiscard]] Output : public LoDTensorView<T, Device> {
 public:
  /// An output that already has its structure.
  explicit Output(const LoDTensorView<T, Device>& view) noexcept : LoDTensorView<T, Device>(view) {}
  /// `next` replaces y at the end.
  Output(LoDTensor<T, Device>& y, LoDTensor<T, Device> next) noexcept
      : LoDTensorView<T, Device>(next.view()),
        y_(&y),
        next_(std::move(next)),
        exceptions_(std::uncaught_exceptions()) {}
  Output(Output&& other) noexcept
      : LoDTensorView<T, Device>(other),
        y_(std::exchange(other.y_, nullptr)),
        next_(std::move(other.next_)),
        exceptions_(other.exceptions_) {}
  Output& operator=(Output&&) = delete;
  ~Output() {
    if (y_ && std::uncaught_exceptions() == exceptions_) *y_ = std::move(*next_);
  }

 private:
  LoDTensor<T, Device>* y_ = nullptr;
  std::optional<LoDTensor<T, Device>> next_;
  int exceptions_ = 0;
};

/// The shape of `rows` rows. Throws ShapeMismatch if they have more elements than 64 bits can count.
inline Shape result_shape(const OutputName& name, std::int64_t rows, const Shape& row_shape) {
  try {
    return Shape(rows, row_shape);
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(detail::text({name.text(), ": ", error.what()}));
  }
}

/// `fit` for a tensor that has not all of the result yet.
template <class T, class Device, class Structure>
[[gnu::noinline]] Output<T, Device> fit_anew(const OutputName& name, LoDTensor<T, Device>& y,
                                             const Structure& structure, const Shape& row_shape, bool fits,
                                             typename Device::memory_resource* resource) {
  try {
    // A tensor may have the structure but no memory: see detail::give_up_memory.
    const std::int64_t rows = structure.rows();
    return Output<T, Device>(
        y, y.resized(fits ? y.lod() : structure.make(), row_shape, rows, y.resource() ? y.resource() : resource));
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(detail::text({name.text(), ": ", error.what()}));
  }
}
/// Where to write a result of this structure and row shape. An output that already has them is written in place, so
/// that a second call allocates nothing. Memory for a tensor comes from its own resource, or from `resource` if it has
/// none. Throws ShapeMismatch for a view that does not have them, for a tensor on user's memory that is too small, and
/// if sizes overflow.
template <class T, class Device, class Structure>
[[gnu::always_inline]] inline Output<T, Device> fit(const OutputName& name, LoDTensor<T, Device>& y,
                                                    const Structure& structure, const Shape& row_shape,
                                                    typename Device::memory_resource* resource) {
  const bool fits = y.resource() && structure.is(y.lod_view()) && y.row_shape() == row_shape;
  if (fits && y.capacity() >= y.rows() * y.row_size()) return Output<T, Device>(y.view());
  return fit_anew(name, y, structure, row_shape, fits, resource);
}
template <class T, class Device, class Structure>
Output<T, Device> fit(const OutputName& name, const LoDTensorView<T, Device>& y, const Structure& structure,
                      const Shape& row_shape, typename Device::memory_resource*) {
  if (!structure.is(y.lod_view()) || y.row_shape() != row_shape) {
    throw ShapeMismatch(detail::text(
        {name.text(), ": a view of shape ", to_string(y.shape()), " with ", y.levels(), " levels, expected shape ",
         to_string(result_shape(name, structure.rows(), row_shape)), " and the levels of the result"}));
  }
  return Output<T, Device>(y);
}
/// A compile error unless a tensor is in the memory that the executor works in.
template <class E, class X>
constexpr void check_device() noexcept {
  static_assert(std::same_as<device_t<X>, typename E::device>,
                "the tensors of an operation are in the memory of its executor's device: lod::to brings them there");
}
/// A compile error unless an output is in the executor's memory and has elements of type T, or T is void.
template <class E, class T, class Y>
constexpr void check_output() noexcept {
  check_device<E, Y>();
  static_assert(
      std::is_void_v<T> || std::same_as<value_type_t<Y>, T>,
      "an output has elements of the type that the operation gives: that of its argument, std::int64_t for an "
      "index or for lengths");
}
/// The same for the output of an operation whose elements are of type T; void if the operation writes any type.
/// `others` are the arguments that it reads, and the outputs prepared before. Throws std::invalid_argument if the
/// output overlaps one of them. An operation prepares all outputs, and allocates all memory, before it writes.
template <class T = void, Executor E, class Y, class Structure>
auto prepare(const E& executor, const OutputName& name, Y&& y, const Structure& structure, const Shape& row_shape,
             std::initializer_list<OtherMemory> others) {
  check_output<E, T, std::remove_cvref_t<Y>>();
  check_apart(name, y, others);
  return fit(name, y, structure, row_shape, executor.resource());
}
template <class T, Executor E, class Device, class Structure>
[[gnu::always_inline]] inline Output<T, Device> prepare(const E& executor, const OutputName& name,
                                                        const Destination<T, Device>& y, const Structure& structure,
                                                        const Shape& row_shape,
                                                        std::initializer_list<OtherMemory> others) {
  check_apart(name, y, others);
  if (y.tensor()) return fit(name, *y.tensor(), structure, row_shape, executor.resource());
  return fit(name, y.view(), structure, row_shape, executor.resource());
}

/// The outputs of an operation that has any number of them, each an `Output` or another type with the same destructor
/// semantics: all are prepared before the first is written.
template <class One>
class Outputs {
 public:
  Outputs(Workspace& workspace, std::size_t count)
      : kept_(workspace), memory_(workspace, static_cast<std::int64_t>(count)) {
    kept_->reserve(count);
  }
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;
  ~Outputs() { kept_->clear(); }

  /// Adds an output that writes to `written`.
  void add(One one, const OtherMemory& written) {
    kept_->push_back(std::move(one));
    ::new (static_cast<void*>(&memory_[size_++])) OtherMemory(written);
  }
  /// Throws std::invalid_argument if two of them overlap.
  void check_apart(const char* what) const {
    OtherMemory* const first = memory_.data();
    std::sort(first, first + size_, [](const OtherMemory& a, const OtherMemory& b) { return a.begin() < b.begin(); });
    const OtherMemory* before = nullptr;
    for (const OtherMemory* one = first; one != first + size_; ++one) {
      if (one->empty()) continue;
      if (before && one->overlaps(*before)) {
        throw std::invalid_argument(detail::text({what, ": two outputs overlap, expected memory of their own"}));
      }
      before = one;
    }
  }

  One* begin() const noexcept { return kept_->data(); }
  One* end() const noexcept { return begin() + size_; }

 private:
  Workspace::Kept<std::vector<One>> kept_;
  Workspace::Loan<OtherMemory> memory_;
  std::int64_t size_ = 0;
};

/// What an error is about: an operation, or an argument of one. It begins the text: "sequence_pool_grad: dy".
struct Subject {
  Subject(const char* of, const char* which = nullptr) noexcept : operation(of), argument(which) {}
  std::string text() const { return argument ? detail::text({operation, ": ", argument}) : operation; }

  const char* operation;
  const char* argument;
};

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_no_level(const Subject& what) {
  throw InvalidLoD(detail::text({what.text(), ": the tensor has no level, expected at least one"}));
}
/// Throws InvalidLoD unless x has a level.
template <class View>
void check_has_level(const View& x, const Subject& what) {
  if (x.levels() == 0) throw_no_level(what);
}

/// For error texts: where the offsets of a level, counted from its first one, differ from those expected.
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
inline void check_row_shape(const Shape& found, const Shape& expected, const Subject& what) {
  if (found != expected) {
    throw ShapeMismatch(
        detail::text({what.text(), ": rows of shape ", to_string(found), ", expected ", to_string(expected)}));
  }
}

/// Throws ShapeMismatch unless there are `expected` rows; `hint` ends the text.
inline void check_row_count(std::int64_t found, std::int64_t expected, const Subject& what, const char* hint = "") {
  if (found != expected)
    throw ShapeMismatch(detail::text({what.text(), ": ", found, " rows, expected ", expected, hint}));
}

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
