// SPDX-License-Identifier: Apache-2.0
/// @file
/// Variable: a value of any type that a description can have. Documented in <lod/program/variable.hpp>.
#pragma once

#include <lod/program/variable.hpp>
