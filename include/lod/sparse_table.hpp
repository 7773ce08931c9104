// SPDX-License-Identifier: Apache-2.0
/// @file
/// SparseTable: rows of a tall table, found by id. Documented in <lod/ops/sparse_table.hpp>.
#pragma once

#include <lod/ops/sparse_table.hpp>
