// SPDX-License-Identifier: Apache-2.0
/// @file
/// Element types that an operation has no meaning for: one call for each case, which must not compile. The kernels are
/// not included, so that the compiler has little to read: a type is refused before they are looked for.
#include <lod/ops/edit_distance.hpp>
#include <lod/ops/elementwise.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/optimizers.hpp>
#include <lod/ops/row_sparse.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/sequence_softmax.hpp>

#include <complex>

int main() {
#if defined(SOFTMAX) || defined(SOFTMAX_TAG)
  lod::sequence_softmax(lod::LoDTensor<int>());
#elif defined(ADD)
  lod::add(lod::LoDTensor<bool>(), lod::LoDTensor<bool>());
#elif defined(ADD_DENSE)
  lod::add(lod::SelectedRows<float>(), lod::LoDTensor<double>());
#elif defined(EDIT_DISTANCE)
  lod::edit_distance(lod::LoDTensor<float>(), lod::LoDTensor<float>());
#elif defined(POOL)
  lod::sequence_pool(lod::LoDTensor<std::complex<float>>(), lod::PoolType::SUM);
#elif defined(OUTPUT)
  lod::LoDTensor<double> y;
  lod::sequence_pool_into(lod::CpuExecutor(), lod::LoDTensor<float>(), lod::PoolType::SUM, y);
#elif defined(INDEX)
  lod::LoDTensor<float> y;
  lod::LoDTensor<int> index;
  lod::sequence_max_pool_into(lod::CpuExecutor(), lod::LoDTensor<float>(), y, index);
#elif defined(IDS)
  lod::embedding(lod::LoDTensor<float>(), lod::LoDTensor<float>());
#elif defined(ADAM)
  lod::LoDTensor<int> parameter, mean, squares;
  lod::adam(parameter, mean, squares, lod::LoDTensor<int>(), {.step = 1});
#endif
}
