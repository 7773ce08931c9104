// SPDX-License-Identifier: Apache-2.0
/// @file
/// All of the library for the CPU: the core, the operations, their CPU kernels. Never CUDA, Thrust, xtensor or
/// protobuf; those have headers of their own.
#pragma once

#include <lod/cpu.hpp>
#include <lod/data_type.hpp>
#include <lod/device.hpp>
#include <lod/error.hpp>
#include <lod/executor.hpp>
#include <lod/float16.hpp>
#include <lod/infer.hpp>
#include <lod/lod_batch.hpp>
#include <lod/lod_index.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/lod_view.hpp>
#include <lod/ops.hpp>
#include <lod/rank_table.hpp>
#include <lod/selected_rows.hpp>
#include <lod/shape.hpp>
#include <lod/sparse_table.hpp>
#include <lod/supports.hpp>
#include <lod/version.hpp>
