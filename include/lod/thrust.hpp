// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Thrust back end: the kernels of every operation for ThrustExecutor. The headers of Thrust (from the CUDA
/// toolkit, or Debian's) must be found, and without nvcc THRUST_DEVICE_SYSTEM must be set: lodtensor::thrust does both.
/// The policies are in <thrust/system/cpp/execution_policy.h> and its neighbours.
#pragma once

#include <lod/core/include_folders.hpp>
#include <lod/core/thrust_executor.hpp>
#include <lod/kernels/bulk/kernels.hpp>
#include <lod/kernels/bulk/system.hpp>
