// SPDX-License-Identifier: Apache-2.0
/// @file
/// The documents' earlier revisions of descriptions, as bytes of protobuf, and back; the values that the first had, as
/// variables. Documented in <lod/io/proto/revisions.hpp> and <lod/io/proto/revision_values.hpp>.
#pragma once

#include <lod/io/proto/revision_values.hpp>
#include <lod/io/proto/revisions.hpp>
