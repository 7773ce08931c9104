// SPDX-License-Identifier: Apache-2.0
/// @file
/// The compiled part of the package lodtensor, and the library's errors as Python's.

#include "data_types.hpp"
#include "descriptions.hpp"
#include "files.hpp"
#include "operations.hpp"
#include "program.hpp"
#include "selected_rows.hpp"
#include "tensor.hpp"
#include "text.hpp"
#include <lod/error.hpp>
#include <lod/program.hpp>

#include <pybind11/pybind11.h>

#include <exception>
#include <stdexcept>
#include <system_error>

namespace py = pybind11;

namespace {

/// What an error says, which may name what is not UTF-8.
lod_python::Text text_of(const std::exception& error) { return {error.what()}; }

void set_error(py::handle type, const std::exception& error) {
  PyErr_SetObject(type.ptr(), py::cast(text_of(error)).ptr());
}

/// ParseError with its `position`, and OSError with its number, from which Python makes FileNotFoundError and the like.
void bind_errors(py::module_& module) {
  // Never given back: they would be destroyed after Python.
  static const py::handle invalid_lod =
      py::exception<lod::InvalidLoD>(module, "InvalidLoD", PyExc_ValueError).release();
  static const py::handle shape_mismatch =
      py::exception<lod::ShapeMismatch>(module, "ShapeMismatch", PyExc_ValueError).release();
  static const py::handle invalid_program =
      py::exception<lod::InvalidProgram>(module, "InvalidProgram", PyExc_ValueError).release();
  static const py::handle out_of_range =
      py::exception<lod::OutOfRange>(module, "OutOfRange", PyExc_IndexError).release();
  static const py::handle parse_error =
      py::exception<lod::ParseError>(module, "ParseError", PyExc_ValueError).release();
  py::register_exception_translator([](std::exception_ptr caught) {
    try {
      if (caught) std::rethrow_exception(caught);
    } catch (const lod::InvalidLoD& error) {
      set_error(invalid_lod, error);
    } catch (const lod::ShapeMismatch& error) {
      set_error(shape_mismatch, error);
    } catch (const lod::InvalidProgram& error) {
      set_error(invalid_program, error);
    } catch (const lod::OutOfRange& error) {
      set_error(out_of_range, error);
    } catch (const std::invalid_argument& error) {
      set_error(PyExc_ValueError, error);
    } catch (const lod::ParseError& error) {
      const py::object raised = parse_error(text_of(error));
      raised.attr("position") = error.position();
      PyErr_SetObject(parse_error.ptr(), raised.ptr());
    } catch (const std::system_error& error) {
      const py::object raised = py::handle(PyExc_OSError)(error.code().value(), text_of(error));
      PyErr_SetObject(py::type::of(raised).ptr(), raised.ptr());
    }
  });
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "LoD tensors: batches of nested sequences of different lengths, without padding.";
  bind_errors(module);
  lod_python::bind_data_types(module);
  lod_python::bind_tensor(module);
  lod_python::bind_selected_rows(module);
  lod_python::bind_operations(module);
  lod_python::bind_files(module);
  lod_python::bind_descriptions(module);
  lod_python::bind_program(module);
}
