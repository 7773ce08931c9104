// SPDX-License-Identifier: Apache-2.0
/// @file
/// All kernels in bulk.
#pragma once

#include <lod/kernels/bulk/checked_ids.hpp>
#include <lod/kernels/bulk/for_each_place.hpp>
#include <lod/kernels/bulk/row_index.hpp>
#include <lod/kernels/bulk/split_selected_rows.hpp>
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define LOD_KERNELS(name) <lod/kernels/bulk/name.hpp>
#include <lod/ops/operations.hpp>
