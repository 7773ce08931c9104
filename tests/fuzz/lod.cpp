// SPDX-License-Identifier: Apache-2.0
/// @file
/// LoDs from offsets, lengths and absolute offsets, against what these words mean.
#include "target.hpp"
#include <lod/error.hpp>
#include <lod/lod_index.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

using Numbers = std::vector<std::vector<std::int64_t>>;

namespace {

/// The numbers, the row numbers that are worked out from them, and a few words for each level; twice that while offsets
/// are worked out.
constexpr lod_fuzz::Bound bound{.times = 12};

std::size_t bytes_of(const Numbers& numbers) {
  std::size_t bytes = 0;
  for (const auto& level : numbers) bytes += (level.size() + 1) * sizeof(std::int64_t);
  return bytes;
}

/// Whether each level begins at 0, never descends, and ends at the number of sequences of the next.
bool are_offsets(const Numbers& numbers) {
  for (std::size_t level = 0; level < numbers.size(); ++level) {
    const auto& offsets = numbers[level];
    if (offsets.empty() || offsets[0] != 0) return false;
    for (std::size_t i = 1; i < offsets.size(); ++i) {
      if (offsets[i] < offsets[i - 1]) return false;
    }
    if (level + 1 == numbers.size()) break;
    if (offsets.back() != static_cast<std::int64_t>(numbers[level + 1].size()) - 1) return false;
  }
  return true;
}

/// The offsets of these lengths; nothing where they are no lengths.
std::optional<Numbers> offsets_of(const Numbers& lengths) {
  Numbers all;
  for (const auto& level : lengths) {
    auto& offsets = all.emplace_back(1);
    for (const std::int64_t length : level) {
      std::int64_t end = 0;
      if (length < 0 || __builtin_add_overflow(offsets.back(), length, &end)) return std::nullopt;
      offsets.push_back(end);
    }
  }
  return are_offsets(all) ? std::optional(all) : std::nullopt;
}

Numbers offsets_of(const lod::LoD& lod) {
  Numbers all;
  for (int level = 0; level < lod.levels(); ++level) {
    const auto offsets = lod.offsets(level);
    all.emplace_back(offsets.begin(), offsets.end());
  }
  return all;
}

std::optional<lod::LoD> wrap(const Numbers& numbers) {
  auto owner = std::make_shared<const Numbers>(numbers);
  std::vector<std::span<const std::int64_t>> spans(owner->begin(), owner->end());
  return lod_fuzz::attempt<lod::InvalidLoD>(bytes_of(numbers), bound,
                                            [&] { return lod::LoD::wrap(spans, std::move(owner)); });
}

/// What holds for any LoD.
void check(const lod::LoD& lod) {
  const Numbers offsets = offsets_of(lod);
  LOD_FUZZ_EXPECT(are_offsets(offsets));
  LOD_FUZZ_EXPECT(lod::LoD::from_offsets(offsets) == lod);
  LOD_FUZZ_EXPECT(lod::LoD::from_lengths(lod.lengths()) == lod);
  const Numbers absolute = lod.view().absolute_lod();
  const lod::LoD again = lod::LoD::from_absolute_offsets(absolute);
  LOD_FUZZ_EXPECT(again.rows() == lod.rows() && again.view().absolute_lod() == absolute);
  if (lod.levels() == 0) return;
  LOD_FUZZ_EXPECT(absolute[0].back() == lod.rows());
  const std::int64_t sequences = lod.size(0);
  LOD_FUZZ_EXPECT(lod.between(0, sequences) == lod);
  if (sequences == 0) return;
  const lod::LoDView last = lod.view().between(sequences - 1, sequences);
  LOD_FUZZ_EXPECT(last.first_row() == absolute[0][static_cast<std::size_t>(sequences) - 1]);
  LOD_FUZZ_EXPECT(last.lod().rows() == last.rows());
  LOD_FUZZ_EXPECT(last.lod() == lod.between(sequences - 1, sequences));
}

}  // namespace

std::vector<std::string> lod_fuzz::seeds() {
  // The number of levels, then for each the number of its numbers, and these.
  return {std::string(1, '\0'),
          {1, 1, 0},
          {2, 4, 0, 3, 4, 6, 7, 0, 3, 5, 9, 10, 12, 15},
          {2, 3, 3, 1, 2, 6, 3, 2, 4, 1, 2, 3},
          {2, 4, 0, 9, 10, 15, 7, 0, 3, 5, 9, 10, 12, 15},
          {1, 2, '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\x7f', 1}};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lod_fuzz::Choices choices(lod_fuzz::input(data, size));
  Numbers numbers(static_cast<std::size_t>(choices.below(6)));
  for (auto& level : numbers) {
    level.resize(choices.byte());
    for (std::int64_t& number : level) number = choices.number();
  }
  const std::size_t bytes = bytes_of(numbers);

  const auto from_offsets =
      lod_fuzz::attempt<lod::InvalidLoD>(bytes, bound, [&] { return lod::LoD::from_offsets(numbers); });
  LOD_FUZZ_EXPECT(from_offsets.has_value() == are_offsets(numbers));
  const auto wrapped = wrap(numbers);
  LOD_FUZZ_EXPECT(wrapped.has_value() == from_offsets.has_value());
  if (from_offsets) {
    LOD_FUZZ_EXPECT(offsets_of(*from_offsets) == numbers);
    LOD_FUZZ_EXPECT(*wrapped == *from_offsets);
    LOD_FUZZ_EXPECT(wrapped->view().absolute_lod() == from_offsets->view().absolute_lod());
    check(*from_offsets);
  }

  const auto expected = offsets_of(numbers);
  const auto from_lengths =
      lod_fuzz::attempt<lod::InvalidLoD>(bytes, bound, [&] { return lod::LoD::from_lengths(numbers); });
  LOD_FUZZ_EXPECT(from_lengths.has_value() == expected.has_value());
  if (from_lengths) {
    LOD_FUZZ_EXPECT(offsets_of(*from_lengths) == *expected);
    check(*from_lengths);
  }

  const auto from_absolute =
      lod_fuzz::attempt<lod::InvalidLoD>(bytes, bound, [&] { return lod::LoD::from_absolute_offsets(numbers); });
  if (from_absolute) {
    Numbers rebased = numbers;
    for (auto& level : rebased) {
      const std::int64_t first = level[0];
      for (std::int64_t& row : level) row -= first;
    }
    LOD_FUZZ_EXPECT(from_absolute->view().absolute_lod() == rebased);
    check(*from_absolute);
  }
  return 0;
}
