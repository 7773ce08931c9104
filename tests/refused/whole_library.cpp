// SPDX-License-Identifier: Apache-2.0
// All of the library, for a compiler that is not told all that it needs.
#include <lod/lod.hpp>
