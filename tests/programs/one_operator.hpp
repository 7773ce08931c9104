// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs for tests: operators, variables, attributes, and programs of one operator, whose results are as described.
#pragma once

#include <lod/desc.hpp>
#include <lod/infer.hpp>
#include <lod/program.hpp>
#include <lod/run.hpp>
#include <lod/scope.hpp>

#ifdef LOD_TEST_THRUST
#  include "other_libraries.hpp"
#  include "support/run_on_thrust.hpp"
#endif

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod_test {

/// An attribute, of the type of its value.
template <class T>
lod::OpDesc::Attr attr(std::string name, const T& value) {
  lod::OpDesc::Attr made{.name = std::move(name)};
  if constexpr (std::is_same_v<T, bool>) {
    made.type = lod::AttrType::BOOLEAN;
    made.b = value;
  } else if constexpr (std::is_same_v<T, int>) {
    made.type = lod::AttrType::INT;
    made.i = value;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    made.type = lod::AttrType::LONG;
    made.l = value;
  } else if constexpr (std::is_same_v<T, float>) {
    made.type = lod::AttrType::FLOAT;
    made.f = value;
  } else if constexpr (std::is_same_v<T, std::vector<int>>) {
    made.type = lod::AttrType::INTS;
    made.ints = value;
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    made.type = lod::AttrType::LONGS;
    made.longs = value;
  } else if constexpr (std::is_same_v<T, std::vector<float>>) {
    made.type = lod::AttrType::FLOATS;
    made.floats = value;
  } else {
    made.type = lod::AttrType::STRING;
    made.s = value;
  }
  return made;
}

using Attrs = std::vector<lod::OpDesc::Attr>;
/// The arguments of an operator's parameters.
using Arguments = std::vector<std::pair<std::string, std::vector<std::string>>>;

inline lod::OpDesc op(std::string type, const Arguments& inputs, const Arguments& outputs, Attrs attrs = {}) {
  lod::OpDesc made{.type = std::move(type), .attrs = std::move(attrs)};
  for (const auto& one : inputs) made.inputs.push_back({.parameter = one.first, .arguments = one.second});
  for (const auto& one : outputs) made.outputs.push_back({.parameter = one.first, .arguments = one.second});
  return made;
}

/// A tensor of which nothing else is known.
inline lod::VarDesc tensor_var(std::string name, bool persistable = false) {
  lod::VarDesc var{.name = std::move(name), .type = {.type = lod::VarType::LOD_TENSOR}};
  if (persistable) var.persistable = true;
  return var;
}

/// A program of one block, with a variable for each name; the persistable ones are named.
inline lod::ProgramDesc program_of(std::vector<lod::OpDesc> ops, const std::vector<std::string>& persistable = {}) {
  lod::ProgramDesc program;
  lod::BlockDesc& block = program.blocks.emplace_back();
  for (const std::string& name : persistable) block.vars.push_back(tensor_var(name, true));
  for (const lod::OpDesc& one : ops) {
    for (const auto* vars : {&one.inputs, &one.outputs}) {
      for (const auto& var : *vars) {
        for (const std::string& name : var.arguments) {
          if (!block.find_var(name)) block.vars.push_back(tensor_var(name));
        }
      }
    }
  }
  block.ops = std::move(ops);
  return program;
}

/// An attribute that names a block.
inline lod::OpDesc::Attr block_attr(std::int32_t idx) {
  return {.name = "sub_block", .type = lod::AttrType::BLOCK, .block_idx = idx};
}
/// fill_constant.
inline lod::OpDesc constant(const std::string& out, const std::vector<std::int64_t>& shape, float value,
                            lod::DataType type = lod::DataType::FP32) {
  return op("fill_constant", {}, {{"Out", {out}}},
            {attr("shape", shape), attr("value", value), attr("dtype", static_cast<int>(type))});
}
/// A block inside another, with these variables of its own.
inline void add_block(lod::ProgramDesc& program, std::vector<lod::OpDesc> ops, const std::vector<std::string>& own = {},
                      std::int32_t parent = 0) {
  lod::BlockDesc& block = program.blocks.emplace_back();
  block.idx = static_cast<std::int32_t>(program.blocks.size()) - 1;
  block.parent_idx = parent;
  for (const std::string& name : own) block.vars.push_back(tensor_var(name));
  block.ops = std::move(ops);
}
/// Makes the variables of block 0 with these names ones of another type.
inline void retype(lod::ProgramDesc& program, lod::VarType::Type type, const std::vector<std::string>& names) {
  for (lod::VarDesc& one : program.blocks[0].vars) {
    if (std::find(names.begin(), names.end(), one.name) != names.end()) one.type.type = type;
  }
}

/// What is known of a tensor.
inline lod::LoDTensorDesc described(const lod::AnyLoDTensor& x, bool knows_rows) {
  const lod::Shape shape = x.shape();
  lod::LoDTensorDesc desc{{x.data_type(), {shape.begin(), shape.end()}}, x.levels()};
  if (!knows_rows) desc.tensor.dims.front() = -1;
  return desc;
}
/// Checks that results of an operator of the library are what `infer_shapes` describes, whether or not the numbers of
/// rows are known.
inline void check_inferred(lod::ProgramDesc program, const lod::RunOptions& options,
                           const std::vector<lod::AnyLoDTensor>& results) {
  const std::string& type = program.blocks[0].ops[0].type;
  // Of gradients there is no rule; what these give depends on the numbers in a mask.
  const bool depends = type == "merge_lod_tensor" || type == "select_input" || type == "select_output";
  if (depends || type.ends_with("_grad") || !lod::operators_of_programs::inference_of(type)) return;
  for (const bool knows_rows : {true, false}) {
    for (const auto& [name, value] : options.feed) {
      for (lod::VarDesc& var : program.blocks[0].vars) {
        if (var.name == name) var.type.lod_tensor = described(value, knows_rows);
      }
    }
    lod::infer_shapes(program);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto& found = program.blocks[0].find_var(options.fetch[i])->type.lod_tensor;
      INFO(type << ", " << options.fetch[i]);
      REQUIRE(found.has_value());
      lod::infer::Dims dims = found->tensor.dims, expected = described(results[i], true).tensor.dims;
      if (dims.empty()) dims = {1};
      INFO(lod::infer::to_string(dims) << ", the result has " << lod::infer::to_string(expected));
      CHECK(lod::infer::agree(dims, expected));
      CHECK(found->tensor.data_type == results[i].data_type());
      CHECK(found->lod_level == results[i].levels());
    }
  }
}

/// Checks that a program gives the same over Thrust, if that is there.
inline void check_on_thrust([[maybe_unused]] const lod::ProgramDesc& program,
                            [[maybe_unused]] const lod::RunOptions& options,
                            [[maybe_unused]] const std::vector<lod::AnyLoDTensor>& expected) {
#ifdef LOD_TEST_THRUST
  if (is_by_another || !runs_on_thrust(program.blocks[0].ops[0].type)) return;
  lod::Scope scope;
  const std::vector<lod::AnyLoDTensor> found = run_on_thrust(program, scope, options);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("over Thrust: " << program.blocks[0].ops[0].type << ", " << options.fetch[i]);
    check_close(found[i], expected[i]);
  }
#endif
}

/// Runs one operator: the arguments of its inputs, by parameter, and the outputs to return. One that begins with '-' is
/// there, but not returned.
inline std::vector<lod::AnyLoDTensor> apply(
    const std::string& type, const std::vector<std::pair<std::string, std::vector<lod::AnyLoDTensor>>>& inputs,
    const std::vector<std::string>& outputs, Attrs attrs = {}) {
  Arguments in, out;
  lod::RunOptions options;
  for (const auto& one : inputs) {
    in.emplace_back(one.first, std::vector<std::string>());
    for (std::size_t i = 0; i < one.second.size(); ++i) {
      in.back().second.push_back("in " + one.first + std::to_string(i));
      options.feed.emplace(in.back().second.back(), one.second[i]);
    }
  }
  for (const std::string& parameter : outputs) {
    const bool is_hidden = parameter[0] == '-';
    const std::string name = is_hidden ? parameter.substr(1) : parameter;
    if (!out.empty() && out.back().first == name) {
      out.back().second.push_back("out " + name + std::to_string(out.back().second.size()));
    } else {
      out.emplace_back(name, std::vector<std::string>{"out " + name + "0"});
    }
    if (!is_hidden) options.fetch.push_back(out.back().second.back());
  }
  lod::Scope scope;
  const lod::ProgramDesc program = program_of({op(type, in, out, std::move(attrs))});
  std::vector<lod::AnyLoDTensor> results = lod::run(program, scope, options);
  check_inferred(program, options, results);
  check_on_thrust(program, options, results);
  return results;
}

/// The numbers of a tensor.
template <class T>
std::vector<T> numbers(const lod::AnyLoDTensor& x) {
  const auto view = x.view<T>();
  return std::vector<T>(view.values().begin(), view.values().end());
}
using Floats = std::vector<float>;
using Ids = std::vector<std::int64_t>;

/// A plain tensor, and one under a LoD of these lengths of sequences.
template <class T>
lod::LoDTensor<T> plain(const lod::Shape& shape, const std::vector<T>& values) {
  return lod::LoDTensor<T>::from_values(lod::LoD(), shape.without_first(), values);
}
template <class T>
lod::LoDTensor<T> ragged(const std::vector<std::int64_t>& lengths, const lod::Shape& row_shape,
                         const std::vector<T>& values) {
  return lod::LoDTensor<T>::from_values(lod::LoD::from_lengths({lengths}), row_shape, values);
}

}  // namespace lod_test
