// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors between GPUs, by NCCL. Documented in the headers of <lod/nccl/>, which begin with communicator.hpp.
#pragma once

#include <lod/cuda.hpp>
#include <lod/mpi.hpp>
#include <lod/nccl/all_reduce.hpp>
#include <lod/nccl/all_reduce_rows.hpp>
#include <lod/nccl/all_to_all.hpp>
#include <lod/nccl/broadcast.hpp>
#include <lod/nccl/communicator.hpp>
#include <lod/nccl/gather.hpp>
#include <lod/nccl/point_to_point.hpp>
