// SPDX-License-Identifier: Apache-2.0
#include "descriptions.hpp"

#include "data_types.hpp"
#include "tensor.hpp"
#include <lod/desc.hpp>
#include <lod/proto/program.hpp>

#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace lod_python {

std::vector<Text> to_texts(std::span<const std::string> names) {
  std::vector<Text> texts;
  for (const std::string& name : names) texts.push_back({name});
  return texts;
}

std::vector<std::string> to_names(const std::vector<Text>& texts) {
  std::vector<std::string> names;
  for (const Text& text : texts) names.push_back(text.bytes);
  return names;
}

namespace {

using Attr = lod::OpDesc::Attr;
using lod::AttrType;

// ---- Operators ----

/// Whether a number of an attribute is an INT; otherwise it is a LONG.
bool is_int(py::handle number) {
  const auto value = number.cast<std::int64_t>();
  return value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max();
}

/// The index of a block, as which an object with `idx` counts.
std::int32_t to_block(py::handle value) { return value.attr("idx").cast<std::int32_t>(); }

/// The types that the items of a list may have together, of which the last that one of them needs is that of the list.
enum class Item { INT, LONG, FLOAT, BOOLEAN, STRING, BLOCK };

Item item_of(py::handle value) {
  if (py::isinstance<py::bool_>(value)) return Item::BOOLEAN;
  if (py::isinstance<py::int_>(value)) return is_int(value) ? Item::INT : Item::LONG;
  if (py::isinstance<py::float_>(value)) return Item::FLOAT;
  if (py::isinstance<py::str>(value)) return Item::STRING;
  if (py::hasattr(value, "idx")) return Item::BLOCK;
  throw py::type_error("an attribute is a bool, an int, a float, a str, a Block, or a list of one of these");
}

Attr to_list_attr(std::string name, const py::sequence& list) {
  Item kind = Item::INT;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Item item = item_of(list[i]);
    const Item lesser = std::min(item, kind), greater = std::max(item, kind);
    if (i > 0 && lesser != greater && greater > Item::FLOAT) {
      throw py::type_error("attribute '" + name + "': a list of values of several types");
    }
    kind = greater;
  }
  switch (kind) {
    case Item::BOOLEAN:
      return {.name = std::move(name), .type = AttrType::BOOLEANS, .bools = list.cast<std::vector<bool>>()};
    case Item::INT:
      return {.name = std::move(name), .type = AttrType::INTS, .ints = list.cast<std::vector<std::int32_t>>()};
    case Item::LONG:
      return {.name = std::move(name), .type = AttrType::LONGS, .longs = list.cast<std::vector<std::int64_t>>()};
    case Item::FLOAT:
      return {.name = std::move(name), .type = AttrType::FLOATS, .floats = list.cast<std::vector<float>>()};
    case Item::STRING:
      return {.name = std::move(name), .type = AttrType::STRINGS, .strings = to_names(list.cast<std::vector<Text>>())};
    case Item::BLOCK:
      break;
  }
  Attr attr{.name = std::move(name), .type = AttrType::BLOCKS};
  for (const py::handle block : list) attr.blocks_idx.push_back(to_block(block));
  return attr;
}

/// An attribute of the type of its value. Numbers of NumPy's int64 are LONG and LONGS, arrays of its float64 FLOAT64S.
Attr to_attr(std::string name, const py::object& value) {
  if (py::hasattr(value, "dtype")) {
    const auto type = py::str(value.attr("dtype")).cast<std::string>();
    const py::object plain = value.attr("tolist")();
    const bool is_list = py::isinstance<py::list>(plain);
    if (type == "int64" && is_list) {
      return {.name = std::move(name), .type = AttrType::LONGS, .longs = plain.cast<std::vector<std::int64_t>>()};
    }
    if (type == "int64") return {.name = std::move(name), .type = AttrType::LONG, .l = plain.cast<std::int64_t>()};
    if (type == "float64" && is_list) {
      return {.name = std::move(name), .type = AttrType::FLOAT64S, .float64s = plain.cast<std::vector<double>>()};
    }
    return to_attr(std::move(name), plain);
  }
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    return to_list_attr(std::move(name), py::reinterpret_borrow<py::sequence>(value));
  }
  switch (item_of(value)) {
    case Item::BOOLEAN:
      return {.name = std::move(name), .type = AttrType::BOOLEAN, .b = value.cast<bool>()};
    case Item::INT:
      return {.name = std::move(name), .type = AttrType::INT, .i = value.cast<std::int32_t>()};
    case Item::LONG:
      return {.name = std::move(name), .type = AttrType::LONG, .l = value.cast<std::int64_t>()};
    case Item::FLOAT:
      return {.name = std::move(name), .type = AttrType::FLOAT, .f = value.cast<float>()};
    case Item::STRING:
      return {.name = std::move(name), .type = AttrType::STRING, .s = value.cast<Text>().bytes};
    case Item::BLOCK:
      break;
  }
  return {.name = std::move(name), .type = AttrType::BLOCK, .block_idx = to_block(value)};
}

py::object value_of(const Attr& attr) {
  switch (attr.type) {
    case AttrType::INT:
      return py::cast(attr.i);
    case AttrType::FLOAT:
      return py::cast(attr.f);
    case AttrType::STRING:
      return attr.s ? py::cast(Text{*attr.s}) : py::none();
    case AttrType::INTS:
      return py::cast(attr.ints);
    case AttrType::FLOATS:
      return py::cast(attr.floats);
    case AttrType::STRINGS:
      return py::cast(to_texts(attr.strings));
    case AttrType::BOOLEAN:
      return py::cast(attr.b);
    case AttrType::BOOLEANS:
      return py::cast(attr.bools);
    case AttrType::BLOCK:
      return py::cast(attr.block_idx);
    case AttrType::LONG:
      return py::cast(attr.l);
    case AttrType::BLOCKS:
      return py::cast(attr.blocks_idx);
    case AttrType::LONGS:
      return py::cast(attr.longs);
    case AttrType::FLOAT64S:
      return py::cast(attr.float64s);
    case AttrType::VAR:
      return attr.var_name ? py::cast(Text{*attr.var_name}) : py::none();
    case AttrType::VARS:
      return py::cast(to_texts(attr.vars_name));
    case AttrType::FLOAT64:
      return py::cast(attr.float64);
    case AttrType::SCALAR:
    case AttrType::SCALARS:
      break;
  }
  throw py::type_error("attribute '" + attr.name + "' is a scalar with a type of its own, which Python has not");
}

/// Parameters with their arguments: a name, or a list of names.
std::vector<lod::OpDesc::Var> to_vars(const py::dict& parameters) {
  std::vector<lod::OpDesc::Var> vars;
  for (const auto& [parameter, arguments] : parameters) {
    std::vector<Text> texts;
    if (py::isinstance<py::str>(arguments)) {
      texts.push_back(arguments.cast<Text>());
    } else {
      texts = arguments.cast<std::vector<Text>>();
    }
    vars.push_back({parameter.cast<Text>().bytes, to_names(texts)});
  }
  return vars;
}

lod::OpDesc make_operator(Text type, const py::dict& inputs, const py::dict& outputs, const py::dict& attrs) {
  lod::OpDesc op{.inputs = to_vars(inputs), .outputs = to_vars(outputs), .type = std::move(type.bytes)};
  for (const auto& [name, value] : attrs) {
    op.attrs.push_back(to_attr(name.cast<Text>().bytes, py::reinterpret_borrow<py::object>(value)));
  }
  return op;
}

std::vector<Text> all_arguments(const std::vector<lod::OpDesc::Var>& vars) {
  std::vector<Text> texts;
  for (const lod::OpDesc::Var& var : vars) {
    for (const std::string& name : var.arguments) texts.push_back({name});
  }
  return texts;
}

/// {X=['x'], Y=['w']}
std::string text_of(const std::vector<lod::OpDesc::Var>& vars) {
  std::string text;
  for (const lod::OpDesc::Var& var : vars) {
    const auto arguments = py::repr(py::cast(to_texts(var.arguments))).cast<std::string>();
    text += (text.empty() ? "" : ", ") + var.parameter + "=" + arguments;
  }
  return "{" + text + "}";
}

/// As PaddlePaddle prints operators: {Out=['y']} = mul(inputs={X=['x'], Y=['w']}, x_num_col_dims = 1)
std::string text_of(const lod::OpDesc& op) {
  std::string text = text_of(op.outputs) + " = " + op.type + "(inputs=" + text_of(op.inputs);
  for (const Attr& attr : op.attrs) {
    const bool unknown = attr.type == AttrType::SCALAR || attr.type == AttrType::SCALARS;
    text += ", " + attr.name + " = " + (unknown ? "?" : py::repr(value_of(attr)).cast<std::string>());
  }
  return text + ")";
}

void bind_operator(py::module_& module) {
  py::class_<lod::OpDesc>(module, "Operator", "An operator: its type, the variables of its parameters, attributes.")
      .def(py::init(&make_operator), py::arg("type"), py::arg("inputs") = py::dict(), py::arg("outputs") = py::dict(),
           py::arg("attrs") = py::dict(),
           "Parameters have names of variables, one or a list. Attributes get the type of their value: an int is INT, "
           "or LONG where that is too small, as numbers of NumPy's int64 are; a Block is BLOCK; an empty list is INTS.")
      .def_static(
          "from_proto", [](const py::bytes& bytes) { return lod::decode<lod::OpDesc>(std::string(bytes)); },
          py::arg("bytes"), "That of an OpDesc. ParseError for other bytes.")
      .def_property_readonly("type", [](const lod::OpDesc& self) { return Text{self.type}; })
      .def_property_readonly(
          "inputs", [](const lod::OpDesc& self) { return all_arguments(self.inputs); },
          "The names of the variables that it reads.")
      .def_property_readonly(
          "outputs", [](const lod::OpDesc& self) { return all_arguments(self.outputs); },
          "The names of the variables that it writes.")
      .def(
          "input", [](const lod::OpDesc& self, const Text& name) { return to_texts(self.input(name.bytes)); },
          py::arg("parameter"), "The arguments of an input; none if it has no such parameter.")
      .def(
          "output", [](const lod::OpDesc& self, const Text& name) { return to_texts(self.output(name.bytes)); },
          py::arg("parameter"), "The arguments of an output; none if it has no such parameter.")
      .def_property_readonly(
          "attrs",
          [](const lod::OpDesc& self) {
            py::dict attrs;
            for (const Attr& attr : self.attrs) attrs[py::cast(Text{attr.name})] = value_of(attr);
            return attrs;
          },
          "Its attributes by name.")
      .def(
          "to_proto", [](const lod::OpDesc& self) { return py::bytes(lod::encode(self)); }, "The bytes of its OpDesc.")
      .def(
          "__eq__", [](const lod::OpDesc& self, const lod::OpDesc& other) { return self == other; }, py::is_operator())
      .def("__repr__", [](const lod::OpDesc& self) { return Text{"Operator('" + self.type + "')"}; })
      .def("__str__", [](const lod::OpDesc& self) { return Text{text_of(self)}; });
}

// ---- Variables ----

/// The tensor that a variable is or holds; null where its type has none.
template <class Type>
auto* tensor_of(Type& type) {
  using Tensor = std::remove_reference_t<decltype(*type.selected_rows)>;
  if (type.lod_tensor) return &type.lod_tensor->tensor;
  if (type.selected_rows) return &*type.selected_rows;
  return type.tensor_array ? &type.tensor_array->tensor : static_cast<Tensor*>(nullptr);
}

lod::VarDesc make_var(Text name, const std::vector<std::int64_t>& dims, const py::object& type, std::int32_t lod_level,
                      lod::VarType::Type kind) {
  if (std::ranges::any_of(dims, [](std::int64_t dim) { return dim < -1; })) {
    throw std::invalid_argument("'" + name.bytes + "': dims are 0 or more, or -1 where they are not known");
  }
  if (lod_level < 0) throw std::invalid_argument("'" + name.bytes + "': lod_level " + std::to_string(lod_level));
  lod::TensorDesc tensor{to_data_type(type), dims};
  lod::Defaulted<std::int32_t> level;
  if (lod_level > 0) level = lod_level;
  switch (kind) {
    case lod::VarType::LOD_TENSOR:
      return lod::VarDesc::lod_tensor(std::move(name.bytes), std::move(tensor), level);
    case lod::VarType::SELECTED_ROWS:
      return lod::VarDesc::selected_rows(std::move(name.bytes), std::move(tensor));
    case lod::VarType::LOD_TENSOR_ARRAY:
      return lod::VarDesc::lod_tensor_array(std::move(name.bytes), std::move(tensor), level);
    default:
      return lod::VarDesc::of_type(std::move(name.bytes), kind);
  }
}

std::int32_t levels_of(const lod::VarDesc& var) {
  if (var.type.lod_tensor) return var.type.lod_tensor->lod_level.value();
  return var.type.tensor_array ? var.type.tensor_array->lod_level.value() : 0;
}

/// Where a description keeps the value of a string: as an attribute of that name.
constexpr std::string_view value_attr = "value";

std::optional<Text> string_of(const lod::VarDesc& var) {
  for (const lod::VarDesc::Attr& attr : var.attrs) {
    if (attr.name == value_attr && attr.s) return Text{*attr.s};
  }
  return std::nullopt;
}

void set_string(lod::VarDesc& var, Text value) {
  std::erase_if(var.attrs, [](const lod::VarDesc::Attr& attr) { return attr.name == value_attr; });
  var.attrs.push_back({.name = std::string(value_attr), .type = AttrType::STRING, .s = std::move(value.bytes)});
}

/// A property of a field that is absent by default, and stays so where it is given that value.
template <class Class>
void bind_flag(Class& type, const char* name, lod::Defaulted<bool> lod::VarDesc::*field) {
  type.def_property(
      name, [=](const lod::VarDesc& self) { return (self.*field).value(); },
      [=](lod::VarDesc& self, bool value) {
        if (value != (self.*field).value()) self.*field = value;
      });
}

void bind_var(py::module_& module) {
  py::enum_<lod::VarType::Type> type(module, "VarType", "The kinds of variables.");
  for (std::int32_t number = 0; number <= lod::VarType::UINT64; ++number) {
    const auto known = static_cast<lod::VarType::Type>(number);
    if (!lod::is_pod(number) && lod::to_string(known) != std::string_view("?"))
      type.value(lod::to_string(known), known);
  }
  py::class_<lod::LoDTensorDesc>(module, "LoDTensorDesc", "What is known of a tensor before there are values.")
      .def(py::init([](const py::object& data_type, const std::vector<std::int64_t>& dims, std::int32_t lod_level) {
             return *make_var({}, dims, data_type, lod_level, lod::VarType::LOD_TENSOR).type.lod_tensor;
           }),
           py::arg("data_type"), py::arg("dims"), py::arg("lod_level") = 0)
      .def_property_readonly("data_type", [](const lod::LoDTensorDesc& self) { return self.tensor.data_type; })
      .def_property_readonly("dims", [](const lod::LoDTensorDesc& self) { return self.tensor.dims; })
      .def_property_readonly("lod_level", [](const lod::LoDTensorDesc& self) { return self.lod_level.value(); });
  py::class_<lod::VarDesc> var(module, "VarDesc", "What is known of a variable before there are values.");
  var.def(py::init([](Text name, const lod::LoDTensorDesc& tensor) {
            return lod::VarDesc::lod_tensor(std::move(name.bytes), tensor.tensor, tensor.lod_level);
          }),
          py::arg("name"), py::kw_only(), py::arg("lod_tensor"))
      .def(py::init(&make_var), py::arg("name"), py::arg("dims") = std::vector<std::int64_t>(),
           py::arg("data_type") = lod::DataType::FP32, py::arg("lod_level") = 0,
           py::arg("type") = lod::VarType::LOD_TENSOR)
      .def_static(
          "from_proto", [](const py::bytes& bytes) { return lod::decode<lod::VarDesc>(std::string(bytes)); },
          py::arg("bytes"), "That of a VarDesc. ParseError for other bytes.")
      .def_static(
          "describe",
          [](Text name, const Tensor& tensor) { return lod::describe(std::move(name.bytes), tensor.tensor()); },
          py::arg("name"), py::arg("tensor"), "The variable that a tensor is a value of.")
      .def_property_readonly("name", [](const lod::VarDesc& self) { return Text{self.name}; })
      .def_property_readonly("type", [](const lod::VarDesc& self) { return self.type.type; })
      .def_property_readonly(
          "dims",
          [](const lod::VarDesc& self) {
            const lod::TensorDesc* const tensor = tensor_of(self.type);
            return tensor ? tensor->dims : std::vector<std::int64_t>();
          },
          "Of the tensor that it is, or of those that it holds; none where its type has no tensor.")
      .def_property_readonly(
          "data_type",
          [](const lod::VarDesc& self) {
            const lod::TensorDesc* const tensor = tensor_of(self.type);
            return tensor ? std::optional(tensor->data_type) : std::nullopt;
          },
          "None where its type has no tensor.")
      .def_property_readonly("lod_level", &levels_of)
      .def_property("string", &string_of, &set_string, "The value of a STRING.")
      .def(
          "matches", [](const lod::VarDesc& self, const Tensor& tensor) { return lod::matches(tensor.tensor(), self); },
          py::arg("tensor"), "Whether a tensor is as described; -1 matches any dimension.")
      .def(
          "to_proto", [](const lod::VarDesc& self) { return py::bytes(lod::encode(self)); }, "The bytes of it.");
  bind_flag(var, "persistable", &lod::VarDesc::persistable);
  bind_flag(var, "is_parameter", &lod::VarDesc::is_parameter);
  bind_flag(var, "stop_gradient", &lod::VarDesc::stop_gradient);
}

}  // namespace

void bind_descriptions(py::module_& module) {
  bind_operator(module);
  bind_var(module);
}

}  // namespace lod_python
