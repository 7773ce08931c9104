// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs that several ranks of MPI run. Documented in <lod/mpi/run_program.hpp>. Needs lodtensor::mpi and
/// lodtensor::proto.
#pragma once

#include <lod/mpi.hpp>
#include <lod/mpi/run_program.hpp>
#include <lod/run.hpp>
