// SPDX-License-Identifier: Apache-2.0
/// @file
/// Readers that take tensors from a channel, or from another reader ahead of time. Documented in
/// <lod/program/readers.hpp>.
#pragma once

#include <lod/program/readers.hpp>
