// SPDX-License-Identifier: Apache-2.0
/// @file
/// Readers on top of a channel, and of another reader ahead of time. Documented in <lod/program/readers.hpp>.
#pragma once

#include <lod/program/readers.hpp>
