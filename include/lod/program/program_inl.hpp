// SPDX-License-Identifier: Apache-2.0
/// @file
/// The longer bodies of program.hpp.
#pragma once

#include <lod/core/name_hash.hpp>
#include <lod/program/program.hpp>

namespace lod::inline LOD_INTERFACE {

namespace detail::inline LOD_TARGET {

/// Returns f(field), where `field`, an optional or a vector, holds the value of an attribute. Returns false for a type
/// that only a cast can produce.
template <class F>
bool with_value(const OpDesc::Attr& attr, const F& f) {
  switch (attr.type) {
    case AttrType::INT:
      return f(attr.i);
    case AttrType::FLOAT:
      return f(attr.f);
    case AttrType::STRING:
      return f(attr.s);
    case AttrType::INTS:
      return f(attr.ints);
    case AttrType::FLOATS:
      return f(attr.floats);
    case AttrType::STRINGS:
      return f(attr.strings);
    case AttrType::BOOLEAN:
      return f(attr.b);
    case AttrType::BOOLEANS:
      return f(attr.bools);
    case AttrType::BLOCK:
      return f(attr.block_idx);
    case AttrType::LONG:
      return f(attr.l);
    case AttrType::BLOCKS:
      return f(attr.blocks_idx);
    case AttrType::LONGS:
      return f(attr.longs);
    case AttrType::FLOAT64S:
      return f(attr.float64s);
    case AttrType::VAR:
      return f(attr.var_name);
    case AttrType::VARS:
      return f(attr.vars_name);
    case AttrType::FLOAT64:
      return f(attr.float64);
    case AttrType::SCALAR:
      return f(attr.scalar);
    case AttrType::SCALARS:
      return f(attr.scalars);
  }
  return false;
}

template <class From, class To>
inline constexpr bool widens = std::is_same_v<From, To> ||
                               (std::is_same_v<From, std::int32_t> && std::is_same_v<To, std::int64_t>) ||
                               (std::is_same_v<From, float> && std::is_same_v<To, double>);

/// Whether all values of a field can be read as a T.
template <class Field, class T>
inline constexpr bool fits = false;
template <class From, class To>
inline constexpr bool fits<std::optional<From>, To> = widens<From, To>;
template <class From, class To>
inline constexpr bool fits<std::vector<From>, std::vector<To>> = widens<From, To>;

// Sets `to` to the contents of an attribute's field. Returns false if it is empty, or if its type does not fit.
template <class From, class To>
bool get_value(const std::optional<From>& from, To& to) {
  if constexpr (fits<std::optional<From>, To>) {
    if (from) to = *from;
    return from.has_value();
  }
  return false;
}
template <class From, class To>
bool get_value(const std::vector<From>& from, To& to) {
  if constexpr (fits<std::vector<From>, To>) to.assign(from.begin(), from.end());
  return fits<std::vector<From>, To>;
}

template <class T>
[[noreturn, gnu::cold, gnu::noinline]] void throw_attr(const OpDesc& op, const OpDesc::Attr& attr) {
  std::string expected;
  for (std::int32_t number = 0; number <= static_cast<std::int32_t>(AttrType::SCALARS); ++number) {
    const OpDesc::Attr other{.type = static_cast<AttrType>(number)};
    if (!with_value(other, [](const auto& field) { return fits<std::remove_cvref_t<decltype(field)>, T>; })) continue;
    if (other.type == attr.type) {
      expected = "a value";
      break;
    }
    expected += text({expected.empty() ? "" : " or ", to_string(other.type)});
  }
  throw InvalidProgram(text({"operator '", op.type, "', attribute '", attr.name, "': of type ", to_string(attr.type),
                             ", expected ", expected}));
}

}  // namespace detail::inline LOD_TARGET

template <detail::AttrValue T>
T OpDesc::attr(std::string_view name) const {
  const Attr* const found = find_attr(name);
  if (!found) {
    throw InvalidProgram(detail::text({"operator '", type, "' has no attribute '", std::string(name), "'"}));
  }
  T value{};
  const auto get = [&value](const auto& field) { return detail::get_value(field, value); };
  if (!detail::with_value(*found, get)) detail::throw_attr<T>(*this, *found);
  return value;
}

namespace detail::inline LOD_TARGET {

/// Calls stop(block) for the blocks whose variables an operator of block `from` sees, the nearest first, until it
/// returns true. Throws as `find_var` does.
template <class F>
void for_each_visible_block(const ProgramDesc& program, std::int32_t from, const F& stop) {
  std::vector<std::int32_t> open;
  std::vector<bool> is_listed(program.blocks.size());  // so that cycles end
  const auto list = [&](std::int32_t idx) {
    static_cast<void>(program.block(idx));  // throws if there is none
    if (!is_listed[static_cast<std::size_t>(idx)]) open.push_back(idx);
    is_listed[static_cast<std::size_t>(idx)] = true;
  };
  list(from);
  for (std::size_t next = 0; next < open.size(); ++next) {
    const std::int32_t idx = open[next];
    const BlockDesc& here = program.block(idx);
    if (stop(here)) return;
    if (here.parent_idx >= idx) {
      throw InvalidProgram(text({"block ", idx, ": parent_idx is ", here.parent_idx, ", expected less than ", idx}));
    }
    if (here.forward_block_idx != -1) list(here.forward_block_idx);
    if (here.parent_idx != -1) list(here.parent_idx);
  }
}

}  // namespace detail::inline LOD_TARGET

inline const VarDesc* ProgramDesc::find_var(std::string_view name, std::int32_t from) const {
  const VarDesc* found = nullptr;
  detail::for_each_visible_block(*this, from, [&](const BlockDesc& block) { return (found = block.find_var(name)); });
  return found;
}

namespace detail::inline LOD_TARGET {

/// Throws InvalidProgram unless block `idx` of a program with `count` blocks exists.
inline void check_block(std::int32_t idx, std::size_t count, const std::string& place) {
  if (idx >= 0 && static_cast<std::size_t>(idx) < count) return;
  throw InvalidProgram(text({place, ": block ", idx, " of ", count}));
}

inline void check_block_attrs(const OpDesc& op, std::size_t count, std::size_t block, std::size_t position) {
  for (const OpDesc::Attr& attr : op.attrs) {
    if (attr.type != AttrType::BLOCK && attr.type != AttrType::BLOCKS) continue;
    const std::string place =
        text({"block ", block, ", operator ", position, " '", op.type, "', attribute '", attr.name, "'"});
    if (attr.type == AttrType::BLOCKS) {
      for (const std::int32_t idx : attr.blocks_idx) check_block(idx, count, place);
    } else if (attr.block_idx) {
      check_block(*attr.block_idx, count, place);
    } else {
      throw InvalidProgram(text({place, ": of type BLOCK, expected a value"}));
    }
  }
}

}  // namespace detail::inline LOD_TARGET

LOD_TAGGED inline void validate(const ProgramDesc& program) {
  const std::size_t count = program.blocks.size();
  if (count == 0) throw InvalidProgram("a program with no block, expected a root");
  for (std::size_t i = 0; i < count; ++i) {
    const BlockDesc& block = program.blocks[i];
    const std::string place = detail::text({"block ", i});
    if (block.idx < 0 || static_cast<std::size_t>(block.idx) != i) {
      throw InvalidProgram(detail::text({place, ": idx is ", block.idx, ", expected ", i}));
    }
    if (i == 0 ? block.parent_idx != -1 : block.parent_idx < 0 || block.parent_idx >= block.idx) {
      throw InvalidProgram(detail::text({place, ": parent_idx is ", block.parent_idx, ", expected ",
                                         i == 0 ? "-1" : detail::text({"0 to ", i - 1})}));
    }
    if (block.forward_block_idx != -1) {
      detail::check_block(block.forward_block_idx, count, place + ", forward_block_idx");
    }
    detail::NameSet names;
    for (const VarDesc& var : block.vars) {
      if (!names.insert(var.name).second) {
        throw InvalidProgram(detail::text({place, ": two variables '", var.name, "'"}));
      }
    }
    for (std::size_t op = 0; op < block.ops.size(); ++op) detail::check_block_attrs(block.ops[op], count, i, op);
  }
}

}  // namespace lod::inline LOD_INTERFACE
