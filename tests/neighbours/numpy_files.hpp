// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files that NumPy wrote.
#pragma once

#include <string>

namespace lod_test {

inline const std::string numpy_data = LOD_TEST_DATA "/numpy/";

}  // namespace lod_test
