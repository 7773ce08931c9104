// SPDX-License-Identifier: Apache-2.0
/// @file
/// The results of operations, described from descriptions of their arguments. Documented in <lod/ops/infer.hpp>.
#pragma once

#include <lod/ops/infer.hpp>
