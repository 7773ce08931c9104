// SPDX-License-Identifier: Apache-2.0
/// @file
/// The compiled library for an emulated GPU: kernels for float, and for ids as far as tests call them.
#include "support/emulated_stream.hpp"

#include <kernels/instantiate/cuda_instances.hpp>

#include <cstdint>

using lod::kernel::is_there;
namespace name = lod::compiled::name;

static_assert(lod::kernel::instantiate<lod::kernel::CudaLibrary, float>());
static_assert(lod::kernel::instantiate_ids<lod::kernel::CudaLibrary>());
static_assert((lod::kernel::instantiate_of_ids<lod::kernel::CudaLibrary, std::int64_t>(), true));
static_assert(is_there<lod::kernel::CudaLibrary, name::CopyValues, std::int64_t>());
static_assert(is_there<lod::kernel::CudaLibrary, name::SequenceEnumerate, std::int64_t>());
static_assert(is_there<lod::kernel::CudaLibrary, name::SequenceMask, std::int64_t>());
static_assert(is_there<lod::kernel::CudaLibrary, name::FindTwins, std::int64_t>());
static_assert(is_there<lod::kernel::CudaLibrary, name::NumberSequences, std::int64_t>());
static_assert(is_there<lod::kernel::CudaLibrary, name::RunCopy, std::int64_t>());
