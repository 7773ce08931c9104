// SPDX-License-Identifier: Apache-2.0
/// @file
/// LoD: levels of sequences, by their offsets. Documented in <lod/core/lod_index.hpp>.
#pragma once

#include <lod/core/lod_index.hpp>
