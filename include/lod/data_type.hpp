// SPDX-License-Identifier: Apache-2.0
/// @file
/// DataType, and the C++ type of each of its values. Documented in <lod/core/data_type.hpp>.
#pragma once

#include <lod/core/data_type.hpp>
