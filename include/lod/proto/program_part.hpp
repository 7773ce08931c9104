// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parts of programs as bytes of protobuf, and back. Documented in <lod/io/proto/program_part.hpp>.
#pragma once

#include <lod/io/proto/program_part.hpp>
