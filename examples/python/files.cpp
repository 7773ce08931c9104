// SPDX-License-Identifier: Apache-2.0
#include "files.hpp"

#include "tensor.hpp"
#include "text.hpp"
#include <lod/io/file.hpp>

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace py = pybind11;

namespace lod_python {

namespace {

/// os.PathLike, str and bytes.
std::string to_path(const py::object& path) {
  return py::module_::import("os").attr("fsencode")(path).cast<std::string>();
}

using Value = std::variant<lod::AnyLoDTensor, lod::AnySelectedRows, std::vector<lod::AnyLoDTensor>>;

Value to_value(py::handle value) {
  if (py::isinstance<lod::AnySelectedRows>(value)) return value.cast<const lod::AnySelectedRows&>();
  if (py::isinstance<Tensor>(value)) return value.cast<const Tensor&>().tensor();
  std::vector<lod::AnyLoDTensor> tensors;
  for (const py::handle item : value) {
    if (!py::isinstance<Tensor>(item))
      throw py::type_error("a file holds LoDTensors, SelectedRows, lists of LoDTensors");
    tensors.push_back(item.cast<const Tensor&>().tensor());
  }
  return tensors;
}

py::object to_object(Value value) {
  if (auto* const tensor = std::get_if<lod::AnyLoDTensor>(&value)) return py::cast(Tensor(std::move(*tensor)));
  if (auto* const rows = std::get_if<lod::AnySelectedRows>(&value)) return py::cast(std::move(*rows));
  py::list tensors;
  for (auto& tensor : std::get<2>(value)) tensors.append(Tensor(std::move(tensor)));
  return tensors;
}

void save(const py::object& path, const py::dict& variables) {
  std::vector<std::pair<std::string, Value>> values;
  for (const auto& [name, value] : variables) {
    if (!py::isinstance<py::str>(name)) throw py::type_error("the name of a variable is a str");
    values.emplace_back(name.cast<Text>().bytes, to_value(value));
  }
  lod::FileWriter writer(to_path(path));
  const py::gil_scoped_release unlocked;
  for (const auto& [name, value] : values) {
    std::visit([&writer, &text = name](const auto& storable) { writer.add(text, storable); }, value);
  }
  writer.commit();
}

Value load(const lod::File& file, const std::string& name) {
  switch (file.describe(name).type.type) {
    case lod::VarType::SELECTED_ROWS:
      return file.load<lod::AnySelectedRows>(name);
    case lod::VarType::LOD_TENSOR_ARRAY:
      return file.load<std::vector<lod::AnyLoDTensor>>(name);
    default:
      return file.load<lod::AnyLoDTensor>(name);
  }
}

Value on_file(const lod::File& file, const std::string& name) {
  switch (file.describe(name).type.type) {
    case lod::VarType::SELECTED_ROWS:
      return file.any_selected_rows(name);
    case lod::VarType::LOD_TENSOR_ARRAY:
      return file.any_tensor_array(name);
    default:
      return file.any_tensor(name);
  }
}

py::dict load_all(const py::object& path) {
  std::vector<std::pair<std::string, Value>> values;
  {
    const std::string file_path = to_path(path);
    const py::gil_scoped_release unlocked;
    const auto file = lod::File::open(file_path);
    for (const std::string& name : file.names()) values.emplace_back(name, load(file, name));
  }
  py::dict variables;
  for (auto& [name, value] : values) variables[py::cast(Text{name})] = to_object(std::move(value));
  return variables;
}

}  // namespace

void bind_files(py::module_& module) {
  module.def("save", &save, py::arg("path"), py::arg("variables"),
             "Writes a file of named LoDTensors, SelectedRows and lists of LoDTensors: all of it or nothing.");
  module.def("load", &load_all, py::arg("path"), "The variables of a file, in memory of their own, by name.");
  py::class_<lod::File>(module, "File", "An open file, whose variables are used where they lie.")
      .def(py::init([](const py::object& path) { return lod::File::open(to_path(path)); }), py::arg("path"))
      .def(
          "names",
          [](const lod::File& self) {
            std::vector<Text> texts;
            for (std::string& name : self.names()) texts.push_back({std::move(name)});
            return texts;
          },
          "The names of the variables, in the order in which they were written.")
      .def("__contains__", [](const lod::File& self, const Text& name) { return self.contains(name.bytes); })
      .def(
          "__getitem__",
          [](const lod::File& self, const Text& name) {
            if (!self.contains(name.bytes)) {
              PyErr_SetObject(PyExc_KeyError, py::cast(name).ptr());
              throw py::error_already_set();
            }
            return to_object(on_file(self, name.bytes));
          },
          "A variable on the memory of the file, read-only; the file stays open for as long as it is used.")
      .def(
          "verify", [](const lod::File& self) { self.verify(); }, py::call_guard<py::gil_scoped_release>(),
          "Compares all checksums; ParseError where one differs.");
}

}  // namespace lod_python
