// SPDX-License-Identifier: Apache-2.0
/// @file
/// The network of the lexical analyser, as a program.
#pragma once

#include <lod/program.hpp>

namespace lac {

/// The program that jieba's `lac_small/nets.py` builds for inference: it is Python for PaddlePaddle 1, which no
/// PaddlePaddle of today runs. It takes the ids of characters, `word`, and gives a tag for each, `tags`.
///
/// lookup_table; twice a GRU forwards and one backwards, side by side (mul, elementwise_add, gru, concat); the
/// emissions (mul, elementwise_add); crf_decoding. Parameters have the names of the files in `model_baseline`.
lod::ProgramDesc network();

}  // namespace lac
