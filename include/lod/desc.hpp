// SPDX-License-Identifier: Apache-2.0
/// @file
/// Descriptions of variables: VarDesc, TensorDesc, LoDTensorDesc and the like, plain structs. Documented in
/// <lod/core/desc.hpp>.
#pragma once

#include <lod/core/desc.hpp>
