// SPDX-License-Identifier: Apache-2.0
/// @file
/// Shape inference: the results of operations, described from descriptions of their arguments.
///
/// Each operation `f` that returns a tensor has a twin `infer_f` at the end of its header, which takes descriptions in
/// place of tensors and returns the description of the result, or an aggregate of descriptions with the names of the
/// results of `f`. These rules hold for all of them:
///
/// - A dimension of -1 is unknown, matches whatever it has to agree with, and takes that number. What depends on values
///   (on LoDs, ids, masks) is -1 in results. Element types and `lod_level` never are.
/// - Where `f` takes a LoD (or a rank table, which is made from one), `infer_f` takes the description of a tensor that
///   has it, of which only the numbers of rows and levels matter. Where it takes a list of numbers, `infer_f` takes the
///   description of the list as a tensor, of which only the number of elements matters; lists that do not affect the
///   result are left out.
/// - `infer_f` throws what `f` throws if the descriptions are enough to detect it; also ShapeMismatch for an element
///   type that `f` does not take, and for a description that no tensor can have: without a dimension, with a dimension
///   under -1, or with a lod_level that is negative or beyond `max_levels`.
/// - The gradient with respect to an argument is described like the argument, without what does not matter for `f` (the
///   levels of an argument used as a list). So `f_grad` has a twin only if it returns gradients for optional arguments:
///   `infer_lstm_grad`, `infer_gru_grad`.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/supports.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::infer {

/// An unknown number of rows, or an unknown dimension.
inline constexpr std::int64_t unknown = -1;

/// The dimensions of a tensor, or of one row.
using Dims = std::vector<std::int64_t>;

/// "{15, -1, 480}".
LOD_TAGGED inline std::string to_string(const Dims& dims) {
  std::string text = "{";
  for (const std::int64_t dim : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text += "}";
}

/// Whether two numbers may be the same.
LOD_TAGGED inline bool agree(std::int64_t a, std::int64_t b) noexcept { return a == b || a == unknown || b == unknown; }
/// The known one of two numbers that agree.
LOD_TAGGED inline std::int64_t known(std::int64_t a, std::int64_t b) noexcept { return a != unknown ? a : b; }

/// Whether all dimensions may be the same.
LOD_TAGGED inline bool agree(const Dims& a, const Dims& b) noexcept {
  bool all = a.size() == b.size();
  for (std::size_t dim = 0; all && dim < a.size(); ++dim) all = agree(a[dim], b[dim]);
  return all;
}
/// What is known of dimensions that agree.
LOD_TAGGED inline Dims known(const Dims& a, const Dims& b) {
  Dims dims = a;
  for (std::size_t dim = 0; dim < a.size(); ++dim) dims[dim] = known(a[dim], b[dim]);
  return dims;
}

/// Unknown if one of the numbers is. Throws ShapeMismatch beyond 64 bits.
LOD_TAGGED inline std::int64_t sum(std::int64_t a, std::int64_t b, const char* what) {
  std::int64_t result = unknown;
  if (a != unknown && b != unknown && __builtin_add_overflow(a, b, &result)) {
    throw ShapeMismatch(detail::text({what, ": ", a, " + ", b, " rows exceed 64 bits"}));
  }
  return result;
}
/// 0 if one of the factors is, even if another is unknown. Throws ShapeMismatch beyond 64 bits.
LOD_TAGGED inline std::int64_t product(const Dims& factors, const char* what) {
  bool is_known = true;
  for (const std::int64_t factor : factors) {
    if (factor == 0) return 0;
    is_known = is_known && factor != unknown;
  }
  if (!is_known) return unknown;
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result)) {
      throw ShapeMismatch(detail::text({what, ": the product of ", to_string(factors), " exceeds 64 bits"}));
    }
  }
  return result;
}

/// Throws ShapeMismatch unless `dims` can be a tensor's.
LOD_TAGGED inline void check_dims(const Dims& dims, const char* what) {
  if (dims.empty()) throw ShapeMismatch(detail::text({what, ": no dimension, expected at least that of the rows"}));
  for (const std::int64_t dim : dims) {
    if (dim < unknown) {
      throw ShapeMismatch(detail::text({what, ": dimension ", dim, ", expected 0 or more, or -1 for unknown"}));
    }
  }
}

/// Throws ShapeMismatch unless the element type is the expected one.
LOD_TAGGED inline void check_type(DataType found, DataType expected, const char* what) {
  if (found != expected) {
    throw ShapeMismatch(
        detail::text({what, ": elements of ", lod::to_string(found), ", expected ", lod::to_string(expected)}));
  }
}
/// Throws ShapeMismatch unless ids may be of the type.
LOD_TAGGED inline void check_ids(DataType found, const char* what) {
  if (found != DataType::INT64 && found != DataType::INT32) {
    throw ShapeMismatch(detail::text({what, ": elements of ", lod::to_string(found), ", expected INT64 or INT32"}));
  }
}
/// Throws ShapeMismatch unless the operation takes elements of the type.
template <class Op>
LOD_TAGGED void check_elements(DataType found, const char* what) {
  if (!Op::has(found)) {
    throw ShapeMismatch(detail::text({what, ": elements of ", lod::to_string(found), ", expected ", Op::words}));
  }
}

/// Throws ShapeMismatch unless there may be `expected` rows.
LOD_TAGGED inline void check_row_count(std::int64_t found, std::int64_t expected, const char* what) {
  if (!agree(found, expected)) {
    throw ShapeMismatch(detail::text({what, ": ", found, " rows, expected ", expected}));
  }
}
/// Throws ShapeMismatch unless both row shapes may be the same; returns what is known of them.
LOD_TAGGED inline Dims common_row_shape(const Dims& found, const Dims& expected, const char* what) {
  if (!agree(found, expected)) {
    throw ShapeMismatch(detail::text({what, ": rows of shape ", to_string(found), ", expected ", to_string(expected)}));
  }
  return known(expected, found);
}

/// A description split into the parts that operations work with.
struct Batch {
  DataType type;
  std::int64_t rows;
  Dims row_shape;
  int levels;

  LOD_TAGGED_COPIES(Batch);
  /// Throws ShapeMismatch for a description that no tensor can have. `what` begins the text.
  LOD_TAGGED Batch(const LoDTensorDesc& x, const char* what) : type(x.tensor.data_type), levels(x.lod_level) {
    check_dims(x.tensor.dims, what);
    if (levels < 0 || levels > max_levels) {
      throw ShapeMismatch(detail::text({what, ": lod_level ", levels, ", expected 0 to ", max_levels}));
    }
    rows = x.tensor.dims.front();
    row_shape.assign(x.tensor.dims.begin() + 1, x.tensor.dims.end());
  }
  LOD_TAGGED Batch(DataType element_type, std::int64_t row_count, Dims shape_of_row, int level_count)
      : type(element_type), rows(row_count), row_shape(std::move(shape_of_row)), levels(level_count) {}

  /// The description itself. Throws InvalidLoD for more levels than a LoD can have.
  LOD_TAGGED operator LoDTensorDesc() const {
    detail::check_level_count(static_cast<std::size_t>(levels), "the result");
    TensorDesc tensor{type, {rows}};
    tensor.dims.insert(tensor.dims.end(), row_shape.begin(), row_shape.end());
    return {std::move(tensor), static_cast<std::int32_t>(levels)};
  }

  /// Elements in a row.
  LOD_TAGGED std::int64_t row_size(const char* what) const { return product(row_shape, what); }
  /// Elements in all rows.
  LOD_TAGGED std::int64_t elements(const char* what) const { return product({rows, row_size(what)}, what); }
  /// The number of sequences of the outermost level; of rows if there is none.
  LOD_TAGGED std::int64_t size() const noexcept { return levels == 0 ? rows : unknown; }

  /// Throws InvalidLoD if there is no level.
  LOD_TAGGED void check_has_level(const char* what) const {
    if (levels == 0) throw InvalidLoD(detail::text({what, ": the tensor has no level, expected at least one"}));
  }
  /// A level, counted from the outermost; negative ones count from the last. Throws InvalidLoD if there is no level,
  /// OutOfRange.
  LOD_TAGGED int level(int counted, const char* what) const {
    check_has_level(what);
    return detail::resolve_level(counted, levels, what);
  }
  /// One row for each sequence of a level, under the levels above it. Throws as `level`.
  LOD_TAGGED Batch pooled(int counted, const char* what) const {
    Batch y = *this;
    y.levels = level(counted, what);
    y.rows = unknown;
    return y;
  }
  /// Throws ShapeMismatch unless a row may be one element.
  LOD_TAGGED void check_scalar_rows(const char* what, const char* expected) const {
    if (!agree(row_size(what), 1)) {
      throw ShapeMismatch(detail::text({what, ": rows of shape ", to_string(row_shape), ", expected ", expected}));
    }
  }
};

/// The batch that an operation computes with. Also throws if the operation does not take the elements.
template <class Op>
LOD_TAGGED Batch batch_for(const LoDTensorDesc& x, const char* what) {
  Batch batch(x, what);
  check_elements<Op>(batch.type, what);
  return batch;
}

/// The number of elements of a list. Throws ShapeMismatch unless they are int64.
LOD_TAGGED inline std::int64_t count_of_ids(const LoDTensorDesc& ids, const char* what) {
  const Batch list(ids, what);
  check_type(list.type, DataType::INT64, what);
  return list.elements(what);
}

/// `y` with the type `sums` in place of T, the type of its elements, which are sums. Throws std::invalid_argument if T
/// has no such sums; the text begins with `what`.
LOD_TAGGED inline LoDTensorDesc with_wide_sums(LoDTensorDesc y, DataType sums, const char* what) {
  const DataType found = y.tensor.data_type;
  const bool half = found == DataType::FP16 || found == DataType::BF16;
  const bool narrow = elements::Id::has(found) && size_of(found) < sizeof(std::int64_t);
  if (sums != (half ? DataType::FP32 : DataType::INT64) || (!half && !narrow)) {
    throw std::invalid_argument(
        detail::text({what, ": sums of type ", to_string(sums), " of elements of type ", to_string(found),
                      ", expected INT64 of BOOL and integers of up to 32 bits, FP32 of FP16 and BF16"}));
  }
  y.tensor.data_type = sums;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::infer
