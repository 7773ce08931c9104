// SPDX-License-Identifier: Apache-2.0
/// @file
/// Beam search. Documented in <lod/ops/beam_search.hpp> and <lod/ops/beam_search_decode.hpp>.
#pragma once

#include <lod/ops/beam_search.hpp>
#include <lod/ops/beam_search_decode.hpp>
