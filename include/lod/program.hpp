// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs: ProgramDesc, BlockDesc, OpDesc. Documented in <lod/program/program.hpp>.
#pragma once

#include <lod/program/program.hpp>
