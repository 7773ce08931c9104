// SPDX-License-Identifier: Apache-2.0
/// @file
/// The core, the operations and their kernels for the CPU. Everything else has headers of its own:
/// - any_tensor.hpp: tensors whose type is known at run time; nested.hpp, mdspan.hpp: other forms of slices;
/// - desc.hpp, program.hpp, program_partition.hpp: descriptions and programs; variable.hpp, scope.hpp, plan_memory.hpp:
///   the variables and the memory of programs;
/// - io/text.hpp, io/json.hpp, io/npy.hpp: text and files; arrow.hpp: Arrow arrays;
/// - proto.hpp, io/file.hpp, io/paddle.hpp, io/npz.hpp, xtensor.hpp, dlpack.hpp: these need another library;
/// - thrust.hpp, cuda.hpp: other executors.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/float16.hpp>
#include <lod/core/lod_batch.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/version.hpp>
#include <lod/cpu.hpp>
#include <lod/ops.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/sparse_table.hpp>
#include <lod/ops/supports.hpp>
