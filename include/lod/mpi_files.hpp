// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sharded tables in files. Documented in <lod/mpi/table_file.hpp>. Needs lodtensor::mpi and lodtensor::file.
#pragma once

#include <lod/io/file.hpp>
#include <lod/mpi.hpp>
#include <lod/mpi/table_file.hpp>
