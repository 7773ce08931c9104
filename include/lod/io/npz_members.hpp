// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which arrays of an `.npz` make up a variable, by their names.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// The ending of an array's name in the archive.
inline constexpr std::string_view npy_suffix = ".npy";

/// The members of an archive that make up a variable, by their indices.
struct NpzMembers {
  std::uint64_t values = 0;
  std::vector<std::uint64_t> levels = {};
  std::uint64_t rows = 0, height = 0;
  bool is_selected_rows = false;
  std::string wrong = {};  // what is wrong with them, in words; empty if nothing is
};
template <class Value>
using ByName = std::map<std::string, Value, std::less<>>;

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_npz(const std::string& name,
                                                            std::initializer_list<Piece> what) {
  throw ParseError(text({"npz: '", name, "': ", text(what)}), 0);
}

/// The variables that arrays of these names stand for. It is an error if a level is missing, if an array is there
/// twice, if there are more levels than a LoD can have, or if there are both levels and row ids.
inline ByName<NpzMembers> npz_variables(const ByName<std::uint64_t>& arrays, const std::set<std::string>& twice = {}) {
  ByName<NpzMembers> variables;
  std::set<std::string> parts;
  for (const auto& [name, number] : arrays) {
    NpzMembers& members = variables[name];
    members.values = number;
    const auto check_once = [&](const std::string& array) {
      if (twice.contains(array)) members.wrong = text({"'", array, "': twice in the archive"});
    };
    const auto take = [&](const std::string& part, std::uint64_t& place) {
      const auto found = arrays.find(part);
      if (found == arrays.end()) return false;
      parts.insert(part);
      place = found->second;
      check_once(part);
      return true;
    };
    check_once(name);
    std::uint64_t level = 0;
    while (take(text({name, ".lod", members.levels.size()}), level)) members.levels.push_back(level);
    if (members.levels.size() > std::size_t{max_levels}) {
      members.wrong = text({"'", name, "': ", members.levels.size(), " levels, expected ", max_levels, " at most"});
    }
    if (!arrays.contains(name + ".rows") || !arrays.contains(name + ".height")) continue;
    members.is_selected_rows = take(name + ".rows", members.rows) && take(name + ".height", members.height);
    if (!members.levels.empty()) members.wrong = text({"'", name, "': levels and row ids, expected one of them"});
  }
  for (const std::string& part : parts) variables.erase(part);
  for (auto& [name, members] : variables) {
    const std::size_t end = name.find_last_not_of("0123456789") + 1;
    const std::string_view before = std::string_view(name).substr(0, end), number = std::string_view(name).substr(end);
    constexpr std::string_view suffix = ".lod";
    const bool is_number = number == "0" || (!number.empty() && !number.starts_with('0'));
    if (!is_number || !before.ends_with(suffix)) continue;
    const auto levels = variables.find(before.substr(0, end - suffix.size()));
    if (levels == variables.end()) continue;
    const std::size_t missing = levels->second.levels.size();
    members.wrong = text({"'", name, "': a level of '", levels->first, "', whose level ", missing, " is missing"});
    levels->second.wrong = members.wrong;
  }
  return variables;
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
