// SPDX-License-Identifier: Apache-2.0
/// @file
/// Variable: a value of any of the types that descriptions have. Documented in <lod/program/variable.hpp>.
#pragma once

#include <lod/program/variable.hpp>
