// SPDX-License-Identifier: Apache-2.0
/// @file
/// The compiled library for an emulated GPU: kernels for float, and for ids as far as tests call them.
#include "support/emulated_stream.hpp"

#include <kernels/instantiate/instances.hpp>

#include <cstdint>

using lod::kernel::is_there;
namespace name = lod::compiled::name;

static_assert(lod::kernel::instantiate<float>());
static_assert(lod::kernel::instantiate_ids());
static_assert((lod::kernel::instantiate_of_ids<std::int64_t>(), true));
static_assert(is_there<name::CopyValues, std::int64_t>());
static_assert(is_there<name::SequenceEnumerate, std::int64_t>());
static_assert(is_there<name::SequenceMask, std::int64_t>());
