// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which operation takes which elements on which device. Documented in <lod/ops/supports.hpp>.
#pragma once

#include <lod/ops/supports.hpp>
