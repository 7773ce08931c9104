// SPDX-License-Identifier: Apache-2.0
/// @file
/// The compiled library for an emulated GPU: kernels for float, and for ids as far as tests call them.
#include "support/emulated_stream.hpp"

#include <kernels/instantiate/cuda_instances.hpp>

#include <cstdint>

namespace kernel = lod::kernel;
using kernel::is_there;

static_assert(kernel::instantiate<kernel::CudaLibrary, float>());
static_assert(kernel::instantiate_ids<kernel::CudaLibrary>());
static_assert((kernel::instantiate_of_ids<kernel::CudaLibrary, std::int64_t>(), true));
static_assert(is_there<kernel::CudaLibrary, kernel::CopyValues, std::int64_t>());
static_assert(is_there<kernel::CudaLibrary, kernel::SequenceEnumerate, std::int64_t>());
static_assert(is_there<kernel::CudaLibrary, kernel::SequenceMask, std::int64_t>());
static_assert(is_there<kernel::CudaLibrary, kernel::FindTwins, std::int64_t>());
static_assert(is_there<kernel::CudaLibrary, kernel::NumberSequences, std::int64_t>());
static_assert(is_there<kernel::CudaLibrary, kernel::RunCopy, std::int64_t>());
