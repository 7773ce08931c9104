// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations that would wait for a GPU without saying so, and such as call a function of the user's there, of which
/// the library has no kernel: one call for each case, which must not compile.
#include <lod/cuda.hpp>
#include <lod/ops/beam_search.hpp>
#include <lod/ops/beam_search_decode.hpp>
#include <lod/ops/ctc_align.hpp>
#include <lod/ops/map_rows.hpp>
#include <lod/ops/reduce_sequences.hpp>
#include <lod/ops/scan_sequences.hpp>
#include <lod/ops/sequence_erase.hpp>
#include <lod/ops/unique_sequences.hpp>

#include <cstdint>
#include <vector>

void call(const lod::CudaExecutor& executor, const lod::LoDTensor<std::int64_t, lod::Cuda>& x,
          const lod::LoDTensor<float, lod::Cuda>& scores) {
#if defined(ERASE)
  lod::sequence_erase(executor, x, std::vector<std::int64_t>{1});
#elif defined(ALIGN)
  lod::ctc_align(executor, x);
#elif defined(UNIQUE)
  lod::unique_sequences(executor, x);
#elif defined(SEARCH)
  lod::beam_search(executor, x, scores);
#elif defined(DECODE)
  lod::beam_search_decode(executor, std::vector{x}, std::vector{scores});
#elif defined(REDUCE)
  static_cast<void>(lod::reduce_sequences(executor, scores, 0.F, [](float a, float b) { return a + b; }));
#elif defined(SCAN)
  static_cast<void>(lod::scan_sequences(executor, scores, [](float a, float b) { return a + b; }));
#elif defined(MAP)
  static_cast<void>(lod::map_rows<float>(executor, scores, {}, [](const float* from, float* to) { *to = *from; }));
#else
  lod::beam_search_and_wait(executor, x, scores, {.beam_size = 2, .pre_ids = x, .pre_scores = scores});
  lod::beam_search_decode_and_wait(executor, std::vector{x}, std::vector{scores});
  lod::unique_sequences_and_wait(executor, x);
#endif
}
