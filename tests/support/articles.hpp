// SPDX-License-Identifier: Apache-2.0
/// @file
/// The articles of the design documents.
#pragma once

#include <lod/lod_index.hpp>

namespace lod_test {

/// Three articles of 3, 1 and 2 sentences, which have 15 words.
inline const lod::LoD articles = lod::LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}});

}  // namespace lod_test
