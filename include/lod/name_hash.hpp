// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tables of names, which come from outside: hashed with a key, so that nobody can choose names that all collide.
#pragma once

#include <lod/keyed_hash.hpp>

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace lod::detail {

/// Hashes names, for unordered maps and sets of the standard library, with one key per process: so such maps can be
/// compared.
struct NameHash {
  std::size_t operator()(std::string_view name) const noexcept {
    static const HashKey key = HashKey::draw();
    return static_cast<std::size_t>(key.of(name.data(), name.size(), key.start));
  }
};
/// Borrowed names.
using NameSet = std::unordered_set<std::string_view, NameHash>;
template <class Value>
using NameMap = std::unordered_map<std::string_view, Value, NameHash>;

}  // namespace lod::detail
