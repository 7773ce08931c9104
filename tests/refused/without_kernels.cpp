// SPDX-License-Identifier: Apache-2.0
// The folder of the kernels is not among those that the compiler looks through.
#include <lod/lod.hpp>
