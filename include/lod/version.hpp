// SPDX-License-Identifier: Apache-2.0
/// @file
/// The version of the library. Documented in <lod/core/version.hpp>.
#pragma once

#include <lod/core/version.hpp>
