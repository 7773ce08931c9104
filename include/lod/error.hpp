// SPDX-License-Identifier: Apache-2.0
/// @file
/// The exceptions that the library throws. Documented in <lod/core/error.hpp>.
#pragma once

#include <lod/core/error.hpp>
