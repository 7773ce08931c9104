// SPDX-License-Identifier: Apache-2.0
/// @file
/// RankTable: sequences ordered by their lengths. Documented in <lod/core/rank_table.hpp>.
#pragma once

#include <lod/core/rank_table.hpp>
