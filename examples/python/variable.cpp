// SPDX-License-Identifier: Apache-2.0
#include "variable.hpp"

#include "data_types.hpp"
#include "tensor.hpp"
#include "text.hpp"
#include <lod/proto/program.hpp>

#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace lod_python {

namespace {

using Attr = lod::OpDesc::Attr;

/// Where variables and the operators that fill them are recorded.
struct Block {
  lod::BlockDesc desc;

  /// A name that no variable of the block has.
  std::string unused_name() const {
    std::size_t number = desc.vars.size();
    std::string name;
    do {
      name = "variable_" + std::to_string(number++);
    } while (desc.find_var(name));
    return name;
  }
};

/// What an initializer will make an operator of: everything but the output.
struct Initializer {
  std::string type;
  std::vector<Attr> attrs;
};

struct Variable {
  std::shared_ptr<Block> block;
  lod::VarDesc desc;
  std::optional<lod::OpDesc> op;  // the operator that produces it

  const lod::LoDTensorDesc& tensor() const { return desc.type.lod_tensor.value(); }
};

const std::shared_ptr<Block>& default_block() {
  static const auto block = std::make_shared<Block>();
  return block;
}

Attr float_attr(std::string name, double value) {
  return {.name = std::move(name), .type = lod::AttrType::FLOAT, .f = static_cast<float>(value)};
}
Attr int_attr(std::string name, std::int32_t value) {
  return {.name = std::move(name), .type = lod::AttrType::INT, .i = value};
}
Attr longs_attr(std::string name, std::vector<std::int64_t> values) {
  return {.name = std::move(name), .type = lod::AttrType::LONGS, .longs = std::move(values)};
}

/// Adds the operator that will fill the variable to its block.
void add_initial_operator(Variable& variable, const Initializer& initializer) {
  const lod::TensorDesc& tensor = variable.tensor().tensor;
  if (std::ranges::any_of(tensor.dims, [](std::int64_t dim) { return dim < 0; })) {
    throw std::invalid_argument("'" + variable.desc.name + "': an initializer has to know all dims");
  }
  lod::OpDesc op{
      .outputs = {{.parameter = "Out", .arguments = {variable.desc.name}}},
      .type = initializer.type,
      .attrs = {longs_attr("shape", tensor.dims), int_attr("dtype", static_cast<std::int32_t>(tensor.data_type))}};
  op.attrs.insert(op.attrs.end(), initializer.attrs.begin(), initializer.attrs.end());
  variable.block->desc.ops.push_back(op);
  variable.op = std::move(op);
}

Variable make_variable(const std::optional<Text>& name, std::vector<std::int64_t> dims, const py::object& type,
                       const std::optional<Initializer>& initializer, std::int32_t lod_level, bool persistable,
                       const std::shared_ptr<Block>& given) {
  Variable variable;
  variable.block = given ? given : default_block();
  lod::BlockDesc& block = variable.block->desc;
  const std::string known = name ? name->bytes : variable.block->unused_name();
  if (block.find_var(known)) throw std::invalid_argument("there is a variable '" + known + "' already");
  if (std::ranges::any_of(dims, [](std::int64_t dim) { return dim < -1; })) {
    throw std::invalid_argument("'" + known + "': dims are 0 or more, or -1 where they are not known");
  }
  if (lod_level < 0) throw std::invalid_argument("'" + known + "': lod_level " + std::to_string(lod_level));
  variable.desc = lod::VarDesc::lod_tensor(known, {to_data_type(type), std::move(dims)});
  if (lod_level > 0) variable.desc.type.lod_tensor->lod_level = lod_level;
  if (persistable) variable.desc.persistable = true;
  if (initializer) add_initial_operator(variable, *initializer);
  block.vars.push_back(variable.desc);
  return variable;
}

/// A variable that is described already, in a block of its own.
Variable in_own_block(lod::VarDesc desc) {
  if (!desc.type.lod_tensor) throw std::invalid_argument("'" + desc.name + "' is no LoDTensor");
  auto block = std::make_shared<Block>();
  block->desc.vars.push_back(desc);
  return {std::move(block), std::move(desc), {}};
}

py::object value_of(const Attr& attr) {
  switch (attr.type) {
    case lod::AttrType::INT:
      return py::cast(attr.i);
    case lod::AttrType::FLOAT:
      return py::cast(attr.f);
    case lod::AttrType::LONGS:
      return py::cast(attr.longs);
    default:  // initializers have no others
      return py::none();
  }
}

py::dict attrs_of(const lod::OpDesc& op) {
  py::dict attrs;
  for (const Attr& attr : op.attrs) attrs[py::str(attr.name)] = value_of(attr);
  return attrs;
}

std::vector<Text> to_texts(const std::vector<std::string>& all) {
  std::vector<Text> texts;
  for (const std::string& text : all) texts.push_back({text});
  return texts;
}

Text text_of_variable(const Variable& variable) {
  const lod::LoDTensorDesc& desc = variable.tensor();
  std::string text = "Variable('" + variable.desc.name + "', dims=[";
  for (std::size_t i = 0; i < desc.tensor.dims.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(desc.tensor.dims[i]);
  }
  text += std::string("], type=") + lod::to_string(desc.tensor.data_type);
  if (desc.lod_level > 0) text += ", lod_level=" + std::to_string(desc.lod_level);
  return {text + ")"};
}

template <class Message>
py::bytes encoded(const Message& message) {
  return lod::encode(message);
}

void bind_initializers(py::module_& module) {
  py::class_<Initializer>(module, "Initializer", "How a variable gets its first value.")
      .def_readonly("type", &Initializer::type, "The type of the operator that it stands for.");
  module.def(
      "constant",
      [](double value) {
        return Initializer{"fill_constant", {float_attr("value", value)}};
      },
      py::arg("value") = 0.0, "The same value everywhere.");
  module.def(
      "random_uniform",
      [](double min, double max, std::int32_t seed) {
        return Initializer{"uniform_random", {float_attr("min", min), float_attr("max", max), int_attr("seed", seed)}};
      },
      py::arg("min") = -1.0, py::arg("max") = 1.0, py::arg("seed") = 0,
      "Numbers from min to max. Seed 0: another each time.");
  module.def(
      "random_normal",
      [](double mean, double std, std::int32_t seed) {
        return Initializer{"gaussian_random",
                           {float_attr("mean", mean), float_attr("std", std), int_attr("seed", seed)}};
      },
      py::arg("mean") = 0.0, py::arg("std") = 1.0, py::arg("seed") = 0,
      "Normally distributed numbers. Seed 0: others each time.");
}

}  // namespace

void bind_variable(py::module_& module) {
  const py::object none = py::none();
  py::class_<lod::OpDesc>(module, "Operator", "An operator of a block.")
      .def_readonly("type", &lod::OpDesc::type)
      .def_property_readonly(
          "outputs", [](const lod::OpDesc& self) { return to_texts(self.outputs.at(0).arguments); },
          "The names of the variables that it writes.")
      .def_property_readonly("attrs", &attrs_of, "Its attributes by name.")
      .def("to_proto", &encoded<lod::OpDesc>, "The bytes of its OpDesc.");
  py::class_<Block, std::shared_ptr<Block>>(module, "Block", "Variables, and the operators that fill them.")
      .def(py::init<>())
      .def_property_readonly(
          "vars",
          [](const Block& self) {
            std::vector<std::string> names;
            for (const lod::VarDesc& var : self.desc.vars) names.push_back(var.name);
            return to_texts(names);
          },
          "The names of the variables.")
      .def_property_readonly(
          "ops", [](const Block& self) { return self.desc.ops; }, "The operators, in the order in which they run.")
      .def(
          "to_proto", [](const Block& self) { return encoded(self.desc); }, "The bytes of its BlockDesc.");
  module.def("get_default_block", &default_block, "The block of variables that name no other.");
  bind_initializers(module);

  py::class_<Variable>(module, "Variable", "What is known of a tensor before there are values.")
      .def(py::init(&make_variable), py::arg("name") = none, py::arg("dims") = std::vector<std::int64_t>(),
           py::arg("type") = lod::DataType::FP32, py::arg("initializer") = none, py::kw_only(),
           py::arg("lod_level") = 0, py::arg("persistable") = false, py::arg("block") = std::shared_ptr<Block>(),
           "Adds a variable to a block, and the operator of its initializer. -1 is a dim that is not known. Without a "
           "name it gets one that the block has not.")
      .def_static(
          "describe",
          [](Text name, const Tensor& tensor) {
            return in_own_block(lod::describe(std::move(name.bytes), tensor.tensor()));
          },
          py::arg("name"), py::arg("tensor"), "The variable that a tensor is a value of, in a block of its own.")
      .def_static(
          "from_proto",
          [](const py::bytes& bytes) { return in_own_block(lod::decode<lod::VarDesc>(std::string(bytes))); },
          py::arg("bytes"), "That of a VarDesc, in a block of its own. ParseError for other bytes.")
      .def_property_readonly("name", [](const Variable& self) { return Text{self.desc.name}; })
      .def_readonly("block", &Variable::block, "The block that it is recorded in.")
      .def_readonly("op", &Variable::op, "The operator that produces it; None before there is one.")
      .def("initialize", &add_initial_operator, py::arg("initializer"), "Adds the operator that will fill it.")
      .def("dims", [](const Variable& self) { return self.tensor().tensor.dims; })
      .def("data_type", [](const Variable& self) { return self.tensor().tensor.data_type; })
      .def_property_readonly("lod_level", [](const Variable& self) { return self.tensor().lod_level.value(); })
      .def_property_readonly("persistable", [](const Variable& self) { return self.desc.persistable.value(); })
      .def(
          "matches",
          [](const Variable& self, const Tensor& tensor) { return lod::matches(tensor.tensor(), self.desc); },
          py::arg("tensor"), "Whether a tensor is as described; -1 matches any dimension.")
      .def(
          "to_proto", [](const Variable& self) { return encoded(self.desc); }, "The bytes of its VarDesc.")
      .def("__repr__", &text_of_variable);
}

}  // namespace lod_python
