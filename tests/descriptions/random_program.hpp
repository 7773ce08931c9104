// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random programs, and an interpreter of them whose values are numbers that tell where they come from: what reads a
/// wrong value computes a wrong one.
#pragma once

#include "support/random_lod.hpp"
#include <lod/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lod_test {

/// What random programs are like.
struct RandomProgram {
  std::int64_t max_vars = 8;    ///< of block 0
  std::int64_t max_ops = 20;    ///< of block 0
  std::int64_t max_blocks = 4;  ///< block 0 among them
  bool only_plain = false;      ///< no inner blocks, nothing but LOD_TENSORs

  /// An operator; those of one program differ in their attribute "id".
  static lod::OpDesc op(std::int32_t id) {
    lod::OpDesc op{.type = "op" + std::to_string(id % 3)};
    op.attrs.push_back({.name = "id", .type = lod::AttrType::INT, .i = id});
    return op;
  }
  static void add_block(lod::OpDesc& op, std::int32_t idx) {
    op.attrs.push_back({.name = "sub_block", .type = lod::AttrType::BLOCK, .block_idx = idx});
  }

  lod::ProgramDesc make(Engine& engine) const {
    lod::ProgramDesc program;
    program.version = lod::Version{.version = random_number(engine, 0, 3000000)};
    const bool with_blocks = !only_plain && random_number(engine, 0, 2) > 0;
    const auto blocks = with_blocks ? random_number(engine, 1, max_blocks) : 1;
    std::int32_t id = 0;
    for (std::int32_t b = 0; b < blocks; ++b) {
      lod::BlockDesc block{.idx = b};
      if (b > 0) block.parent_idx = static_cast<std::int32_t>(random_number(engine, 0, b - 1));
      if (b > 1 && random_number(engine, 0, 3) == 0) {
        block.forward_block_idx = static_cast<std::int32_t>(random_number(engine, 1, b - 1));
      }
      const auto vars = b > 0 ? random_number(engine, 0, 3) : random_number(engine, max_vars / 2, max_vars);
      for (std::int64_t v = 0; v < vars; ++v) block.vars.push_back(var(engine, b, v));
      const auto ops = random_number(engine, 0, b > 0 ? 4 : max_ops);
      for (std::int64_t o = 0; o < ops; ++o) {
        lod::OpDesc made = op(id++);
        const auto arguments = [&](std::vector<lod::OpDesc::Var>& list, const char* parameter, std::int64_t least,
                                   std::int64_t most) {
          lod::OpDesc::Var& added = list.emplace_back(lod::OpDesc::Var{.parameter = parameter});
          for (auto n = random_number(engine, least, most); n > 0; --n) added.arguments.push_back(name(engine, b));
        };
        arguments(made.inputs, "X", 0, 1);
        if (random_number(engine, 0, 2) == 0) arguments(made.inputs, "Y", 0, 2);
        arguments(made.outputs, "Out", 0, 3);
        if (random_number(engine, 0, 9) == 0) made.unknown_fields = "\x98\x06\x01";  // field 99
        block.ops.push_back(std::move(made));
      }
      program.blocks.push_back(std::move(block));
    }
    // Each inner block is owned by an operator of the block around it, most often; sometimes by two, or by none.
    for (std::int32_t b = 1; b < blocks; ++b) {
      auto& owners =
          program.blocks[static_cast<std::size_t>(program.blocks[static_cast<std::size_t>(b)].parent_idx)].ops;
      for (auto n = random_number(engine, 0, 5) % 3; n > 0 && !owners.empty(); --n) {
        add_block(owners[engine() % owners.size()], b);
      }
    }
    return program;
  }

 private:
  static std::string own_name(std::int32_t block, std::int64_t v) {
    return std::string(1, static_cast<char>('a' + block)) + std::to_string(v);
  }
  /// A name that operators of a block may use: of its own variables, of those of any block (perhaps of one that it does
  /// not see), and the one of no variable.
  std::string name(Engine& engine, std::int32_t block) const {
    switch (random_number(engine, 0, 19)) {
      case 0:
        return "@EMPTY@";
      case 1:
        return "nowhere";
      default:
        const auto of = static_cast<std::int32_t>(random_number(engine, 0, block));
        return own_name(of, random_number(engine, 0, of == 0 ? max_vars - 1 : 2));
    }
  }
  lod::VarDesc var(Engine& engine, std::int32_t block, std::int64_t v) const {
    std::string var_name = own_name(block, v);
    if (block > 0 && random_number(engine, 0, 3) == 0) var_name = own_name(0, v);  // hides one of block 0
    const lod::TensorDesc tensor{lod::DataType::FP32, {random_number(engine, -1, 4), random_number(engine, 0, 40)}};
    lod::VarDesc made = lod::VarDesc::lod_tensor(std::move(var_name), tensor, 0);
    const bool is_persistable = random_number(engine, 0, 3) == 0 && random_number(engine, 0, 3) > 0;
    // In an inner block it is seen from everywhere: of one type, wherever it is described.
    if (!only_plain && !(is_persistable && block > 0)) {
      const auto kind = random_number(engine, 0, 9);
      if (kind == 0) made = lod::VarDesc::lod_tensor_array(made.name, tensor);
      if (kind == 1) made = lod::VarDesc::selected_rows(made.name, tensor);
      if (kind == 2 && block == 0) made = lod::VarDesc::of_type(made.name, lod::VarType::FETCH_LIST);
    }
    if (is_persistable || random_number(engine, 0, 9) == 0) made.persistable = is_persistable;
    return made;
  }
};

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  a ^= b + 0x9E3779B97F4A7C15U + (a << 6) + (a >> 2);
  a *= 0xBF58476D1CE4E5B9U;
  return a ^ a >> 29;
}
inline std::uint64_t mix(std::uint64_t a, const std::string& text) {
  for (const char c : text) a = mix(a, static_cast<unsigned char>(c));
  return mix(a, text.size());
}

/// The names of the persistable variables of all blocks.
inline std::set<std::string> persistable_names(const lod::ProgramDesc& program) {
  std::set<std::string> names;
  for (const lod::BlockDesc& block : program.blocks) {
    for (const lod::VarDesc& var : block.vars) {
      if (var.persistable) names.insert(var.name);
    }
  }
  return names;
}

/// Runs operators of block 0 of a program. Memory has read(name) and write(name, value) for variables of block 0, for
/// the persistable ones of all blocks and for names that no block has. Operators with blocks run them not at all, once
/// or twice, by a number that depends on the run; those that write into arrays keep some of what was there.
template <class Memory>
class Interpreter {
 public:
  Interpreter(const lod::ProgramDesc& program, Memory& memory, std::uint64_t run)
      : program_(program), memory_(memory), run_(run) {}

  /// Returns a number that depends on all that the operator read and wrote.
  std::uint64_t operator()(const lod::OpDesc& op) {
    trace_ = 0;
    run(op, 0);
    return trace_;
  }

 private:
  /// The variables of a block that runs, and the block around it that does.
  struct Locals {
    const lod::BlockDesc* block;
    std::map<std::string, std::uint64_t> values;
    Locals* outer;
  };

  static const lod::VarDesc* local_var(const lod::BlockDesc& block, const std::string& name) {
    const lod::VarDesc* var = block.find_var(name);
    return var && !var->persistable ? var : nullptr;
  }
  /// The variable of that name that is there for as long as a block runs: its own, or one that the block whose gradient
  /// it computes has left.
  const lod::VarDesc* local_var(const Locals& locals, const std::string& name) const {
    const lod::VarDesc* own = local_var(*locals.block, name);
    const std::int32_t forward = locals.block->forward_block_idx;
    bool is_around = forward == -1;
    for (std::int32_t idx = locals.block->idx; idx != -1; idx = program_.block(idx).parent_idx) {
      is_around = is_around || idx == forward;
    }
    return own || is_around ? own : local_var(program_.block(forward), name);
  }
  lod::VarType::Type type_of(const std::string& name, const Locals* locals) const {
    for (; locals; locals = locals->outer) {
      if (const lod::VarDesc* var = local_var(*locals, name)) return var->type.type;
    }
    const lod::VarDesc* var = program_.blocks[0].find_var(name);
    return var ? var->type.type : lod::VarType::LOD_TENSOR;
  }
  std::uint64_t* local(const std::string& name, Locals* locals) const {
    for (; locals; locals = locals->outer) {
      if (local_var(*locals, name)) return &locals->values.try_emplace(name, mix(run_, name)).first->second;
    }
    return nullptr;
  }
  std::uint64_t read(const std::string& name, Locals* locals) {
    if (type_of(name, locals) == lod::VarType::FETCH_LIST) return 0;
    const std::uint64_t* found = local(name, locals);
    const std::uint64_t value = found ? *found : memory_.read(name);
    trace_ = mix(trace_, value);
    return value;
  }
  void write(const std::string& name, std::uint64_t value, Locals* locals) {
    if (type_of(name, locals) == lod::VarType::LOD_TENSOR_ARRAY) value = mix(read(name, locals), value);
    trace_ = mix(trace_, value);
    if (std::uint64_t* found = local(name, locals)) {
      *found = value;
    } else {
      memory_.write(name, value);
    }
  }

  void run(const lod::OpDesc& op, Locals* locals) {
    auto value = static_cast<std::uint64_t>(op.attr<std::int32_t>("id")) + 1;
    const auto for_each = [](const std::vector<lod::OpDesc::Var>& list, const auto& body) {
      for (const auto& var : list) {
        for (const std::string& name : var.arguments) {
          if (name != "@EMPTY@") body(name);
        }
      }
    };
    for_each(op.inputs, [&](const std::string& name) { value = mix(value, read(name, locals)); });
    bool owns = false;
    std::uint64_t times = mix(run_, op.type + std::to_string(value)) % 3;
    for (const lod::OpDesc::Attr& attr : op.attrs) {
      if (attr.type != lod::AttrType::BLOCK) continue;
      owns = true;
      const lod::BlockDesc& block = program_.block(*attr.block_idx);
      for (std::uint64_t i = 0; i < times; ++i) {
        Locals inner{&block, {}, locals};
        for (const lod::OpDesc& next : block.ops) run(next, &inner);
      }
    }
    if (owns && times == 0) return;
    for_each(op.outputs, [&](const std::string& name) { write(name, mix(value, name), locals); });
  }

  const lod::ProgramDesc& program_;
  Memory& memory_;
  std::uint64_t run_;
  std::uint64_t trace_ = 0;
};

/// Calls body(engine, program) for random programs, each with an engine that goes on.
template <class Body>
void for_each_random_program(int count, const RandomProgram& kind, const Body& body) {
  for (int i = 0; i < count; ++i) {
    INFO("LOD_TEST_SEED=", first_seed(), ": sample ", i);
    Engine engine(first_seed() + static_cast<std::uint64_t>(i));
    const lod::ProgramDesc program = kind.make(engine);
    body(engine, program);
  }
}

/// An operator of one input and one output, each of several variables.
inline lod::OpDesc op(const std::string& type, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  return {.inputs = {{.parameter = "X", .arguments = std::move(inputs)}},
          .outputs = {{.parameter = "Out", .arguments = std::move(outputs)}},
          .type = type};
}

}  // namespace lod_test
