// SPDX-License-Identifier: Apache-2.0
#include "operation_values.hpp"

#include "exchange.hpp"
#include "operations.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace lod_python {

Tensor to_tensor(py::handle value) {
  const auto object = py::reinterpret_borrow<py::object>(value);
  const py::object none = py::none();
  if (PyObject_CheckBuffer(value.ptr())) return Tensor(from_buffer(value, lod::LoD()));
  if (py::hasattr(value, "__arrow_c_array__") || py::hasattr(value, "__arrow_c_stream__")) return from_arrow(object);
  if (py::hasattr(value, "__dlpack__")) return from_dlpack(object, none, none);
  if (py::isinstance<py::list>(value)) return py::type::of<Tensor>()(object).cast<Tensor>();
  throw py::type_error(std::string(Py_TYPE(value.ptr())->tp_name) +
                       ", expected a LoDTensor, nested lists, or an object with a buffer, DLPack or Arrow");
}

namespace {

void check_type(lod::DataType found, lod::DataType expected) {
  if (found == expected) return;
  throw py::type_error(std::string("elements of type ") + lod::to_string(found) + ", expected " +
                       lod::to_string(expected));
}

/// An array whose memory is changed: a copy would be changed to no effect.
Tensor to_writable(py::handle array) {
  if (!PyObject_CheckBuffer(array.ptr())) {
    throw py::type_error("expected a LoDTensor or an array, which is changed in place");
  }
  return Tensor(from_buffer(array, lod::LoD(), false));
}

}  // namespace

const Tensor& Values::tensor(py::handle value) {
  if (py::isinstance<Tensor>(value)) return value.cast<const Tensor&>();
  return tensors_.emplace_back(to_tensor(value));
}
const Tensor& Values::tensor(py::handle value, lod::DataType type) {
  const Tensor& found = tensor(value);
  check_type(found.data_type(), type);
  return found;
}
const Tensor& Values::ids(py::handle value) {
  const Tensor& found = tensor(value);
  if (found.data_type() == lod::DataType::INT64 || found.data_type() == lod::DataType::INT32) return found;
  throw py::type_error(std::string("elements of type ") + lod::to_string(found.data_type()) +
                       ", expected INT64 or INT32");
}
const Tensor& Values::writable(py::handle value, lod::DataType type) {
  const Tensor& found =
      py::isinstance<Tensor>(value) ? value.cast<const Tensor&>() : tensors_.emplace_back(to_writable(value));
  check_type(found.data_type(), type);
  if (found.whole().read_only()) throw py::value_error("the values are read-only, but are to be changed in place");
  return found;
}
const lod::AnySelectedRows& Values::rows(py::handle value, lod::DataType type) {
  const auto& found = value.cast<const lod::AnySelectedRows&>();
  check_type(found.value().data_type(), type);
  return found;
}
std::span<const std::int64_t> Values::numbers(py::handle value) {
  if (value.is_none()) return {};
  if (!py::isinstance<Tensor>(value)) return numbers_.emplace_back(to_numbers(value));
  const auto& x = value.cast<const Tensor&>();
  if (x.data_type() == lod::DataType::INT64) {
    const auto elements = As<lod::LoDTensorView<const std::int64_t>>::view_of(x).values();
    return numbers_.emplace_back(elements.begin(), elements.end());
  }
  if (x.shape().size() != 1) throw py::type_error("rows of several numbers, expected one each, or elements of INT64");
  return numbers_.emplace_back(to_numbers(py::memoryview(py::reinterpret_borrow<py::object>(value))));
}
const lod::LoD& Values::lod(py::handle value) {
  if (py::isinstance<Tensor>(value)) return lods_.emplace_back(value.cast<const Tensor&>().part().lod());
  return lods_.emplace_back(to_lod(value, py::none()));
}
lod::BatchLevels Values::levels(py::handle value) {
  if (py::isinstance<Tensor>(value)) return value.cast<const Tensor&>().part();
  if (py::isinstance<py::int_>(value)) return value.cast<std::int64_t>();
  return lod(value);
}

lod::DataType Values::type_of(std::size_t place, const std::string& hint) {
  next_ = place + 1;  // for errors
  const auto element_type = [this](py::object& value) {
    if (py::isinstance<lod::AnySelectedRows>(value)) {
      return value.cast<const lod::AnySelectedRows&>().value().data_type();
    }
    if (!py::isinstance<Tensor>(value)) value = py::cast(to_tensor(value));
    return value.cast<const Tensor&>().data_type();
  };
  py::object& asked = values_[place];
  lod::DataType type{};
  if (py::isinstance<TensorArray>(asked)) {
    const auto& array = asked.cast<const TensorArray&>();
    type = array.elements.empty() ? array.like.data_type() : array.elements.front().data_type();
  } else if (hint.find("Sequence[") != std::string::npos) {
    py::list several;
    if (py::isinstance<lod::AnySelectedRows>(asked) || py::isinstance<Tensor>(asked)) {
      several.append(asked);
    } else {
      for (const py::handle one : asked) several.append(one);
    }
    if (several.empty()) throw py::value_error("expected one or more");
    for (std::size_t i = several.size(); i-- > 0;) {
      py::object one = several[i];
      type = element_type(one);
      several[i] = one;
    }
    asked = std::move(several);
  } else if (hint == As<lod::LoDTensorView<float>>::hint && !py::isinstance<Tensor>(asked)) {
    type = to_writable(asked).data_type();
  } else {
    type = element_type(asked);
  }
  next_ = 0;
  return type;
}

std::vector<py::object> Values::members(py::handle value, const Aggregate& of) {
  std::vector<py::object> members;
  for (const py::handle member : value) members.push_back(py::reinterpret_borrow<py::object>(member));
  if (members.size() != of.members.size()) {
    std::string expected;
    for (const std::string_view name : of.members) expected += (expected.empty() ? "" : ", ") + std::string(name);
    throw py::type_error(std::to_string(members.size()) + " values, expected " + std::string(of.name) + "(" + expected +
                         ")");
  }
  return members;
}

lod::Scalar to_scalar(py::handle value) {
  if (!PyIndex_Check(value.ptr())) return value.cast<double>();
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!number) throw py::error_already_set();
  if (PyLong_AsLongLong(number.ptr()) == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return number.cast<std::uint64_t>();
  }
  return number.cast<std::int64_t>();
}

std::vector<std::string> split_names(std::string_view names) {
  std::vector<std::string> parts;
  while (!names.empty()) {
    const std::size_t end = names.find(", ");
    parts.emplace_back(names.substr(0, end));
    names.remove_prefix(end == std::string_view::npos ? names.size() : end + 2);
  }
  return parts;
}

std::string to_text(py::handle value) {
  if (!py::hasattr(value, "__members__")) return py::repr(value);
  return std::string(py::str(py::type::of(value).attr("__name__"))) + "." + std::string(py::str(value.attr("name")));
}

}  // namespace lod_python
