// SPDX-License-Identifier: Apache-2.0
/// @file
/// Values and names of every kind that a writer may be given, the odd ones too, from a seed that the test prints; and
/// what holds for all writers of files.
#pragma once

#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/temporary_folder.hpp"
#include <lod/any_tensor.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lod_test {

/// Of any type, with 0 to 4 levels and 0 to 7 dimensions in a row, some of them 0, others huge where there is no
/// element. The bytes of the values are random: NaNs with any bits, infinities, -0.0; now and then bools that are none.
inline lod::AnyLoDTensor odd_tensor(Engine& engine, bool may_be_huge = true) {
  using enum lod::DataType;
  constexpr lod::DataType types[] = {BOOL, BOOL, INT8, INT16, INT32, INT64,     UINT8,      UINT32,     UINT64,  SIZE_T,
                                     FP16, BF16, FP32, FP64,  FP32,  COMPLEX64, COMPLEX128, FP8_E4M3FN, FP8_E5M2};
  const lod::DataType type = types[engine() % std::size(types)];
  std::vector<std::int64_t> row_shape;
  const std::int64_t rank = random_number(engine, 0, 9) == 0 ? 7 : random_number(engine, 0, 2);
  for (std::int64_t dim = 0; dim < rank; ++dim) row_shape.push_back(random_number(engine, 0, 12) > 0 ? 1 + dim % 2 : 0);
  const bool is_empty = std::find(row_shape.begin(), row_shape.end(), 0) != row_shape.end();
  constexpr std::int64_t huge = std::int64_t{1} << 35;
  const bool is_huge = may_be_huge && is_empty && random_number(engine, 0, 1) == 1;
  if (is_huge && rank > 1) row_shape[static_cast<std::size_t>(engine() % 2)] *= 1 << 20;

  lod::LoD lod;
  const int levels = static_cast<int>(random_number(engine, 0, 4));
  if (levels > 0) {
    auto lengths = RandomLoD{.levels = levels, .sequences = 3, .length = 2, .empty_percent = 40}.lengths(engine);
    if (is_huge && !lengths.back().empty()) lengths.back()[0] = huge;
    lod = lod::LoD::from_lengths(lengths);
  }
  const std::int64_t rows = levels > 0 ? lod.rows() : is_huge ? huge : random_number(engine, 0, 3);
  const lod::Shape shape(rows, row_shape);
  // On memory of its own, which may also be read-only: no type of C++ has the bytes of some.
  const auto bytes = static_cast<std::size_t>(shape.elements()) * lod::size_of(type);
  auto memory = std::make_shared<std::vector<std::uint64_t>>(bytes / 8 + 1);
  for (std::uint64_t& word : *memory) word = engine();
  if (type == BOOL) {
    const std::uint64_t kept = random_number(engine, 0, 3) == 0 ? ~std::uint64_t{0} : 0x0101010101010101U;
    for (std::uint64_t& word : *memory) word &= kept;
  }
  const auto* const begin = reinterpret_cast<const std::byte*>(memory->data());
  return lod::AnyLoDTensor::wrap(type, {begin, bytes}, lod, row_shape, memory, rows);
}

/// Row-sparse values whose value was replaced by one that may have levels, and more or fewer rows than there are ids.
inline lod::SelectedRows<float> odd_rows(Engine& engine) {
  const std::int64_t rows = random_number(engine, 0, 3),
                     height = random_number(engine, 0, 9) ? 5 : std::int64_t{1} << 62;
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < rows; ++i) ids.push_back(random_number(engine, 0, height - 1));
  lod::SelectedRows<float> g(ids, height, {random_number(engine, 0, 2)});
  const std::int64_t kind = random_number(engine, 0, 5);
  if (kind == 0) g.value() = lod::LoDTensor<float>(lod::LoD::from_lengths({{rows, 0}}), {2});
  if (kind == 1) g.value() = lod::LoDTensor<float>(lod::LoD::from_lengths({{1}, {rows}}), {});
  if (kind == 2) g.value() = lod::LoDTensor<float>({rows + 1, 2});
  for (float& value : g.value().values()) value = static_cast<float>(random_number(engine, -9, 9));
  return g;
}

/// Letters of any kind, or none; what means something in a path, in an archive, or to who reads C strings.
inline std::string odd_name(Engine& engine) {
  const std::string names[] = {"",
                               "x",
                               "x.lod0",
                               "x.lod1",
                               "x.rows",
                               "x.height",
                               "y",
                               "y.lod",
                               "x.lod01",
                               "../x",
                               "/x",
                               "a/b",
                               "a",
                               ".",
                               "..",
                               "x.npy",
                               "\xff\xfe",
                               "\xc3\xbc",
                               "\xc3",
                               "\n",
                               "'\"\\",
                               "__model__",
                               ".npy",
                               "a/",
                               "a//b",
                               "\x01\x7f",
                               "\xed\xa0\x80",
                               std::string(300, 'n'),
                               std::string("a\0b", 3),
                               std::string(70000, 'n')};
  return names[engine() % std::size(names)];
}

inline bool same_tensor(const lod::AnyLoDTensor& a, const lod::AnyLoDTensor& b) {
  return a.data_type() == b.data_type() && a.lod() == b.lod() && a.shape() == b.shape() &&
         a.bytes().size() == b.bytes().size() &&
         (a.bytes().empty() || std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0);
}
template <class A, class B>
bool same_rows(const A& a, const B& b) {
  return std::equal(a.rows().begin(), a.rows().end(), b.rows().begin(), b.rows().end()) && a.height() == b.height() &&
         same_tensor(lod::AnyLoDTensor(a.value()), lod::AnyLoDTensor(b.value()));
}

/// Calls write(path), where there is a file already: either it is replaced, and check(path) looks at the new one, or
/// what cannot be written is refused by one of the Errors, and the file is as it was. Returns whether it was written.
template <class... Errors, class Write, class Check>
bool written_or_refused(const TemporaryFolder& folder, const Write& write, const Check& check) {
  const std::string path = folder / "file";
  write_bytes(path, "the old file");
  try {
    write(path);
  } catch (const std::exception& error) {
    INFO("refused: ", error.what());
    const bool is_told = (... || dynamic_cast<const Errors*>(&error));
    CHECK(is_told);
    CHECK(read_bytes(path) == "the old file");
    CHECK(folder.size() == 1);
    return false;
  }
  CHECK(folder.size() == 1);
  try {
    check(path);
  } catch (const std::exception& error) {
    FAIL_CHECK("written, and not read again: ", error.what());
  }
  return true;
}

}  // namespace lod_test
