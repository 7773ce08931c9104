// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors between the ranks of MPI. Documented in the headers of <lod/mpi/>, which begin with communicator.hpp.
#pragma once

#include <lod/cpu.hpp>
#include <lod/mpi/all_reduce.hpp>
#include <lod/mpi/all_reduce_rows.hpp>
#include <lod/mpi/all_to_all.hpp>
#include <lod/mpi/broadcast.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/cost.hpp>
#include <lod/mpi/gather.hpp>
#include <lod/mpi/point_to_point.hpp>
#include <lod/mpi/scatter.hpp>
#include <lod/mpi/sharded_table.hpp>
#include <lod/mpi/together.hpp>
