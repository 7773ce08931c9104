// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations that would wait for a GPU without saying so: one call for each case, which must not compile.
#include <lod/cuda.hpp>
#include <lod/ops/ctc_align.hpp>
#include <lod/ops/sequence_erase.hpp>
#include <lod/ops/unique_sequences.hpp>

#include <cstdint>
#include <vector>

void call(const lod::CudaExecutor& executor, const lod::LoDTensor<std::int64_t, lod::Cuda>& x) {
#if defined(ERASE)
  lod::sequence_erase(executor, x, std::vector<std::int64_t>{1});
#elif defined(ALIGN)
  lod::ctc_align(executor, x);
#elif defined(UNIQUE)
  lod::unique_sequences(executor, x);
#else
  lod::unique_sequences_and_wait(executor, x);
#endif
}
