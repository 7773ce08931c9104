// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs that several ranks of MPI run, documented in <lod/mpi/run_program.hpp>, or train on batches of their own:
/// <lod/mpi/minimize.hpp> and <lod/mpi/data_parallel.hpp>. Needs lodtensor::mpi and lodtensor::proto.
#pragma once

#include <lod/mpi.hpp>
#include <lod/mpi/data_parallel.hpp>
#include <lod/mpi/minimize.hpp>
#include <lod/mpi/run_program.hpp>
#include <lod/run.hpp>
