// SPDX-License-Identifier: Apache-2.0
/// @file
/// SelectedRows: row-sparse tensors. Documented in <lod/core/selected_rows.hpp>.
#pragma once

#include <lod/core/selected_rows.hpp>
