// SPDX-License-Identifier: Apache-2.0
/// @file
/// The documents' earlier revisions of descriptions, as bytes of protobuf, and back. Documented in
/// <lod/io/proto/revisions.hpp>.
#pragma once

#include <lod/io/proto/revisions.hpp>
