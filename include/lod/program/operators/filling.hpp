// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that make tensors: fill_constant, fill_constant_batch_size_like, fill_zeros_like, fill_any_like,
/// assign_value, eye, linspace, range, one_hot.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/for_each_place.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/wide.hpp>

#include <locale.h>  // newlocale

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// As std::strtod, whatever the locale.
inline double number_of(const char* text, char** end) noexcept {
  static const locale_t classic = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return classic ? ::strtod_l(text, end, classic) : std::strtod(text, end);
}
/// The number that an operator fills a tensor with: `str_value`, which is exact, if there is one; otherwise `value`.
inline Scalar filling_of(const OperatorArguments& op) {
  const std::string text = op.attr("str_value", "");
  if (text.empty()) return op.attr("value", 0.0f);
  std::int64_t integer = 0;
  if (const auto* const end = text.data() + text.size(); std::from_chars(text.data(), end, integer).ptr == end)
    return integer;
  char* end = nullptr;
  const double real = number_of(text.c_str(), &end);
  if (end != text.c_str() + text.size()) op.refuse_attr("str_value", "a number");
  return real;
}
/// Fills an output of this shape with a number.
template <class E>
void fill(const OperatorCall<E>& call, const Slot& out, DataType type, const Shape& shape,
          const typename OperatorCall<E>::Any& like, const Scalar& number) {
  with_output_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    const T value = attribute_as<T>(number);
    auto y = call.output_bytes(out, type, shape, like);
    operation::repeat_number(call.executor(), value, shape.elements(), y.template elements<T>());
  });
}

/// fill_constant: -> Out; dtype = FP32, shape, value = 0, str_value = "". A fraction is cut off for integers, as in
/// PaddlePaddle; OutOfRange for what an element cannot hold, here and below.
template <Executor E>
RunOperator<E> fill_constant(const OperatorArguments& op) {
  for (const char* const input : {"ValueTensor", "ShapeTensor", "ShapeTensorList"}) op.expect_no_input(input);
  const Slot out = op.output("Out");
  const DataType type = output_type(op, "dtype", DataType::FP32);
  const Shape dims(op.attr("shape", std::vector<std::int64_t>()));
  const Scalar number = filling_of(op);
  return [=](OperatorCall<E>& call) { fill(call, out, type, dims, {}, number); };
}

/// The shape of fill_constant_batch_size_like and the like: the attribute shape, with dimension output_dim_idx = 0
/// replaced by dimension input_dim_idx = 0 of Input; for the first dimension of an Input with levels, by its number of
/// outermost sequences.
class BatchSizeLike {
 public:
  explicit BatchSizeLike(const OperatorArguments& op)
      : like_(op.input("Input")),
        dims_(op.desc().attr<std::vector<std::int64_t>>("shape")),
        from_(op.attr("input_dim_idx", 0)),
        to_(op.attr("output_dim_idx", 0)) {
    if (dims_.size() > Shape::max_rank) op.refuse_attr("shape", "fewer dimensions");
  }
  template <class E>
  Shape shape(const OperatorCall<E>& call) const {
    const AnyLoDTensor& from = call.tensor(like_);
    const std::size_t source = axis_of(from_, from.shape().size()), place = axis_of(to_, dims_.size());
    std::array<std::int64_t, Shape::max_rank> made{};
    std::copy(dims_.begin(), dims_.end(), made.begin());
    made[place] = source == 0 && from.levels() > 0 ? from.lod().size(0) : from.shape()[source];
    return first_of(made, dims_.size());
  }

 private:
  Slot like_;
  std::vector<std::int64_t> dims_;
  std::int32_t from_, to_;
};
/// fill_constant_batch_size_like: Input -> Out; dtype = FP32, value = 0, str_value = "", shape as BatchSizeLike.
template <Executor E>
RunOperator<E> fill_constant_batch_size_like(const OperatorArguments& op) {
  const Slot out = op.output("Out");
  const DataType type = output_type(op, "dtype", DataType::FP32);
  const Scalar number = filling_of(op);
  return [=, like = BatchSizeLike(op)](OperatorCall<E>& call) {
    fill(call, out, type, like.shape(call), AnyLoDTensor(), number);
  };
}

/// fill_zeros_like: X -> Out: zeros of the type, the shape and the levels of X.
template <Executor E>
RunOperator<E> fill_zeros_like(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const auto& from = call.tensor(x);
    auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
    operation::repeat_number(call.executor(), std::byte{0}, static_cast<std::int64_t>(from.bytes().size()), y.data());
  };
}

/// fill_any_like: X -> Out; value = 0, dtype = -1, which means the type of X: a tensor with the shape and the levels of
/// X, filled with the value.
template <Executor E>
RunOperator<E> fill_any_like(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const bool is_own = op.attr("dtype", -1) == -1;
  const DataType type = is_own ? DataType::FP32 : output_type(op, "dtype", DataType::FP32);
  const Scalar number = op.attr("value", 0.0f);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const auto fill_with = [&](auto element) {
      using T = typename decltype(element)::type;
      const T value = attribute_as<T>(number);
      auto y = call.output_bytes(out, data_type_v<T>, from.lod(), from.row_shape(), from.rows());
      std::fill_n(y.template elements<T>(), from.rows() * from.row_size(), value);
    };
    is_own ? call.with_number(x, fill_with) : with_output_type(type, fill_with);
  };
}

/// assign_value: -> Out; shape, dtype, and the values in the attribute of that type.
template <Executor E>
RunOperator<E> assign_value(const OperatorArguments& op) {
  const Slot out = op.output("Out");
  const DataType type = output_type(op, "dtype", DataType::FP32);
  const Shape dims(op.desc().attr<std::vector<std::int64_t>>("shape"));
  std::vector<std::byte> bytes;
  const auto read = [&]<class Stored, class T>(const char* name, Stored, T) {
    const auto values = op.desc().attr<std::vector<Stored>>(name);
    if (static_cast<std::int64_t>(values.size()) != dims.elements()) {
      op.refuse_attr(name, detail::text({dims.elements(), " values"}));
    }
    bytes.resize(values.size() * sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T value = static_cast<T>(values[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  };
  if (type == DataType::BOOL) read("bool_values", std::int32_t{}, bool{});
  if (type == DataType::INT32) read("int32_values", std::int32_t{}, std::int32_t{});
  if (type == DataType::INT64) read("int64_values", std::int64_t{}, std::int64_t{});
  if (type == DataType::FP32) read("fp32_values", float{}, float{});
  if (type == DataType::FP64) read("fp64_values", double{}, double{});
  return [=](OperatorCall<E>& call) {
    auto y = call.output_bytes(out, type, dims, AnyLoDTensor());
    std::copy(bytes.begin(), bytes.end(), y.data());
  };
}

/// range: Start, End, Step, one number each -> Out: the numbers from Start on, Step apart, that come before End.
template <Executor E>
RunOperator<E> range(const OperatorArguments& op) {
  const Slot start = op.input("Start"), end = op.input("End"), step = op.input("Step"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    call.with_number(start, [&](auto element) {
      using T = typename decltype(element)::type;
      const T first = only_number<T>(call, start), last = only_number<T>(call, end), by = only_number<T>(call, step);
      const double steps =
          std::ceil((static_cast<double>(last) - static_cast<double>(first)) / static_cast<double>(by));
      if (!(std::abs(steps) < 9e15)) {
        throw OutOfRange(detail::text({call.name(step), ": ", to_string(Scalar(by)), ", expected a step to the end"}));
      }
      const auto count = static_cast<std::int64_t>(std::max(steps, 0.0));
      auto y = call.output_bytes(out, data_type_v<T>, LoD(), {}, count);
      T* const to = y.template elements<T>();
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(first + static_cast<T>(i) * by);
    });
  };
}

/// linspace: Start, Stop, Num, one number each -> Out: Num numbers from Start to Stop, equally far apart; the last is
/// Stop. Each is counted from the nearer end.
template <Executor E>
RunOperator<E> linspace(const OperatorArguments& op) {
  const Slot start = op.input("Start"), stop = op.input("Stop"), number = op.input("Num"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    call.with_floating(start, [&](auto element) {
      using T = typename decltype(element)::type;
      const T first = only_number<T>(call, start), last = only_number<T>(call, stop);
      const std::int64_t count = only_number<std::int32_t>(call, number);
      if (count < 1) throw OutOfRange(detail::text({call.name(number), " is ", count, ", expected 1 or more"}));
      const auto step = (Wide<T>{last} - Wide<T>{first}) / static_cast<Wide<T>>(std::max<std::int64_t>(count - 1, 1));
      auto y = call.output_bytes(out, data_type_v<T>, LoD(), {}, count);
      T* const to = y.template elements<T>();
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t after = count - 1 - i;
        to[i] = static_cast<T>(i <= after ? first + step * static_cast<Wide<T>>(i)
                                          : last - step * static_cast<Wide<T>>(after));
      }
    });
  };
}
/// eye: -> Out; num_rows, num_columns = -1, as many as rows, dtype = FP32: 1 on the diagonal, 0 elsewhere.
template <Executor E>
RunOperator<E> eye(const OperatorArguments& op) {
  const Slot out = op.output("Out");
  const auto rows = op.desc().attr<std::int64_t>("num_rows");
  const std::int64_t given = op.attr("num_columns", std::int64_t{-1}), columns = given == -1 ? rows : given;
  const DataType type = output_type(op, "dtype", DataType::FP32);
  if (rows < 0) op.refuse_attr("num_rows", "0 or more");
  if (columns < 0) op.refuse_attr("num_columns", "0 or more, or -1");
  return [=](OperatorCall<E>& call) {
    with_output_type(type, [&](auto element) {
      using T = typename decltype(element)::type;
      auto y = call.output_bytes(out, type, LoD(), {columns}, rows);
      T* const to = y.template elements<T>();
      if (columns == 0) return;
      std::fill_n(to, rows * columns, T{0});
      for (std::int64_t i = 0; i < std::min(rows, columns); ++i) to[i * columns + i] = T{1};
    });
  };
}

/// one_hot: X -> Out; depth, dtype = FP32: the last dimension of the ids, which is 1, becomes `depth`. one_hot_v2 adds
/// a dimension. Throws OutOfRange for ids outside [0, depth), unless `allow_out_of_range`, which makes their rows
/// zeros.
template <Executor E, bool drops_last>
RunOperator<E> one_hot(const OperatorArguments& op) {
  op.expect_no_input("depth_tensor");
  const Slot x = op.input("X"), out = op.output("Out");
  const std::int64_t depth = op.desc().attr<std::int32_t>("depth");
  const DataType type = output_type(op, "dtype", DataType::FP32);
  const bool allows_others = op.attr("allow_out_of_range", false);
  if (depth < 1) op.refuse_attr("depth", "1 or more");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape dims = from.shape();
    const bool is_dropped = drops_last && dims.size() > 1 && dims.back() == 1;
    call.with_id(x, [&](auto element) {
      const auto ids = call.template view<typename decltype(element)::type>(x).values();
      for (std::size_t i = 0; !allows_others && i < ids.size(); ++i) {
        if (ids[i] < 0 || ids[i] >= depth) {
          throw OutOfRange(detail::text(
              {call.name(x), ": ", static_cast<std::int64_t>(ids[i]), " at ", i, ", expected 0 to ", depth - 1}));
        }
      }
      with_output_type(type, [&](auto other) {
        using T = typename decltype(other)::type;
        auto y =
            call.output_bytes(out, type, part(dims, 0, dims.size() - (is_dropped ? 1 : 0)).followed_by({depth}), from);
        T* to = y.template elements<T>();
        for (const auto id : ids) {
          std::fill_n(to, depth, T{});
          if (id >= 0 && id < depth) to[id] = T{1};
          to += depth;
        }
      });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
