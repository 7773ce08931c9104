// SPDX-License-Identifier: Apache-2.0
/// @file
/// Descriptions as bytes of protobuf, and back. Documented in <lod/io/proto/desc.hpp>.
#pragma once

#include <lod/io/proto/desc.hpp>
