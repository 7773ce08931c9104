// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random batches, from a seed that the test prints.
#pragma once

#include <lod/lod_tensor.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace lod_test {

using Engine = std::mt19937_64;

inline std::int64_t random_number(Engine& engine, std::int64_t least, std::int64_t greatest) {
  return least + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(greatest - least + 1));
}

/// One sequence of `giant` rows in the middle of `size` short ones, some of them empty.
inline lod::LoD giant_among_short(Engine& engine, std::int64_t size, std::int64_t giant) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < size; ++i) lengths.push_back(i == size / 2 ? giant : random_number(engine, 0, 9));
  return lod::LoD::from_lengths({lengths});
}

/// Small integers, which every type holds; 0 and 1 for bool.
template <class T>
void fill_small(Engine& engine, lod::LoDTensor<T>& x) {
  for (std::size_t i = 0; i < x.values().size(); ++i) {
    const std::int64_t number = random_number(engine, 0, 7);
    if constexpr (std::same_as<T, bool>) {
      x.data()[i] = number > 3;
    } else if constexpr (std::unsigned_integral<T>) {
      x.data()[i] = static_cast<T>(number);
    } else if constexpr (requires { typename T::value_type; }) {  // a complex number
      using Part = typename T::value_type;
      x.data()[i] = T(static_cast<Part>(number) - 3, static_cast<Part>(number) / 2);
    } else {
      x.data()[i] = static_cast<T>(static_cast<int>(number) - 3);
    }
  }
}
template <class T>
lod::LoDTensor<T> small_integers(Engine& engine, const lod::LoD& lod, const lod::Shape& row_shape) {
  lod::LoDTensor<T> x(lod, row_shape);
  fill_small(engine, x);
  return x;
}
template <class T>
lod::LoDTensor<T> small_integers(Engine& engine, const lod::Shape& shape) {
  lod::LoDTensor<T> x(shape);
  fill_small(engine, x);
  return x;
}

/// A batch of these lengths; of up to six plain rows, where there is no level.
template <class T>
lod::LoDTensor<T> random_tensor(Engine& engine, const std::vector<std::vector<std::int64_t>>& lengths,
                                std::int64_t row_size) {
  return lengths.empty() ? small_integers<T>(engine, {random_number(engine, 0, 6), row_size})
                         : small_integers<T>(engine, lod::LoD::from_lengths(lengths), {row_size});
}

/// As many bools.
inline std::vector<bool> random_mask(Engine& engine, std::int64_t size) {
  std::vector<bool> mask;
  for (std::int64_t i = 0; i < size; ++i) mask.push_back(random_number(engine, 0, 1) == 1);
  return mask;
}

/// Real numbers between -4 and 4. A distribution of the standard library gives the same ones, and takes two logarithms
/// for each.
template <class T>
void fill_real(Engine& engine, lod::LoDTensor<T>& x) {
  for (T& number : x.values()) number = static_cast<T>(static_cast<double>(engine()) * 0x1p-61 - 4);
}
template <class T>
lod::LoDTensor<T> real_numbers(Engine& engine, const lod::LoD& lod, const lod::Shape& row_shape) {
  lod::LoDTensor<T> x(lod, row_shape);
  fill_real(engine, x);
  return x;
}
template <class T>
lod::LoDTensor<T> real_numbers(Engine& engine, const lod::Shape& shape) {
  lod::LoDTensor<T> x(shape);
  fill_real(engine, x);
  return x;
}

/// Real numbers between -1 and 1, as weights are.
template <class T>
lod::LoDTensor<T> small_reals(Engine& engine, const lod::Shape& shape) {
  auto x = real_numbers<T>(engine, shape);
  for (T& number : x.values()) number = static_cast<T>(static_cast<double>(number) / 4);
  return x;
}

/// Numbers of rows of a table with `height` rows.
inline lod::LoDTensor<std::int64_t> random_ids(Engine& engine, const lod::LoD& lod, std::int64_t height,
                                               const lod::Shape& row_shape = {}) {
  lod::LoDTensor<std::int64_t> ids(lod, row_shape);
  for (std::int64_t& id : ids.values()) id = random_number(engine, 0, height - 1);
  return ids;
}

}  // namespace lod_test
