// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// The rules of readers of any format, which writers check: what values must satisfy to be readable.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// The position of the first byte that is not a valid bool, neither 0 nor 1; the number of bytes if there is none.
inline std::size_t find_wrong_bool(std::span<const std::byte> values) noexcept {
  std::byte all{0};
  for (const std::byte value : values) all |= value;  // vectorized: most often there is none
  if (all <= std::byte{1}) return values.size();
  const auto wrong = std::find_if(values.begin(), values.end(), [](std::byte value) { return value > std::byte{1}; });
  return static_cast<std::size_t>(wrong - values.begin());
}

/// Throws std::invalid_argument for values that readers reject: bools that are neither 0 nor 1, as in uninitialised
/// memory. `what` begins the text.
inline void check_stored_values(DataType data_type, std::span<const std::byte> values, const char* what) {
  if (data_type != DataType::BOOL) return;
  const std::size_t wrong = find_wrong_bool(values);
  if (wrong == values.size()) return;
  throw std::invalid_argument(readable(text({what, ": a bool that is ", std::to_integer<unsigned>(values[wrong]),
                                             " at position ", wrong, ", expected 0 or 1"})));
}

/// Throws ShapeMismatch unless a file can hold these row-sparse values: a row for each id, and no level, which would be
/// lost. `what` begins the text.
template <class Sparse>
void check_stored_rows(const Sparse& x, const char* what) {
  check_value_rows(static_cast<std::int64_t>(x.rows().size()), x.value().rows(), what);
  const int levels = x.value().levels();
  if (levels == 0) return;
  throw ShapeMismatch(text({what, ": row-sparse values with ", levels, levels == 1 ? " level" : " levels",
                            ", expected none; value().with_lod(LoD()) drops them"}));
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
