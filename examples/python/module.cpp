// SPDX-License-Identifier: Apache-2.0
/// @file
/// The module lodtensor, and the library's errors as Python's.

#include "data_types.hpp"
#include "files.hpp"
#include "operations.hpp"
#include "selected_rows.hpp"
#include "tensor.hpp"
#include "variable.hpp"
#include <lod/error.hpp>

#include <pybind11/pybind11.h>

#include <exception>
#include <system_error>

namespace py = pybind11;

namespace {

/// ParseError with its `position`, and OSError with its number, from which Python makes FileNotFoundError and the like.
void bind_errors(py::module_& module) {
  py::register_exception<lod::InvalidLoD>(module, "InvalidLoD", PyExc_ValueError);
  py::register_exception<lod::ShapeMismatch>(module, "ShapeMismatch", PyExc_ValueError);
  py::register_exception<lod::OutOfRange>(module, "OutOfRange", PyExc_IndexError);
  // Never given back: it would be destroyed after Python.
  static const py::handle parse_error =
      py::exception<lod::ParseError>(module, "ParseError", PyExc_ValueError).release();
  py::register_exception_translator([](std::exception_ptr caught) {
    try {
      if (caught) std::rethrow_exception(caught);
    } catch (const lod::ParseError& error) {
      const py::object raised = parse_error(error.what());
      raised.attr("position") = error.position();
      PyErr_SetObject(parse_error.ptr(), raised.ptr());
    } catch (const std::system_error& error) {
      const py::object raised = py::handle(PyExc_OSError)(error.code().value(), error.what());
      PyErr_SetObject(py::type::of(raised).ptr(), raised.ptr());
    }
  });
}

}  // namespace

PYBIND11_MODULE(lodtensor, module) {
  module.doc() = "LoD tensors: batches of nested sequences of different lengths, without padding.";
  bind_errors(module);
  lod_python::bind_data_types(module);
  lod_python::bind_tensor(module);
  lod_python::bind_selected_rows(module);
  lod_python::bind_operations(module);
  lod_python::bind_files(module);
  lod_python::bind_variable(module);
}
