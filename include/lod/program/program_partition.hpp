// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// A program in parts, for several workers: each part is a program of its own, with lists of the variables that it
/// sends to the others and receives from them. Parts can be joined again.
///
///     const auto parts = lod::split(program, std::vector<std::int64_t>{0, 0, 1, 1}, 2);
///     lod::encode(parts[1]);           // by <lod/proto/program_part.hpp>, to be sent to worker 1
///     lod::join(parts) == program;
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/name_hash.hpp>
#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/identical.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// The value of a variable that goes from one part to another.
struct Transfer {
  std::string variable = {};
  std::int64_t from = 0;    ///< the part that sends it
  std::int64_t to = 0;      ///< the part that receives it
  std::int64_t after = 0;   ///< operator of block 0 of `from` after which the value exists
  std::int64_t before = 0;  ///< operator of block 0 of `to` before which the value must have arrived; one past the last
                            ///< operator if only the next run reads it
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const Transfer&) const = default;
};

/// One worker's part of a program: its operators of block 0, in order, the blocks that these own, and the variables
/// that they use. Blocks are renumbered so that the part is a valid program; for `join`, the last three lists tell what
/// everything was in the whole, and the last three numbers how much the whole has.
///
/// A worker needs `program`, `sends` and `receives`. In a run it executes its operators in order; before operator i it
/// receives the transfers with `before` == i, and after it, before it goes on, it sends (as copies, unless it waits for
/// the other side) those with `after` == i. At the end it receives the transfers whose `before` is one past the last
/// operator. Transfers of the same variable between the same parts have the same order in both lists; those of
/// different variables need not. If sends do not wait, no deadlock is possible.
struct ProgramPart {
  ProgramDesc program = {};
  std::vector<Transfer> sends = {};       ///< ascending by `after`
  std::vector<Transfer> receives = {};    ///< ascending by `before`
  std::vector<std::int64_t> ops = {};     ///< for each operator of block 0, its position in block 0 of the whole
  std::vector<std::int64_t> vars = {};    ///< for each variable of block 0, its position in block 0 of the whole
  std::vector<std::int32_t> blocks = {};  ///< for each block, its number in the whole; block 0 stays block 0
  std::int64_t whole_ops = 0;             ///< how many operators block 0 of the whole has
  std::int64_t whole_vars = 0;            ///< how many variables block 0 of the whole has
  std::int64_t whole_blocks = 0;          ///< how many blocks the whole has
  std::string unknown_fields = {};

  LOD_TAGGED bool operator==(const ProgramPart&) const = default;
};

namespace detail::inline LOD_TARGET {

/// A program and its block 0 without their contents.
inline ProgramDesc frame_of(const ProgramDesc& program) {
  ProgramDesc frame = program;
  frame.blocks.resize(1);
  frame.blocks[0].vars.clear();
  frame.blocks[0].ops.clear();
  return frame;
}

/// Renumbers a block, its parent and forward blocks, and the blocks in its attributes: to number_of(number).
template <class NumberOf>
void renumber_blocks(BlockDesc& block, const NumberOf& number_of) {
  block.idx = number_of(block.idx);
  if (block.parent_idx != -1) block.parent_idx = number_of(block.parent_idx);
  if (block.forward_block_idx != -1) block.forward_block_idx = number_of(block.forward_block_idx);
  for (OpDesc& op : block.ops) {
    for_each_block(op, [&](std::int32_t& idx) { idx = number_of(idx); });
  }
}

/// For each block of a program, whether it is in a part.
class BlockSelection {
 public:
  /// Contains block 0, which is in every part.
  explicit BlockSelection(const ProgramDesc& program) : program_(program), is_in_(program.blocks.size()) {
    is_in_[0] = true;
    if (program.blocks[0].forward_block_idx != -1) add({program.blocks[0].forward_block_idx});
  }

  bool contains(std::size_t idx) const { return is_in_[idx]; }
  /// Adds the blocks that an operator owns.
  void add(const OpDesc& op) {
    std::vector<std::int32_t> open;
    for_each_block(op, [&](std::int32_t idx) { open.push_back(idx); });
    add(std::move(open));
  }
  /// Adds blocks, with all blocks inside them, those that enclose them, and those whose gradients they compute: that is
  /// where operators look for variables.
  void add(std::vector<std::int32_t> open) {
    while (!open.empty()) {
      const auto idx = static_cast<std::size_t>(open.back());
      open.pop_back();
      if (is_in_[idx]) continue;
      is_in_[idx] = true;
      const BlockDesc& block = program_.blocks[idx];
      open.push_back(block.parent_idx);  // there is one: block 0 has been in from the start
      if (block.forward_block_idx != -1) open.push_back(block.forward_block_idx);
      for (const OpDesc& op : block.ops) {
        for_each_block(op, [&](std::int32_t inner) { open.push_back(inner); });
      }
    }
  }

 private:
  const ProgramDesc& program_;
  std::vector<bool> is_in_;
};

/// Types whose values mean something only in the memory of one worker.
constexpr bool is_bound_to_worker(VarType::Type type) noexcept {
  return type == VarType::STEP_SCOPES || type == VarType::READER || type == VarType::CHANNEL || type == VarType::RAW;
}

/// Goes through the operators of block 0 in order and determines which value must go where.
class TransferFinder {
 public:
  TransferFinder(const ProgramDesc& program, std::size_t parts) : sizes_(parts) {
    for (const VarDesc& var : program.blocks[0].vars) described_.emplace(var.name, &var);
    for (const BlockDesc& block : program.blocks) {
      for (const VarDesc& var : block.vars) {
        if (!var.persistable) continue;
        described_.emplace(var.name, &var);
        persistable_.insert(var.name);
      }
    }
  }

  /// Adds the next operator, which part `part` runs.
  void add(const Access& access, std::int64_t part) {
    const std::int64_t position = sizes_[static_cast<std::size_t>(part)];
    for (const std::string_view name : access.reads) read(name, part, position);
    for (const std::string_view name : access.writes) {
      if (access.may_skip_writes || type_of(name) == VarType::LOD_TENSOR_ARRAY) read(name, part, position);
    }
    for (const std::string_view name : access.writes) {
      Value& value = values_[name];
      value.is_written = true;
      value.writer = part;
      value.position = position;
      value.holders = {part};
    }
    ++sizes_[static_cast<std::size_t>(part)];
  }

  /// Returns all transfers, after the last operator.
  std::vector<Transfer> finish() {
    for (auto& [name, value] : values_) {
      if (!value.is_written || !persistable_.contains(name)) continue;
      for (const std::int64_t reader : value.first_readers) {
        pass(name, value, reader, sizes_[static_cast<std::size_t>(reader)]);
      }
    }
    return std::move(transfers_);
  }

 private:
  /// The latest value of a variable.
  struct Value {
    bool is_written = false;
    std::int64_t writer = 0;
    std::int64_t position = 0;                ///< of the operator that wrote it, within its part
    std::vector<std::int64_t> holders;        ///< the parts that have it
    std::vector<std::int64_t> first_readers;  ///< the parts that read the value from before the run
  };

  static bool contains(const std::vector<std::int64_t>& parts, std::int64_t part) {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  }
  VarType::Type type_of(std::string_view name) const {
    const auto found = described_.find(name);
    return found == described_.end() ? VarType::LOD_TENSOR : found->second->type.type;
  }
  void read(std::string_view name, std::int64_t part, std::int64_t position) {
    if (is_door(type_of(name))) return;
    Value& value = values_[name];
    if (value.is_written) {
      pass(name, value, part, position);
    } else if (!contains(value.first_readers, part)) {
      value.first_readers.push_back(part);
    }
  }
  void pass(std::string_view name, Value& value, std::int64_t to, std::int64_t before) {
    if (contains(value.holders, to)) return;
    const VarType::Type type = type_of(name);
    if (is_bound_to_worker(type)) {
      throw InvalidProgram(text({"split: variable '", std::string(name), "' cannot go from part ", value.writer,
                                 " to part ", to, ": it is a ", to_string(type)}));
    }
    value.holders.push_back(to);
    transfers_.push_back({std::string(name), value.writer, to, value.position, before});
  }

  NameMap<const VarDesc*> described_;  // in block 0, or in any as persistable
  NameSet persistable_;
  std::map<std::string_view, Value> values_;  // by name, so that the last transfers are in the order of the names
  std::vector<std::int64_t> sizes_;
  std::vector<Transfer> transfers_;
};

inline void check_assignment(std::span<const std::int64_t> assignment, std::size_t ops, std::int64_t count) {
  if (count < 1) throw OutOfRange(text({"split: into ", count, " parts, expected 1 or more"}));
  if (assignment.size() != ops) {
    throw ShapeMismatch(text({"split: ", assignment.size(), " numbers of parts for ", ops, " operators"}));
  }
  for (std::size_t i = 0; i < assignment.size(); ++i) {
    if (assignment[i] < 0 || assignment[i] >= count) {
      throw OutOfRange(text({"split: operator ", i, " to part ", assignment[i], ", expected 0 to ", count - 1}));
    }
  }
}

/// Adds the blocks that are in no part to the first part.
inline void add_unowned(const ProgramDesc& program, std::vector<BlockSelection>& parts) {
  std::vector<std::int32_t> unowned;
  for (std::size_t idx = 1; idx < program.blocks.size(); ++idx) {
    const bool is_owned =
        std::any_of(parts.begin(), parts.end(), [&](const BlockSelection& part) { return part.contains(idx); });
    if (!is_owned) unowned.push_back(static_cast<std::int32_t>(idx));
  }
  parts[0].add(std::move(unowned));
}

/// Copies the operators and variables of block 0 that a part lists, and the selected blocks.
inline void cut_out(const ProgramDesc& program, const BlockSelection& blocks, ProgramPart& part) {
  std::vector<std::int32_t> numbers(program.blocks.size());
  for (std::size_t idx = 0; idx < program.blocks.size(); ++idx) {
    if (!blocks.contains(idx)) continue;
    numbers[idx] = static_cast<std::int32_t>(part.blocks.size());
    part.blocks.push_back(static_cast<std::int32_t>(idx));
    if (idx > 0) part.program.blocks.push_back(program.blocks[idx]);
  }
  const BlockDesc& root = program.blocks[0];
  BlockDesc& block = part.program.blocks[0];
  for (const std::int64_t i : part.vars) block.vars.push_back(root.vars[static_cast<std::size_t>(i)]);
  for (const std::int64_t i : part.ops) block.ops.push_back(root.ops[static_cast<std::size_t>(i)]);
  for (BlockDesc& copied : part.program.blocks) {
    renumber_blocks(copied, [&](std::int32_t idx) { return numbers[static_cast<std::size_t>(idx)]; });
  }
  part.whole_ops = static_cast<std::int64_t>(root.ops.size());
  part.whole_vars = static_cast<std::int64_t>(root.vars.size());
  part.whole_blocks = static_cast<std::int64_t>(program.blocks.size());
}

/// A list of the whole program, assembled from the pieces that parts have.
template <class T>
class Pieces {
 public:
  /// The whole list has `count` pieces; `what` names one in errors.
  Pieces(const char* what, std::int64_t count) : what_(what), count_(count) {}

  /// Throws InvalidProgram if the whole list has no such piece, and if another part has it with other contents.
  void add(std::int64_t place, T&& piece) {
    if (place < 0 || place >= count_) {
      throw InvalidProgram(text({"join: a part has ", what_, " ", place, " of ", count_}));
    }
    const auto [found, is_new] = pieces_.try_emplace(place, std::move(piece));
    if (!is_new && !is_identical(found->second, piece)) {
      throw InvalidProgram(text({"join: two parts have ", what_, " ", place, ", and differ"}));
    }
  }
  /// The whole list. Throws InvalidProgram if a piece is missing.
  std::vector<T> take() {
    std::vector<T> all;
    all.reserve(pieces_.size());
    for (auto& [place, piece] : pieces_) {
      if (place != static_cast<std::int64_t>(all.size())) break;
      all.push_back(std::move(piece));
    }
    if (static_cast<std::int64_t>(all.size()) != count_) {
      throw InvalidProgram(text({"join: no part has ", what_, " ", all.size(), " of ", count_}));
    }
    return all;
  }

 private:
  const char* what_;
  std::int64_t count_;
  std::map<std::int64_t, T> pieces_;
};

/// Throws InvalidProgram unless a part is a valid program, its lists match its contents, and the whole has the same
/// size as for the first part.
inline void check_part(const ProgramPart& part, std::size_t number, const ProgramPart& first) {
  validate(part.program);
  const BlockDesc& root = part.program.blocks[0];
  const auto check = [number](const char* what, std::size_t found, std::size_t expected) {
    if (found == expected) return;
    throw InvalidProgram(text({"join: part ", number, " has places for ", found, " ", what, ", expected ", expected}));
  };
  check("operators", part.ops.size(), root.ops.size());
  check("variables", part.vars.size(), root.vars.size());
  check("blocks", part.blocks.size(), part.program.blocks.size());
  if (part.blocks[0] != 0) {
    throw InvalidProgram(text({"join: block 0 of part ", number, " is block ", part.blocks[0], ", expected 0"}));
  }
  const auto check_whole = [number](const char* what, std::int64_t found, std::int64_t expected) {
    if (found == expected) return;
    throw InvalidProgram(
        text({"join: part ", number, " is of a whole with ", found, " ", what, ", part 0 with ", expected}));
  };
  check_whole("operators", part.whole_ops, first.whole_ops);
  check_whole("variables", part.whole_vars, first.whole_vars);
  check_whole("blocks", part.whole_blocks, first.whole_blocks);
}

}  // namespace detail::inline LOD_TARGET

/// The program in `count` parts, of which some may have no operators. Operator i of block 0 goes to part
/// `assignment[i]`, together with the blocks that it owns.
///
/// Variables of block 0 go to every part that uses them, unused ones to part 0, and so do blocks without an owner. A
/// block that operators of several parts own goes to each of them; so do the blocks that enclose a block and the one
/// whose gradient it computes, where its operators look for variables (see ProgramDesc::find_var).
///
/// A value that one part reads and another one wrote last, in the order of the whole program, is transferred, once for
/// each value and part. An operator that owns blocks, and one that writes into a LOD_TENSOR_ARRAY, may leave some of
/// its outputs as they were, and so counts as a reader of them. A persistable variable also goes to the parts that read
/// it before it is written, for the next run. It is transferred even if only inner blocks describe it, since it is in
/// the outermost scope and is the same variable for all blocks. A value that nothing has written when it is read comes
/// from outside: each part that reads it needs it (parameters, data). Variables of type FEED_MINIBATCH, FETCH_LIST and
/// FEED_LIST connect to the outside: each part has its own.
///
/// Throws ShapeMismatch unless there is one number for each operator of block 0, OutOfRange for a count under 1 and a
/// number outside [0, count), InvalidProgram as DataFlow does, and if a STEP_SCOPES, READER, CHANNEL or RAW, which
/// means something to one worker only, would have to be transferred. O(program + contents of the parts + parts *
/// transfers).
LOD_TAGGED inline std::vector<ProgramPart> split(const ProgramDesc& program, std::span<const std::int64_t> assignment,
                                                 std::int64_t count) {
  DataFlow flow(program);
  const BlockDesc& root = program.blocks[0];
  detail::check_assignment(assignment, root.ops.size(), count);

  std::vector<ProgramPart> parts(static_cast<std::size_t>(count), ProgramPart{.program = detail::frame_of(program)});
  std::vector<detail::BlockSelection> blocks(parts.size(), detail::BlockSelection(program));
  std::vector<detail::NameSet> names(parts.size());
  const auto use = [&names](std::size_t part, const Access& access) {
    names[part].insert(access.reads.begin(), access.reads.end());
    names[part].insert(access.writes.begin(), access.writes.end());
  };
  detail::TransferFinder transfers(program, parts.size());
  for (std::size_t i = 0; i < assignment.size(); ++i) {
    const auto part = static_cast<std::size_t>(assignment[i]);
    const Access access = flow.of(root.ops[i]);
    transfers.add(access, assignment[i]);
    use(part, access);
    blocks[part].add(root.ops[i]);
    parts[part].ops.push_back(static_cast<std::int64_t>(i));
  }
  detail::add_unowned(program, blocks);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (std::size_t idx = 1; idx < program.blocks.size(); ++idx) {
      if (blocks[part].contains(idx)) use(part, flow.of(program.blocks[idx]));
    }
  }

  for (std::size_t i = 0; i < root.vars.size(); ++i) {
    bool is_used = false;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      if (!names[part].contains(root.vars[i].name)) continue;
      is_used = true;
      parts[part].vars.push_back(static_cast<std::int64_t>(i));
    }
    if (!is_used) parts[0].vars.push_back(static_cast<std::int64_t>(i));
  }
  for (std::size_t part = 0; part < parts.size(); ++part) detail::cut_out(program, blocks[part], parts[part]);

  for (Transfer& transfer : transfers.finish()) {
    parts[static_cast<std::size_t>(transfer.from)].sends.push_back(transfer);
    parts[static_cast<std::size_t>(transfer.to)].receives.push_back(std::move(transfer));
  }
  for (ProgramPart& part : parts) {
    std::stable_sort(part.sends.begin(), part.sends.end(),
                     [](const Transfer& a, const Transfer& b) { return a.after < b.after; });
    std::stable_sort(part.receives.begin(), part.receives.end(),
                     [](const Transfer& a, const Transfer& b) { return a.before < b.before; });
  }
  return parts;
}

/// The whole that `split` cut into these parts, equal to it, and byte for byte the same when encoded. All parts are
/// required, in any order. They may have been changed meanwhile: operators, and anything that is in one part only, are
/// taken as they are; transfers are ignored.
///
/// Throws InvalidProgram if there is no part, if one is not a valid program or has lost its lists or numbers, if an
/// operator, a variable or a block of the whole is missing, and if several parts have different versions of the same
/// one, even if only a byte of its encoding differs. O(parts).
LOD_TAGGED inline ProgramDesc join(std::span<const ProgramPart> parts) {
  if (parts.empty()) throw InvalidProgram("join: no part, expected at least one");
  for (std::size_t i = 0; i < parts.size(); ++i) detail::check_part(parts[i], i, parts[0]);
  ProgramDesc whole = detail::frame_of(parts[0].program);
  detail::Pieces<VarDesc> vars("variable", parts[0].whole_vars);
  detail::Pieces<OpDesc> ops("operator", parts[0].whole_ops);
  detail::Pieces<BlockDesc> blocks("block", parts[0].whole_blocks);
  std::size_t op_count = 0;
  for (const ProgramPart& part : parts) {
    ProgramDesc program = part.program;
    for (BlockDesc& block : program.blocks) {
      detail::renumber_blocks(block, [&](std::int32_t idx) { return part.blocks[static_cast<std::size_t>(idx)]; });
    }
    BlockDesc& root = program.blocks[0];
    for (std::size_t i = 0; i < root.vars.size(); ++i) vars.add(part.vars[i], std::move(root.vars[i]));
    for (std::size_t i = 0; i < root.ops.size(); ++i) ops.add(part.ops[i], std::move(root.ops[i]));
    op_count += root.ops.size();
    root.vars.clear();
    root.ops.clear();
    for (std::size_t i = 0; i < program.blocks.size(); ++i) blocks.add(part.blocks[i], std::move(program.blocks[i]));
    program.blocks.resize(1);
    program.blocks[0] = whole.blocks[0];
    if (!detail::is_identical(program, whole)) throw InvalidProgram("join: the parts are not of one program");
  }
  whole.blocks = blocks.take();
  whole.blocks[0].vars = vars.take();
  whole.blocks[0].ops = ops.take();
  if (whole.blocks[0].ops.size() != op_count) throw InvalidProgram("join: two parts have the same operator");
  validate(whole);
  return whole;
}

}  // namespace lod::inline LOD_INTERFACE
