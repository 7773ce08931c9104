// SPDX-License-Identifier: Apache-2.0
/// @file
/// The results of operators that compute with dense tensors, described: the rules of elementwise_*, products and
/// reductions for `infer_shapes`. A rule accepts the shapes that its operator accepts, and tells which levels the
/// result has.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/infer.hpp>
#include <lod/program/infer_shape_context.hpp>
#include <lod/program/operators/shapes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

using infer::Dims;

/// A description with other dimensions. It keeps the levels if the number of rows stays the same.
inline LoDTensorDesc reshaped_to(const LoDTensorDesc& x, Dims dims) {
  const Dims& from = x.tensor.dims;
  const bool keeps_levels = !dims.empty() && !from.empty() && dims.front() == from.front();
  return {{x.tensor.data_type, std::move(dims)}, keeps_levels ? x.lod_level.value() : 0};
}
/// The same with other levels.
inline LoDTensorDesc with_levels(LoDTensorDesc x, std::int32_t levels) {
  x.lod_level = levels;
  return x;
}
/// The same with elements of another type.
inline LoDTensorDesc with_type(LoDTensorDesc x, DataType type) {
  x.tensor.data_type = type;
  return x;
}
/// The dimensions [begin, end), as far as there are any.
inline Dims part(const Dims& dims, std::size_t begin, std::size_t end) {
  end = std::min(end, dims.size());
  begin = std::min(begin, end);
  return Dims(dims.begin() + static_cast<std::ptrdiff_t>(begin), dims.begin() + static_cast<std::ptrdiff_t>(end));
}
inline Dims joined(Dims first, const Dims& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_dims(std::string_view parameter, const Dims& found,
                                                              const std::string& expected) {
  throw ShapeMismatch(detail::text(
      {"input '", std::string(parameter), "' of shape ", infer::to_string(found), ", expected ", expected}));
}
/// The axis that an attribute names, of a tensor of rank `rank`.
inline std::size_t axis_in(const InferShapeContext& op, std::string_view name, std::int32_t otherwise, std::size_t rank,
                           std::int64_t beyond = 0) {
  return axis_of(op.attr(name, std::int64_t{otherwise}), rank, beyond);
}
/// The dimensions that an attribute names.
inline Dims dims_in(const InferShapeContext& op, std::string_view name) {
  Dims dims = op.desc().attr<Dims>(name);
  for (const std::int64_t dim : dims) {
    if (dim < -1) throw ShapeMismatch(detail::text({"attribute '", std::string(name), "' with dimension ", dim}));
  }
  return dims;
}

/// The dimensions of both broadcast to each other, as by Broadcast in a run.
inline Dims broadcast(const Dims& x, const Dims& y, std::int64_t axis) {
  const bool is_swapped = y.size() > x.size();
  Dims all = is_swapped ? y : x;
  const Dims& other = is_swapped ? x : y;
  const std::size_t first = axis == -1 ? all.size() - other.size() : axis_of(axis, all.size(), 1);
  for (std::size_t dim = 0; dim < other.size(); ++dim) {
    const bool is_beyond = first + dim >= all.size();
    const std::int64_t mine = is_beyond ? 1 : all[first + dim], theirs = other[dim];
    if (is_beyond ? theirs != 1 : !infer::agree(mine, theirs) && mine != 1 && theirs != 1) {
      throw ShapeMismatch(detail::text({"shapes ", infer::to_string(x), " and ", infer::to_string(y), " with axis ",
                                        axis, ", expected dimensions that are equal or 1"}));
    }
    if (is_beyond) continue;
    // An unknown dimension is 1 or equal to the other, so the result is the other, unless that is 1.
    if (mine == 1 || (mine == infer::unknown && theirs != 1)) all[first + dim] = theirs;
  }
  return all;
}

/// elementwise_*.
inline void infer_elementwise(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X"), y = op.input("Y");
  infer::check_type(y.tensor.data_type, x.tensor.data_type, "input 'Y'");
  const Dims dims = broadcast(x.tensor.dims, y.tensor.dims, op.attr("axis", -1));
  op.set_output("Out", with_levels(reshaped_to(x, dims), x.lod_level));
}
/// less_than, logical_and and the like.
inline void infer_comparison(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims dims = broadcast(x.tensor.dims, op.input("Y").tensor.dims, op.attr("axis", -1));
  op.set_output("Out", {{DataType::BOOL, dims}, x.lod_level});
}
inline void infer_logical_not(InferShapeContext& op) { op.set_output("Out", with_type(op.input("X"), DataType::BOOL)); }
inline void infer_cast(InferShapeContext& op) {
  op.set_output("Out", with_type(op.input("X"), op.data_type("out_dtype", DataType::FP32)));
}
inline void infer_dropout(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  op.set_output("Out", x);
  op.set_output("Mask", with_levels(with_type(x, DataType::UINT8), 0));
}
/// sum: row-sparse only if all inputs are.
inline void infer_sum(InferShapeContext& op) {
  LoDTensorDesc total = op.input("X");
  bool is_sparse = true;
  for (std::size_t i = 0; i < op.inputs("X"); ++i) {
    const LoDTensorDesc one = op.input("X", i);
    if (!infer::agree(one.tensor.dims, total.tensor.dims)) {
      throw_dims("X", one.tensor.dims, infer::to_string(total.tensor.dims));
    }
    total.tensor.dims = infer::known(total.tensor.dims, one.tensor.dims);
    is_sparse = is_sparse && op.input_type("X", i) == VarType::SELECTED_ROWS;
  }
  const VarType::Type kind = op.input_type("X");
  const bool is_dense = kind == VarType::SELECTED_ROWS && !is_sparse;
  op.set_output("Out", total, 0, is_dense ? VarType::LOD_TENSOR : kind);
}

/// mul and fc: the dimensions of rows of x, then those of columns of y.
inline void infer_flattened_product(InferShapeContext& op, std::string_view x_name, std::string_view y_name,
                                    std::int32_t x_rows, std::int32_t y_rows) {
  const LoDTensorDesc x = op.input(x_name), y = op.input(y_name);
  const Dims &left = x.tensor.dims, &right = y.tensor.dims;
  const auto m = static_cast<std::size_t>(x_rows), k = static_cast<std::size_t>(y_rows);
  if (x_rows < 1 || y_rows < 1 || left.size() <= m || right.size() <= k ||
      !infer::agree(infer::product(part(left, m, left.size()), "columns"), infer::product(part(right, 0, k), "rows"))) {
    throw ShapeMismatch(detail::text({"shapes ", infer::to_string(left), " with ", x_rows, " dimensions of rows and ",
                                      infer::to_string(right), " with ", y_rows,
                                      ", expected as many columns of the first as rows of the second"}));
  }
  infer::check_type(y.tensor.data_type, x.tensor.data_type, "the second");
  op.set_output("Out", reshaped_to(x, joined(part(left, 0, m), part(right, k, right.size()))));
}
inline void infer_mul(InferShapeContext& op) {
  infer_flattened_product(op, "X", "Y", op.attr("x_num_col_dims", 1), op.attr("y_num_col_dims", 1));
}
inline void infer_fc(InferShapeContext& op) {
  infer_flattened_product(op, "Input", "W", op.attr("in_num_col_dims", 1), 1);
}
/// matmul and matmul_v2.
inline void infer_matmul(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X"), y = op.input("Y");
  Dims left = x.tensor.dims, right = y.tensor.dims;
  if (left.empty()) throw_dims("X", left, "a dimension or more");
  if (right.empty()) throw_dims("Y", right, "a dimension or more");
  infer::check_type(y.tensor.data_type, x.tensor.data_type, "input 'Y'");
  const bool is_row = left.size() == 1, is_column = right.size() == 1;
  const bool turns_left = op.attr("transpose_X", false) || op.attr("trans_x", false);
  const bool turns_right = op.attr("transpose_Y", false) || op.attr("trans_y", false);
  if (is_row) left.insert(turns_left ? left.end() : left.begin(), 1);
  if (is_column) right.insert(turns_right ? right.begin() : right.end(), 1);
  if (turns_left) std::swap(left.back(), left[left.size() - 2]);
  if (turns_right) std::swap(right.back(), right[right.size() - 2]);
  if (!infer::agree(left.back(), right[right.size() - 2])) {
    throw ShapeMismatch(detail::text({"matrices of shape ", infer::to_string(left), " and ", infer::to_string(right),
                                      ", expected as many columns of the first as rows of the second"}));
  }
  Dims dims = broadcast(part(left, 0, left.size() - 2), part(right, 0, right.size() - 2), -1);
  if (!is_row) dims.push_back(left[left.size() - 2]);
  if (!is_column) dims.push_back(right.back());
  op.set_output("Out", reshaped_to(x, std::move(dims)));
}

/// mean: one number, which has no dimension.
inline void infer_mean(InferShapeContext& op) { op.set_output("Out", {{op.input("X").tensor.data_type}}); }
/// reduce_*.
inline void infer_reduction(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const std::size_t rank = x.tensor.dims.size();
  const Dims axes = op.attr("dim", Dims{0});
  const bool is_all = op.attr("reduce_all", false) || axes.empty(), keeps_dims = op.attr("keep_dim", false);
  std::vector<bool> is_reduced(rank, is_all);
  for (std::size_t i = 0; !is_all && i < axes.size(); ++i) is_reduced[axis_of(axes[i], rank)] = true;
  Dims dims;
  for (std::size_t dim = 0; dim < rank; ++dim) {
    if (!is_reduced[dim] || keeps_dims) dims.push_back(is_reduced[dim] ? 1 : x.tensor.dims[dim]);
  }
  const bool keeps_levels = rank > 0 && !is_reduced[0];
  op.set_output("Out", with_levels(reshaped_to(x, std::move(dims)), keeps_levels ? x.lod_level.value() : 0));
}
/// `x` with another size along an axis.
inline LoDTensorDesc along(LoDTensorDesc x, std::size_t axis, std::int64_t size) {
  x.tensor.dims[axis] = size;
  return x;
}
inline void infer_cross_entropy(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const LoDTensorDesc y = along(x, axis_of(-1, x.tensor.dims.size()), 1);
  op.set_output("Y", y);
  op.set_output("MatchX", with_levels(y, 0));
  op.set_output("XShape", with_levels(reshaped_to(x, joined(x.tensor.dims, {0})), x.lod_level));
}
inline void infer_softmax_with_cross_entropy(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("Logits");
  op.set_output("Softmax", x);
  op.set_output("Loss", along(x, axis_in(op, "axis", -1, x.tensor.dims.size()), 1));
}
inline void infer_top_k(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const std::size_t axis = axis_in(op, "axis", -1, x.tensor.dims.size());
  const std::int64_t k = op.inputs("K") > 0 ? infer::unknown : op.attr("k", 1);
  if (x.tensor.dims[axis] != infer::unknown && x.tensor.dims[axis] < k) {
    throw_dims("X", x.tensor.dims, detail::text({k, " or more along axis ", axis}));
  }
  op.set_output("Out", along(x, axis, k));
  op.set_output("Indices", with_type(along(x, axis, k), DataType::INT64));
}
inline void infer_arg_extreme(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const std::int32_t number = op.attr("dtype", -1);
  const DataType type = number == -1 ? DataType::INT64 : op.data_type("dtype", DataType::INT64);
  Dims dims = x.tensor.dims;
  const bool keeps_dims = op.attr("keepdims", false);
  if (op.attr("flatten", false)) {
    dims.assign(keeps_dims ? dims.size() : 0, 1);
  } else {
    const std::size_t axis = axis_in(op, "axis", -1, dims.size());
    if (keeps_dims) {
      dims[axis] = 1;
    } else {
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
    }
  }
  op.set_output("Out", with_type(reshaped_to(x, std::move(dims)), type));
}
inline void infer_accuracy(InferShapeContext& op) {
  op.set_output("Accuracy", {{DataType::FP32}});
  op.set_output("Correct", {{DataType::INT32}});
  op.set_output("Total", {{DataType::INT32}});
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
