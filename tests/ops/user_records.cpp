// SPDX-License-Identifier: Apache-2.0
// Operations that keep or move rows take elements of any type: records of sizes that are no part of a vector or of a
// cache line, and numbers that are less aligned than they are long.
#include "support/executors.hpp"
#include "support/same_bits.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

template <class Number, std::size_t size>
struct Record {
  std::array<Number, size> numbers;
};

template <class Number, std::size_t size>
void make(std::int64_t number, Record<Number, size>& to) {
  for (std::size_t i = 0; i < size; ++i) to.numbers[i] = static_cast<Number>(number + static_cast<std::int64_t>(i));
}
void make(std::int64_t number, std::complex<float>& to) {
  to = {static_cast<float>(number), static_cast<float>(number + 1)};
}
void make(std::int64_t number, std::complex<double>& to) {
  to = {static_cast<double>(number), static_cast<double>(number + 1)};
}

/// x with each number made into a T.
template <class T>
LoDTensor<T> records(const LoDTensor<std::int64_t>& x) {
  LoDTensor<T> y = x.lod().levels() > 0 ? LoDTensor<T>(x.lod(), x.row_shape()) : LoDTensor<T>(x.shape());
  for (std::size_t i = 0; i < x.values().size(); ++i) make(x.values()[i], y.values()[i]);
  return y;
}

/// Numbers from 1 on: what an operation writes of its own are zeros, of which records are none.
LoDTensor<std::int64_t> numbered(LoDTensor<std::int64_t> x) {
  std::int64_t number = 0;
  for (std::int64_t& value : x.values()) value = ++number;
  return x;
}

/// f of the records is the records of f.
template <class T, class F>
void check(const LoDTensor<std::int64_t>& x, const F& f) {
  CHECK(same_bits(f(records<T>(x)), records<T>(f(x))));
}

template <class T, class E>
void check_operations(const E& executor, std::int64_t row_size) {
  CAPTURE(row_size);
  CAPTURE(sizeof(T));
  const LoD index = LoD::from_lengths({{2, 0, 3, 1}, {3, 1, 0, 4, 2, 5}});
  const auto x = numbered(LoDTensor<std::int64_t>(index, {row_size}));
  check<T>(x, [&](const auto& a) { return lod::sequence_reverse(executor, a); });
  check<T>(x, [&](const auto& a) { return lod::sequence_concat(executor, a, a); });
  check<T>(x, [&](const auto& a) { return lod::concat(executor, a, a); });
  check<T>(x, [&](const auto& a) { return lod::select(executor, a, {3, 0, 2, 2}); });
  check<T>(x, [&](const auto& a) { return lod::filter(executor, a, {true, false, true, true}); });
  check<T>(x, [&](const auto& a) { return lod::remove_empty(executor, a); });
  check<T>(x, [&](const auto& a) { return lod::transpose_levels(executor, a); });
  const std::vector<std::int64_t> first = {1, 0, 0, 1}, counts = {1, 0, 2, 0};
  check<T>(x, [&](const auto& a) { return lod::sequence_slice(executor, a, first, counts); });
  check<T>(x, [&](const auto& a) {
    const lod::RankTable table(index, {.level = 1});
    return lod::from_time_major(executor, lod::to_time_major(executor, a, table), table);
  });
  check<T>(x, [&](const auto& a) { return lod::reorder_lod_tensor_by_rank(executor, a, lod::RankTable(index)); });
  check<T>(x, [&](const auto& a) {
    const std::vector<bool> mask = {true, false, false, true};
    const auto parts = lod::split_lod_tensor(executor, a, mask);
    return lod::merge_lod_tensor(executor, parts.in_true, parts.in_false, mask);
  });
  check<T>(x, [&](const auto& a) { return lod::split(executor, a, 2)[1]; });
  // Of rows that are repeated, and with room after them.
  const auto table = numbered(LoDTensor<std::int64_t>({7, row_size}));
  LoDTensor<std::int64_t> ids(LoD::from_lengths({{4, 2}}), {});
  std::copy_n(std::array<std::int64_t, 6>{6, 0, 0, 3, 6, 1}.begin(), 6, ids.data());
  check<T>(table, [&](const auto& a) { return lod::embedding(executor, a, ids); });
  for (const std::int64_t padded_length : {3, 4, 40}) {
    CAPTURE(padded_length);
    const auto dense = numbered(LoDTensor<std::int64_t>({5, padded_length, row_size}));
    const std::vector<std::int64_t> lengths = {3, 0, 1, 2, 3};
    for (const lod::Side side : {lod::Side::RIGHT, lod::Side::LEFT}) {
      check<T>(dense, [&](const auto& a) { return lod::sequence_unpad(executor, a, lengths, {.side = side}); });
    }
  }
}

/// The rows that the gradients of unpadding and slicing write are whole ones or zeros.
template <class T, class E>
void check_zeros(const E& executor) {
  const std::vector<std::int64_t> lengths = {2, 0, 3};
  const auto x = records<T>(numbered(LoDTensor<std::int64_t>(LoD::from_lengths({lengths}), {})));
  const auto dense = lod::sequence_unpad_grad(executor, x, lengths, 4);
  const T* rows[] = {x.data(), x.data() + 1, nullptr,      nullptr,      nullptr,      nullptr,
                     nullptr,  nullptr,      x.data() + 2, x.data() + 3, x.data() + 4, nullptr};
  REQUIRE(dense.values().size() == std::size(rows));
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    const T zero{};
    CHECK(std::memcmp(&dense.values()[i], rows[i] ? rows[i] : &zero, sizeof(T)) == 0);
  }
}

template <class T>
void check_type() {
  for_each_executor([](const auto& executor) {
    for (const std::int64_t row_size : {1, 3}) check_operations<T>(executor, row_size);
    check_zeros<T>(executor);
  });
}

}  // namespace

TEST_CASE("Records of 3, 12 and 40 bytes: operations that move rows move them whole") {
  check_type<Record<std::uint8_t, 3>>();
  check_type<Record<float, 3>>();
  check_type<Record<double, 5>>();
}

TEST_CASE("Records of 8, 16 and 32 bytes, less aligned than that: operations that move rows move them whole") {
  check_type<std::complex<float>>();
  check_type<std::complex<double>>();
  check_type<Record<double, 4>>();
}

TEST_CASE("Records: results larger than caches") {
  const auto check_large = []<class T>(std::type_identity<T>) {
    CAPTURE(sizeof(T));
    const lod::CpuExecutor executor(2);
    const std::int64_t sequences = slow ? 1 << 16 : 1 << 20;
    const auto dense = numbered(LoDTensor<std::int64_t>({sequences, 4}));
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(sequences));
    for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::int64_t>(i * 7 % 5);
    check<T>(dense, [&](const auto& x) { return lod::sequence_unpad(executor, x, lengths); });
    const auto batch = numbered(LoDTensor<std::int64_t>(LoD::from_lengths({lengths}), {}));
    check<T>(batch, [&](const auto& x) { return lod::sequence_reverse(executor, x); });
    // Memory of the user's begins anywhere that a T may.
    std::vector<std::byte> memory(batch.values().size() * sizeof(T) + alignof(T));
    auto* const begin = memory.data() + alignof(T) - reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(T);
    const lod::LoDTensorView<T> view(reinterpret_cast<T*>(begin), batch.lod().view(), &batch.row_shape(), 1);
    lod::sequence_unpad_into(executor, records<T>(dense), lengths, view);
    CHECK(same_bits(view, records<T>(lod::sequence_unpad(executor, dense, lengths))));
  };
  check_large(std::type_identity<Record<float, 3>>());
  check_large(std::type_identity<std::complex<double>>());
}
