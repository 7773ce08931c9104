// SPDX-License-Identifier: Apache-2.0
/// @file
/// A bounded queue of tensors between threads. Documented in <lod/program/channel.hpp>.
#pragma once

#include <lod/program/channel.hpp>
