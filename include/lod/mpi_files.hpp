// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files that all ranks write: sharded tables, and checkpoints. Documented in <lod/mpi/table_file.hpp> and
/// <lod/mpi/checkpoint.hpp>. Needs lodtensor::mpi and lodtensor::file.
#pragma once

#include <lod/io/file.hpp>
#include <lod/mpi.hpp>
#include <lod/mpi/checkpoint.hpp>
#include <lod/mpi/table_file.hpp>
