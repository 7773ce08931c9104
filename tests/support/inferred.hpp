// SPDX-License-Identifier: Apache-2.0
/// @file
/// Results against what `infer_...` allows, from descriptions that know all and from such that know no dimension.
#pragma once

#include "support/random_lod.hpp"
#include <lod/desc.hpp>
#include <lod/lod_tensor.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace lod_test {

/// The description with every dimension unknown.
inline lod::LoDTensorDesc blank(lod::LoDTensorDesc desc) {
  for (std::int64_t& dim : desc.tensor.dims) dim = -1;
  return desc;
}
inline lod::TensorDesc blank(lod::TensorDesc desc) {
  for (std::int64_t& dim : desc.dims) dim = -1;
  return desc;
}
inline std::vector<lod::LoDTensorDesc> blank(std::vector<lod::LoDTensorDesc> descs) {
  for (lod::LoDTensorDesc& desc : descs) desc = blank(desc);
  return descs;
}
inline std::vector<lod::TensorDesc> blank(std::vector<lod::TensorDesc> descs) {
  for (lod::TensorDesc& desc : descs) desc = blank(desc);
  return descs;
}

inline lod::LoDTensorDesc described(lod::DataType type, std::vector<std::int64_t> dims, int levels = 0) {
  return {{type, std::move(dims)}, levels};
}
/// What is known of a LoD.
inline lod::LoDTensorDesc described(const lod::LoD& lod) {
  return described(lod::DataType::FP32, {lod.rows()}, lod.levels());
}
/// What is known of a list of so many numbers.
inline lod::LoDTensorDesc described_list(std::int64_t size, lod::DataType type = lod::DataType::INT64) {
  return described(type, {size});
}

/// Calls body(engine, x) for random batches of small numbers, of every depth from `min_levels` to 4.
template <class T, class Body>
void for_each_random_batch(int min_levels, const lod::Shape& row_shape, const Body& body) {
  for_each_random_lod(2, min_levels, 4, [&](Engine& engine, const Lengths& lengths) {
    const lod::Shape plain(random_number(engine, 0, 5), row_shape);
    body(engine, lengths.empty() ? small_integers<T>(engine, plain)
                                 : small_integers<T>(engine, lod::LoD::from_lengths(lengths), row_shape));
  });
}

/// Checks a tensor against what was inferred, and that `lod_level` was.
template <class X>
void check_inferred(const X& result, const lod::LoDTensorDesc& inferred) {
  CHECK(inferred.lod_level == result.levels());
  CHECK_NOTHROW(lod::check(result, inferred));
}

/// Checks what infer(described) allows, where `described` are descriptions of the arguments of `result`'s operation,
/// and what infer(blank descriptions) does.
template <class X, class Infer, class... Desc>
void check_inference(const X& result, const Infer& infer, const Desc&... described) {
  check_inferred(result, infer(described...));
  check_inferred(result, infer(blank(described)...));
}

}  // namespace lod_test
