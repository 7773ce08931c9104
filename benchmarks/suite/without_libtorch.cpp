// SPDX-License-Identifier: Apache-2.0
#include "libtorch.hpp"

namespace benchmarks {

void add_libtorch_pool(Job&, const lod::LoDTensor<float>&, const std::string&, int) {}
void add_libtorch_expand_as_grad(Job&, const lod::LoDTensor<float>&, int) {}
void add_libtorch_merge_add(Job&, std::span<const std::int64_t>, const lod::LoDTensor<float>&, std::int64_t, int) {}
void add_libtorch_embedding_pool(Job&, const lod::LoDTensor<float>&, std::span<const std::int64_t>,
                                 std::span<const std::int64_t>, int) {}
void add_libtorch_recurrent(Job&, bool, const lod::LoDTensor<float>&, std::int64_t, const RecurrentWeights&, int) {}

}  // namespace benchmarks
