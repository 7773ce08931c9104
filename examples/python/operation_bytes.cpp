// SPDX-License-Identifier: Apache-2.0
#include "operation_bytes.hpp"

#include "operation_values.hpp"
#include "tensor.hpp"

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace lod_python {

namespace {

constexpr lod::DataType byte_type = lod::DataType::UINT8;

std::int64_t bytes_of(lod::DataType type) { return static_cast<std::int64_t>(lod::size_of(type)); }

lod::AnyLoDTensor bytes_of_tensor(const lod::AnyLoDTensor& x) {
  return lod::AnyLoDTensor::wrap(byte_type, x.bytes(), x.lod(), x.row_shape().followed_by({bytes_of(x.data_type())}), x,
                                 x.rows());
}
lod::AnyLoDTensor tensor_of_bytes(const lod::AnyLoDTensor& x, lod::DataType type) {
  const lod::Shape row_shape(std::span(x.row_shape().begin(), x.row_shape().size() - 1));
  return lod::AnyLoDTensor::wrap(type, x.bytes(), x.lod(), row_shape, x, x.rows());
}

/// A value with convert(tensor) in place of each tensor of `type`, in lists and tuples, too.
template <class Convert>
py::object converted(const py::object& value, lod::DataType type, const Convert& convert) {
  if (py::isinstance<Tensor>(value)) {
    const auto& x = value.cast<const Tensor&>();
    return x.data_type() == type ? py::cast(Tensor(convert(x.tensor()))) : value;
  }
  if (py::isinstance<lod::AnySelectedRows>(value)) {
    const auto& g = value.cast<const lod::AnySelectedRows&>();
    if (g.value().data_type() != type) return value;
    return py::cast(lod::AnySelectedRows(g.rows(), g.height(), convert(g.value())));
  }
  if (py::isinstance<TensorArray>(value)) {
    TensorArray array = value.cast<const TensorArray&>();
    for (Tensor& element : array.elements) {
      if (element.data_type() == type) element = Tensor(convert(element.tensor()));
    }
    if (array.like.data_type() == type) array.like = convert(array.like);
    return py::cast(std::move(array));
  }
  if (py::isinstance<py::list>(value)) {
    py::list list;
    for (const py::handle one : value) list.append(converted(py::reinterpret_borrow<py::object>(one), type, convert));
    return list;
  }
  if (py::hasattr(value, "_fields")) {
    py::list members;
    for (const py::handle one : value) {
      members.append(converted(py::reinterpret_borrow<py::object>(one), type, convert));
    }
    return py::type::of(value)(*py::tuple(members));
  }
  return value;
}

}  // namespace

py::object as_bytes(const py::object& value, lod::DataType type) {
  return converted(value, type, [](const lod::AnyLoDTensor& x) { return bytes_of_tensor(x); });
}
py::object from_bytes(const py::object& value, lod::DataType type) {
  return converted(value, byte_type, [type](const lod::AnyLoDTensor& x) { return tensor_of_bytes(x, type); });
}

}  // namespace lod_python
