// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is said of a file: as text for people, or as JSON for programs.
#pragma once

#include "contents.hpp"
#include <lod/desc.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace lodinfo {

/// How text is laid out.
struct Style {
  std::int64_t columns = 100;
  bool cuts_names = false;  // where a table has no room for them
  bool colours = false;
  bool all = false;  // nothing is left out

  std::int64_t line() const noexcept { return all ? unlimited : columns; }
  std::int64_t at_most(std::int64_t items) const noexcept { return all ? unlimited : items; }

 private:
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max() / 4;
};

/// The description of a variable, and what a table tells beyond it.
struct Row {
  lod::VarDesc desc;
  std::vector<std::int64_t> sequences = {};  // of each level
  std::optional<std::int64_t> parts = {};    // ids of selected rows, tensors of an array
  std::optional<std::uint64_t> bytes = {};   // of the values
  std::string error = {};                    // where the file is damaged there
};
/// What the description says alone; what the value says beyond it.
Row described(const lod::VarDesc& desc);
Row described(const lod::VarDesc& desc, const Value& value);
/// The same for a table, which tells of damage. Reads no more of the variable than it must; where it is to be verified,
/// all of it.
Row examine(const Contents& contents, const lod::VarDesc& desc, bool verify);

/// @{
/// What is said of the data type and dimensions of a variable, and of its levels; null and 0 where nothing is.
const lod::TensorDesc* tensor_of(const lod::VarDesc& desc);
std::int32_t levels_of(const lod::VarDesc& desc);
/// @}

/// A whole file.
struct Summary {
  std::string path;
  std::optional<std::uint64_t> bytes;  // of the file; none of a folder
  const Contents& contents;
  std::vector<Row> rows;
  bool verified;
};

/// One variable, one tensor of an array, or a slice.
struct Detail {
  std::string path;
  Row row;
  std::optional<std::int64_t> number;  // of the tensor in an array
  std::optional<std::vector<std::int64_t>> branch;
  Value value;
  std::int64_t first_row;  // of a slice
  bool verified;
};

void write_text(std::ostream& out, const Style& style, const Summary& summary);
void write_text(std::ostream& out, const Style& style, const Detail& detail);
void write_json(std::ostream& out, const Style& style, const Summary& summary);
void write_json(std::ostream& out, const Style& style, const Detail& detail);

/// The levels of a slice in row numbers of the whole tensor: those before it stand in one sequence, and the slice is
/// the second of level 0.
lod::LoD placed(const lod::LoD& slice, std::int64_t first_row);

}  // namespace lodinfo
