// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs as bytes of protobuf, and back. Documented in <lod/io/proto/program.hpp>.
#pragma once

#include <lod/io/proto/program.hpp>
