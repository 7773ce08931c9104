// SPDX-License-Identifier: Apache-2.0
/// @file
/// Exchange with Apache Arrow by its C data interface. Documented in <lod/interop/arrow.hpp>.
#pragma once

#include <lod/interop/arrow.hpp>
