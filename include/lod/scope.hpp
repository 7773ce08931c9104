// SPDX-License-Identifier: Apache-2.0
/// @file
/// Scope: variables by name. Documented in <lod/program/scope.hpp>.
#pragma once

#include <lod/program/scope.hpp>
