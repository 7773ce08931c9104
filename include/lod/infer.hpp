// SPDX-License-Identifier: Apache-2.0
/// @file
/// What operations give, worked out from descriptions. Documented in <lod/ops/infer.hpp>.
#pragma once

#include <lod/ops/infer.hpp>
