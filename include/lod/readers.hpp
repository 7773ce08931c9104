// SPDX-License-Identifier: Apache-2.0
/// @file
/// Readers that read from channels, and ahead of who asks. Documented in <lod/program/readers.hpp>.
#pragma once

#include <lod/program/readers.hpp>
