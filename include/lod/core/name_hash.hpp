// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tables of names, which come from outside: hashed with a key, so that nobody can choose names that all collide.
#pragma once

#include <lod/core/keyed_hash.hpp>
#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace lod::inline LOD_INTERFACE::detail {

/// The key of NameHash; zeros until it is first needed. Not a static of a function: each set of flags has its own copy
/// of a function, but files with different flags share maps of names. It has no guard, for which a child of fork()
/// might wait.
inline std::uint64_t name_key[3] = {};

/// A number of `name_key`: the one drawn, unless another thread was first.
LOD_TAGGED inline std::uint64_t settled(std::uint64_t& number, std::uint64_t drawn) noexcept {
  std::uint64_t known = 0;
  drawn |= 1;  // never zero
  return __atomic_compare_exchange_n(&number, &known, drawn, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ? drawn : known;
}

LOD_TAGGED inline HashKey settled_name_key() noexcept {
  const HashKey drawn = HashKey::draw();
  return {settled(name_key[0], drawn.start), settled(name_key[1], drawn.factor), settled(name_key[2], drawn.spread)};
}

/// Hashes names, for unordered maps and sets of the standard library, with one key per process: so such maps can be
/// compared.
struct NameHash {
  LOD_TAGGED std::size_t operator()(std::string_view name) const noexcept {
    const auto known = [](const std::uint64_t& number) { return __atomic_load_n(&number, __ATOMIC_RELAXED); };
    HashKey key = {known(name_key[0]), known(name_key[1]), known(name_key[2])};
    if (key.start == 0 || key.factor == 0 || key.spread == 0) key = settled_name_key();
    return static_cast<std::size_t>(key.of(name.data(), name.size(), key.start));
  }
};
/// Borrowed names.
using NameSet = std::unordered_set<std::string_view, NameHash>;
template <class Value>
using NameMap = std::unordered_map<std::string_view, Value, NameHash>;

}  // namespace lod::inline LOD_INTERFACE::detail
