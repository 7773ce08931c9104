// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rules of pooling, for checks that hold for all of them.
#pragma once

#include <lod/ops/sequence_pool.hpp>

namespace lod_test {

inline constexpr lod::PoolType all_pool_types[] = {lod::PoolType::SUM, lod::PoolType::AVERAGE, lod::PoolType::SQRT,
                                                   lod::PoolType::MAX, lod::PoolType::MIN,     lod::PoolType::FIRST,
                                                   lod::PoolType::LAST};

}  // namespace lod_test
