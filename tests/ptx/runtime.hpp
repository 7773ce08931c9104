// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the kernels of this program did, that were run from their PTX.
#pragma once

#include "ptx/machine.hpp"

#include <map>
#include <string>

namespace lod_test::ptx {

/// Of all launches of each kernel so far, by its name in the PTX.
std::map<std::string, Work> work_of_kernels();

}
