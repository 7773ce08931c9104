// SPDX-License-Identifier: Apache-2.0
/// @file
/// What holds for any archive of arrays.
#pragma once

#include "target.hpp"
#include <lod/any_tensor.hpp>
#include <lod/error.hpp>
#include <lod/io/npz.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod_fuzz {

/// The limit of bytes that the fuzzers set for one array.
constexpr std::uint64_t most_bytes_of_array = 16 << 10;
/// What is deflated takes up to that limit, however few bytes it was; for numbers of one byte that are offsets, eight
/// times as much, three times that when their vector grows.
constexpr Bound bound_of_archives{.times = 32, .plus = 32 * most_bytes_of_array, .positions = false};

/// One variable of either kind.
struct NpzVariable {
  std::string name;
  std::optional<lod::AnyLoDTensor> tensor = {};
  std::optional<lod::AnySelectedRows> rows = {};
};

inline std::optional<NpzVariable> read_variable(const lod::NpzFile& file, const std::string& name, std::size_t size) {
  LOD_FUZZ_EXPECT(file.contains(name));
  const auto desc = attempt<lod::ParseError>(size, bound_of_archives, [&] { return file.describe(name); });
  if (!desc) return std::nullopt;
  NpzVariable variable{name};
  if (desc->type.type == lod::VarType::SELECTED_ROWS) {
    variable.rows =
        attempt<lod::ParseError>(size, bound_of_archives, [&] { return file.load<lod::AnySelectedRows>(name); });
    if (!variable.rows) return std::nullopt;
    LOD_FUZZ_EXPECT(lod::describe(name, *variable.rows) == *desc);
  } else {
    variable.tensor =
        attempt<lod::ParseError>(size, bound_of_archives, [&] { return file.load<lod::AnyLoDTensor>(name); });
    if (!variable.tensor) return std::nullopt;
    LOD_FUZZ_EXPECT(lod::describe(name, *variable.tensor) == *desc);
  }
  return variable;
}

/// Reads all that an archive has; writes what could be read, and reads it again.
inline void check_archive(std::string_view bytes) {
  const auto file = attempt<lod::ParseError>(bytes.size(), bound_of_archives,
                                             [&] { return lod::NpzFile::decode(bytes, most_bytes_of_array); });
  if (!file) return;
  std::vector<NpzVariable> variables;
  for (const std::string& name : file->names()) {
    if (auto variable = read_variable(*file, name, bytes.size())) variables.push_back(std::move(*variable));
  }
  std::vector<lod::NpzValue> values;
  for (const NpzVariable& variable : variables) {
    if (variable.tensor) values.emplace_back(variable.name, *variable.tensor);
    if (variable.rows) values.emplace_back(variable.name, *variable.rows);
  }
  std::string encoded;
  try {
    encoded = lod::encode_npz(values);
  } catch (const std::invalid_argument&) {
    return;  // a name that is not UTF-8, or means something else now that what could not be read is gone
  }
  const auto again = lod::NpzFile::decode(encoded);
  LOD_FUZZ_EXPECT(again.names().size() == variables.size());
  for (const NpzVariable& variable : variables) {
    if (variable.tensor) LOD_FUZZ_EXPECT(same(again.load<lod::AnyLoDTensor>(variable.name), *variable.tensor));
    if (variable.rows) LOD_FUZZ_EXPECT(same(again.load<lod::AnySelectedRows>(variable.name), *variable.rows));
  }
}

}  // namespace lod_fuzz
