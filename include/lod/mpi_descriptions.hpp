// SPDX-License-Identifier: Apache-2.0
/// @file
/// Descriptions between the ranks of MPI. Documented in <lod/mpi/carried_descriptions.hpp>. Needs lodtensor::mpi and
/// lodtensor::proto.
#pragma once

#include <lod/mpi.hpp>
#include <lod/mpi/carried_descriptions.hpp>
