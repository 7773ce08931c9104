// SPDX-License-Identifier: Apache-2.0
/// @file
/// Beam search. Documented in <lod/program/beam_search.hpp>.
#pragma once

#include <lod/program/beam_search.hpp>
