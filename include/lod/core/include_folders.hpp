// SPDX-License-Identifier: Apache-2.0
/// @file
/// The headers that include kernels include this one first. In the source tree, kernels are in a folder of their own:
/// without it on the include path, compiling fails here with a message that says so.
#pragma once

#if !__has_include(<lod/kernels/sum_tree.hpp>)
#  error "lodtensor: there are two folders of headers, include/ and kernels/: compile with -I for both"
#endif
