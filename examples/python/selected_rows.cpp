// SPDX-License-Identifier: Apache-2.0
#include "selected_rows.hpp"

#include "tensor.hpp"
#include <lod/io/text.hpp>

#include <pybind11/stl.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

namespace py = pybind11;

namespace lod_python {

namespace {

lod::AnySelectedRows make(const py::object& rows, std::int64_t height, const py::object& value) {
  auto values = py::isinstance<Tensor>(value) ? value.cast<const Tensor&>().rows() : from_buffer(value, lod::LoD());
  return lod::AnySelectedRows(to_numbers(rows), height, std::move(values));
}

std::string text_of_selected_rows(const lod::AnySelectedRows& x) {
  std::ostringstream text;
  x.value().visit([&](const auto& view) {
    using T = typename std::remove_cvref_t<decltype(view)>::value_type;
    text << lod::SelectedRows<const T>(x.rows(), x.height(), x.value().template as<T>());
  });
  return std::move(text).str();
}

}  // namespace

void bind_selected_rows(py::module_& module) {
  using Rows = lod::AnySelectedRows;
  py::class_<Rows>(module, "SelectedRows", "The few rows of a tall matrix that are not zero.")
      .def(py::init(&make), py::arg("rows"), py::arg("height"), py::arg("value"),
           "Row i of `value`, a LoDTensor or an array, whose memory is shared, belongs to id rows[i].")
      .def_property_readonly("rows", &Rows::rows, "The ids: a list of its own.")
      .def_property_readonly("height", &Rows::height, "The number of rows of the dense tensor.")
      .def_property_readonly(
          "value", [](const Rows& self) { return Tensor(self.value()); }, "The rows' values, on the same memory.")
      .def_property_readonly(
          "dense_shape", [](const Rows& self) { return to_tuple(self.dense_shape()); },
          "(height, dimensions of a row...)")
      .def("__len__", [](const Rows& self) { return self.rows().size(); })
      .def("__repr__", &text_of_selected_rows);
}

}  // namespace lod_python
