// SPDX-License-Identifier: Apache-2.0
/// @file
/// A plan of the memory that a program needs. Documented in <lod/program/plan_memory.hpp>.
#pragma once

#include <lod/program/plan_memory.hpp>
