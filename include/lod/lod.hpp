// SPDX-License-Identifier: Apache-2.0
/// @file
/// The core, the operations and their kernels for the CPU. Everything else has headers of its own:
/// - any_tensor.hpp: tensors whose type is known at run time; nested.hpp, mdspan.hpp: other forms of slices;
/// - desc.hpp, program.hpp, program_partition.hpp: descriptions and programs; variable.hpp, scope.hpp, plan_memory.hpp:
///   what programs work on;
/// - io/text.hpp, io/json.hpp, io/npy.hpp: text and files; arrow.hpp: Arrow arrays;
/// - proto.hpp, io/file.hpp, io/paddle.hpp, io/npz.hpp, xtensor.hpp, dlpack.hpp: these need another library;
/// - thrust.hpp, cuda.hpp: other executors.
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
