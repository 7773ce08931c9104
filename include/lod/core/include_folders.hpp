// SPDX-License-Identifier: Apache-2.0
/// @file
/// Included first by the headers that include kernels, which are in a folder of their own until they are installed:
/// says so if the compiler was given only the other folder.
#pragma once

#if !__has_include(<lod/kernels/sum_tree.hpp>)
#  error "lodtensor: there are two folders of headers, include/ and kernels/: compile with -I for both"
#endif
