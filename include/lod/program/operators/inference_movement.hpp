// SPDX-License-Identifier: Apache-2.0
/// @file
/// The results of operators that move elements or make tensors, described: the rules of concat, reshape, slice,
/// lookup_table, fill_constant, the norms, convolutions and the like for `infer_shapes`.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/infer.hpp>
#include <lod/program/infer_shape_context.hpp>
#include <lod/program/operators/inference_dense.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/taken_along_axes.hpp>
#include <lod/program/operators/windows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

inline void infer_concat(InferShapeContext& op) {
  LoDTensorDesc all = op.input("X");
  const std::size_t axis = axis_in(op, "axis", 0, all.tensor.dims.size());
  std::int64_t total = 0;
  for (std::size_t i = 0; i < op.inputs("X"); ++i) {
    LoDTensorDesc one = op.input("X", i);
    infer::check_type(one.tensor.data_type, all.tensor.data_type, "input 'X'");
    if (one.tensor.dims.size() == all.tensor.dims.size()) {
      total = infer::sum(total, one.tensor.dims[axis], "concat");
      one.tensor.dims[axis] = all.tensor.dims[axis];
    }
    if (!infer::agree(one.tensor.dims, all.tensor.dims)) {
      throw_dims("X", op.input("X", i).tensor.dims,
                 infer::to_string(all.tensor.dims) + " in all dimensions but " + std::to_string(axis));
    }
    all.tensor.dims = infer::known(all.tensor.dims, one.tensor.dims);
  }
  op.set_output("Out", along(all, axis, total));
}
inline void infer_split(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const std::size_t axis = axis_in(op, "axis", 0, x.tensor.dims.size());
  const std::int64_t size = x.tensor.dims[axis], parts = op.attr("num", 0);
  Dims sections = parts > 0 ? Dims() : dims_in(op, "sections");
  if (parts > 0) {
    if (size != infer::unknown && size % parts != 0) throw_dims("X", x.tensor.dims, "equal parts");
    sections.assign(op.outputs("Out"), size == infer::unknown ? size : size / parts);
  } else {
    const auto open = std::find(sections.begin(), sections.end(), -1);
    std::int64_t known = 0;
    for (const std::int64_t section : sections) known = infer::sum(known, section == -1 ? 0 : section, "split");
    const bool fits = size == infer::unknown || (open == sections.end() ? known == size : known <= size);
    if (!fits) throw_dims("X", x.tensor.dims, detail::text({known, " along axis ", axis}));
    if (open != sections.end() && size != infer::unknown) *open = size - known;
  }
  if (sections.size() != op.outputs("Out") || (parts > 0 && static_cast<std::size_t>(parts) != sections.size())) {
    throw ShapeMismatch(detail::text({op.outputs("Out"), " outputs, expected another number"}));
  }
  for (std::size_t i = 0; i < sections.size(); ++i) {
    op.set_output("Out", with_levels(along(x, axis, sections[i]), axis == 0 ? 0 : x.lod_level.value()), i);
  }
}

/// Operators that return the elements of X under other dimensions. XShape has a dimension of 0 before those of X.
inline void set_reshaped(InferShapeContext& op, const LoDTensorDesc& x, Dims dims) {
  const auto count = [](const Dims& of) { return infer::product(of, "elements"); };
  if (!infer::agree(count(dims), count(x.tensor.dims))) {
    throw_dims("X", x.tensor.dims, detail::text({"the elements of ", infer::to_string(dims)}));
  }
  op.set_output("Out", reshaped_to(x, std::move(dims)));
  op.set_output("XShape", with_levels(reshaped_to(x, joined({0}, x.tensor.dims)), x.lod_level));
}
inline void infer_reshape(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  Dims dims = dims_in(op, "shape");
  const Dims& from = x.tensor.dims;
  if (op.inputs("Shape") + op.inputs("ShapeTensor") > 0) dims.assign(dims.size(), infer::unknown);
  std::size_t open = dims.size(), count = 0;
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    if (dims[dim] == -1) {
      open = dim;
      ++count;
    } else if (dims[dim] == 0 && dim < from.size()) {
      dims[dim] = from[dim];
    }
  }
  if (count == 1) {
    const std::int64_t others =
        infer::product(joined(part(dims, 0, open), part(dims, open + 1, dims.size())), "the elements of 'shape'");
    const std::int64_t all = infer::product(from, "the elements of 'X'");
    if (others != infer::unknown && all != infer::unknown) dims[open] = others > 0 ? all / others : 0;
  }
  set_reshaped(op, x, std::move(dims));
}
inline void infer_squeeze(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims& from = x.tensor.dims;
  const Dims axes = op.attr("axes", Dims());
  std::vector<bool> is_named(from.size(), axes.empty());
  for (const std::int64_t axis : axes) is_named[axis_of(axis, from.size())] = true;
  Dims dims;
  for (std::size_t dim = 0; dim < from.size(); ++dim) {
    if (!is_named[dim] || from[dim] != 1) dims.push_back(from[dim]);
  }
  set_reshaped(op, x, std::move(dims));
}
inline void infer_unsqueeze(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  Dims dims = x.tensor.dims;
  for (const std::int64_t axis : op.desc().attr<Dims>("axes")) {
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis_of(axis, dims.size(), 1)), 1);
  }
  set_reshaped(op, x, std::move(dims));
}
/// flatten and flatten2.
inline void infer_flatten(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims& from = x.tensor.dims;
  const std::size_t axis = axis_in(op, "axis", 1, from.size(), 1);
  set_reshaped(op, x,
               {infer::product(part(from, 0, axis), "rows"), infer::product(part(from, axis, from.size()), "columns")});
}
inline void infer_flatten_contiguous_range(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims& from = x.tensor.dims;
  const std::size_t first = axis_in(op, "start_axis", 1, from.size()), last = axis_in(op, "stop_axis", 1, from.size());
  if (first > last) throw OutOfRange("attribute 'stop_axis' before 'start_axis', expected it there or after");
  Dims dims = part(from, 0, first);
  dims.push_back(infer::product(part(from, first, last + 1), "elements"));
  set_reshaped(op, x, joined(std::move(dims), part(from, last + 1, from.size())));
}
inline void infer_transpose(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims axes = op.desc().attr<Dims>("axis");
  Dims dims = x.tensor.dims;
  std::vector<bool> is_used(dims.size(), false);
  if (axes.size() != dims.size()) throw_dims("X", dims, detail::text({axes.size(), " dimensions, as in 'axis'"}));
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    const std::size_t axis = axis_of(axes[dim], dims.size());
    if (is_used[axis]) throw OutOfRange("attribute 'axis' names a dimension twice, expected each once");
    is_used[axis] = true;
    dims[dim] = x.tensor.dims[axis];
  }
  op.set_output("Out", with_levels(reshaped_to(x, std::move(dims)), 0));
  op.set_output("XShape", with_levels(reshaped_to(x, joined({0}, x.tensor.dims)), x.lod_level));
}
inline void infer_slice(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("Input");
  const Dims axes = op.desc().attr<Dims>("axes"), starts = op.attr("starts", Dims()), ends = op.attr("ends", Dims());
  const bool is_fixed = starts.size() == axes.size() && ends.size() == axes.size() &&
                        op.inputs("StartsTensor") + op.inputs("StartsTensorList") + op.inputs("EndsTensor") +
                                op.inputs("EndsTensorList") ==
                            0;
  Dims dims = x.tensor.dims;
  const std::size_t rank = dims.size();
  bool cuts_rows = false;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t dim = axis_of(axes[i], rank);
    const std::int64_t size = x.tensor.dims[dim];
    const auto place = [size](std::int64_t counted) {
      return std::clamp<std::int64_t>(counted < 0 ? counted + size : counted, 0, size);
    };
    dims[dim] = !is_fixed || size == infer::unknown ? infer::unknown
                                                    : std::max<std::int64_t>(place(ends[i]) - place(starts[i]), 0);
    cuts_rows = cuts_rows || dim == 0;
  }
  std::vector<bool> is_dropped(rank, false);
  for (const std::int64_t axis : op.attr("decrease_axis", Dims())) {
    const std::size_t dim = axis_of(axis, rank);
    if (!infer::agree(dims[dim], 1)) throw_dims("Input", x.tensor.dims, "one element along what is in decrease_axis");
    is_dropped[dim] = true;
  }
  Dims kept;
  for (std::size_t dim = 0; dim < rank; ++dim) {
    if (!is_dropped[dim]) kept.push_back(dims[dim]);
  }
  op.set_output("Out", with_levels(reshaped_to(x, std::move(kept)), cuts_rows ? 0 : x.lod_level.value()));
}
/// gather and index_select.
inline void infer_gather(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const char* const name = op.desc().find_attr("dim") ? "dim" : "axis";
  const std::int64_t count = infer::product(op.input("Index").tensor.dims, "rows");
  op.set_output("Out", with_levels(along(x, axis_in(op, name, 0, x.tensor.dims.size()), count), 0));
}
inline void infer_stack(InferShapeContext& op) {
  LoDTensorDesc x = op.input("X");
  for (std::size_t i = 1; i < op.inputs("X"); ++i) {
    const LoDTensorDesc one = op.input("X", i);
    infer::check_type(one.tensor.data_type, x.tensor.data_type, "input 'X'");
    if (!infer::agree(one.tensor.dims, x.tensor.dims)) {
      throw_dims("X", one.tensor.dims, infer::to_string(x.tensor.dims));
    }
    x.tensor.dims = infer::known(x.tensor.dims, one.tensor.dims);
  }
  Dims& dims = x.tensor.dims;
  const std::size_t axis = axis_in(op, "axis", 0, dims.size(), 1);
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::int64_t>(op.inputs("X")));
  op.set_output("Y", with_levels(x, 0));
}
/// expand and tile.
inline void infer_repeats(InferShapeContext& op, std::string_view name, bool is_tile) {
  const LoDTensorDesc x = op.input("X");
  Dims dims = x.tensor.dims, times = op.desc().attr<Dims>(name);
  if (!is_tile && times.size() != dims.size()) throw_dims("X", dims, detail::text({times.size(), " dimensions"}));
  const std::size_t rank = std::max(dims.size(), times.size());
  dims.insert(dims.begin(), rank - dims.size(), 1);
  times.insert(times.begin(), rank - times.size(), 1);
  for (std::size_t dim = 0; dim < rank; ++dim) {
    if (times[dim] < 1) throw OutOfRange("attribute '" + std::string(name) + "', expected numbers of 1 or more");
    dims[dim] = infer::product({dims[dim], times[dim]}, "repeats");
  }
  const bool keeps_levels = rank > 0 && rank == x.tensor.dims.size() && times[0] == 1;
  op.set_output("Out", with_levels(reshaped_to(x, std::move(dims)), keeps_levels ? x.lod_level.value() : 0));
}
inline void infer_expand(InferShapeContext& op) { infer_repeats(op, "expand_times", false); }
inline void infer_tile(InferShapeContext& op) { infer_repeats(op, "repeat_times", true); }
/// expand_v2 and expand_as_v2.
inline void infer_expand_to(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const Dims& from = x.tensor.dims;
  const bool is_as = op.desc().find_attr("target_shape") || op.inputs("Y") > 0;
  Dims dims = op.inputs("Y") > 0 ? op.input("Y").tensor.dims : op.desc().attr<Dims>(is_as ? "target_shape" : "shape");
  bool fits = from.size() <= dims.size();
  for (std::size_t back = 1; fits && back <= from.size(); ++back) {
    std::int64_t& dim = dims[dims.size() - back];
    const std::int64_t size = from[from.size() - back];
    if (dim == -1) dim = size;
    fits = size == 1 || infer::agree(dim, size);
  }
  if (!fits) throw_dims("X", from, "dimensions of 1, or those of " + infer::to_string(dims));
  op.set_output("Out", reshaped_to(x, std::move(dims)));
}
inline void infer_strided_slice(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("Input");
  const Dims axes = op.desc().attr<Dims>("axes"), starts = op.desc().attr<Dims>("starts");
  const Dims ends = op.desc().attr<Dims>("ends"), strides = op.desc().attr<Dims>("strides");
  if (starts.size() != axes.size() || ends.size() != axes.size() || strides.size() != axes.size()) {
    throw ShapeMismatch("attributes 'starts', 'ends' and 'strides', expected one for each of the axes");
  }
  Dims dims = x.tensor.dims;
  bool keeps_levels = true;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t dim = axis_of(axes[i], dims.size());
    if (strides[i] == 0) throw OutOfRange("attribute 'strides', expected numbers other than 0");
    keeps_levels = keeps_levels && dim > 0;
    if (dims[dim] != infer::unknown)
      dims[dim] = Strides::along(x.tensor.dims[dim], starts[i], ends[i], strides[i]).count;
  }
  op.set_output("Out", with_levels(reshaped_to(x, std::move(dims)), keeps_levels ? x.lod_level.value() : 0));
}
inline void infer_pad(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  Dims dims = x.tensor.dims;
  const Dims paddings = op.desc().attr<Dims>("paddings");
  if (paddings.size() != 2 * dims.size()) throw_dims("X", dims, detail::text({paddings.size() / 2, " dimensions"}));
  for (std::size_t i = 0; i < paddings.size(); ++i) {
    if (paddings[i] < 0) throw OutOfRange("attribute 'paddings', expected numbers of 0 or more");
    dims[i / 2] = infer::sum(dims[i / 2], paddings[i], "pad");
  }
  const bool keeps_levels = !paddings.empty() && paddings[0] == 0 && paddings[1] == 0;
  op.set_output("Out", with_levels(reshaped_to(x, std::move(dims)), keeps_levels ? x.lod_level.value() : 0));
}
/// unstack and unbind.
inline void infer_unstack(InferShapeContext& op) {
  LoDTensorDesc x = op.input("X");
  Dims& dims = x.tensor.dims;
  const std::size_t axis = axis_in(op, "axis", 0, dims.size());
  const char* const out = op.outputs("Y") > 0 ? "Y" : "Out";
  if (!infer::agree(dims[axis], static_cast<std::int64_t>(op.outputs(out)))) {
    throw_dims("X", dims, detail::text({op.outputs(out), " elements along axis ", axis, ", one for each output"}));
  }
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  for (std::size_t i = 0; i < op.outputs(out); ++i) op.set_output(out, with_levels(x, 0), i);
}
inline void infer_gather_nd(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  Dims dims = op.input("Index").tensor.dims;
  if (dims.empty()) throw_dims("Index", dims, "coordinates along its last dimension");
  const std::int64_t count = dims.back();
  if (count == infer::unknown) return;
  dims.pop_back();
  if (count > static_cast<std::int64_t>(x.tensor.dims.size())) {
    throw_dims("X", x.tensor.dims, detail::text({count, " dimensions or more"}));
  }
  dims = joined(std::move(dims), part(x.tensor.dims, static_cast<std::size_t>(count), x.tensor.dims.size()));
  op.set_output("Out", with_levels(reshaped_to(x, std::move(dims)), 0));
}
inline void infer_where_index(InferShapeContext& op) {
  const auto rank = static_cast<std::int64_t>(op.input("Condition").tensor.dims.size());
  op.set_output("Out", {{DataType::INT64, {infer::unknown, rank}}});
}
inline void infer_shape_operator(InferShapeContext& op) {
  const auto rank = static_cast<std::int64_t>(op.input("Input").tensor.dims.size());
  op.set_output("Out", {{DataType::INT32, {rank}}});
}

/// fill_constant, assign_value, uniform_random and the like: by the attributes `shape` and `dtype`.
inline void infer_filling(InferShapeContext& op) {
  Dims dims = op.desc().find_attr("shape") ? dims_in(op, "shape") : Dims();
  if (op.inputs("ShapeTensorList") > 0) dims.assign(op.inputs("ShapeTensorList"), infer::unknown);
  if (op.inputs("ShapeTensor") > 0) {
    const Dims shape = op.input("ShapeTensor").tensor.dims;
    if (shape.size() != 1 || shape[0] < 0 || shape[0] > static_cast<std::int64_t>(Shape::max_rank)) return;
    dims.assign(static_cast<std::size_t>(shape[0]), infer::unknown);
  }
  op.set_output("Out", {{op.data_type("dtype", DataType::FP32), std::move(dims)}});
}
/// fill_constant_batch_size_like and the like.
inline void infer_batch_size_like(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("Input");
  Dims dims = dims_in(op, "shape");
  const std::size_t from = axis_in(op, "input_dim_idx", 0, x.tensor.dims.size());
  const bool is_of_sequences = from == 0 && x.lod_level > 0;
  dims[axis_in(op, "output_dim_idx", 0, dims.size())] = is_of_sequences ? infer::unknown : x.tensor.dims[from];
  op.set_output("Out", {{op.data_type("dtype", DataType::FP32), std::move(dims)}});
}
/// one_hot replaces a last dimension of 1, one_hot_v2 adds one.
template <bool drops_last>
void infer_one_hot(InferShapeContext& op) {
  LoDTensorDesc x = op.input("X");
  Dims& dims = x.tensor.dims;
  if (drops_last && dims.size() > 1 && dims.back() == 1) dims.pop_back();
  dims.push_back(op.inputs("depth_tensor") > 0 ? infer::unknown : op.desc().attr<std::int32_t>("depth"));
  op.set_output("Out", with_type(x, op.data_type("dtype", DataType::FP32)));
}
/// lookup_table replaces a last dimension of 1, lookup_table_v2 keeps it.
template <bool drops_last>
void infer_lookup_table(InferShapeContext& op) {
  LoDTensorDesc ids = op.input("Ids");
  Dims& dims = ids.tensor.dims;
  if (drops_last && dims.size() > 1 && dims.back() == 1) dims.pop_back();
  op.set_output("Out", infer_embedding(op.input("W"), ids));
}

inline void infer_layer_norm(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  const std::size_t axis = axis_in(op, "begin_norm_axis", 1, x.tensor.dims.size());
  const LoDTensorDesc moments{{x.tensor.data_type, part(x.tensor.dims, 0, axis)}};
  op.set_output("Y", x);
  op.set_output("Mean", moments);
  op.set_output("Variance", moments);
}
inline void infer_batch_norm(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X"), channels = op.input("Scale");
  const Dims& dims = x.tensor.dims;
  if (dims.size() < 2) throw_dims("X", dims, "a batch of channels");
  const std::int64_t count = op.attr("data_layout", std::string("NCHW")) == "NHWC" ? dims.back() : dims[1];
  if (!infer::agree(infer::product(channels.tensor.dims, "channels"), count)) {
    throw_dims("Scale", channels.tensor.dims, detail::text({count, " channels"}));
  }
  op.set_output("Y", x);
  for (const char* const moment : {"MeanOut", "VarianceOut", "SavedMean", "SavedVariance"}) {
    op.set_output(moment, channels);
  }
}

/// conv2d and depthwise_conv2d.
inline void infer_conv2d(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("Input"), filter = op.input("Filter");
  Dims dims = x.tensor.dims;
  const Dims& window = filter.tensor.dims;
  if (dims.size() != 4) throw_dims("Input", dims, "{images, channels, height, width}");
  if (window.size() != 4) throw_dims("Filter", window, "{results, channels, height, width}");
  const WindowOptions options(op.desc());
  for (std::size_t side = 0; side < 2; ++side) {
    std::int64_t& dim = dims[options.dim(side)];
    dim = options.along(side, dim, window[2 + side]).count;
  }
  dims[options.channel_dim()] = window[0];
  op.set_output("Output", with_levels(reshaped_to(x, std::move(dims)), x.lod_level));
}
/// conv2d_transpose and depthwise_conv2d_transpose.
inline void infer_conv2d_transpose(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("Input"), filter = op.input("Filter");
  const TransposedConvolution of{OperatorArguments(op.desc())};
  const auto dims = of.results(x.tensor.dims, filter.tensor.dims);
  op.set_output("Output", with_levels(reshaped_to(x, Dims(dims.begin(), dims.end())), x.lod_level));
}
inline void infer_pool2d(InferShapeContext& op) {
  const LoDTensorDesc x = op.input("X");
  Dims dims = x.tensor.dims;
  if (dims.size() != 4) throw_dims("X", dims, "{images, channels, height, width}");
  const ImagePoolOptions options(op.desc());
  for (std::size_t side = 0; side < 2; ++side) {
    std::int64_t& dim = dims[options.windows().dim(side)];
    dim = options.along(side, dim).count;
  }
  op.set_output("Out", with_levels(reshaped_to(x, std::move(dims)), x.lod_level));
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
