// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs cut into components for workers. Documented in <lod/program/program_partition.hpp>.
#pragma once

#include <lod/program/program_partition.hpp>
