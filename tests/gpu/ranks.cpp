// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors between GPUs by NCCL itself, as far as one rank shows it: to itself. Linked everywhere, run where there is a
/// GPU.
#include <lod/lod.hpp>
#include <lod/nccl.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <vector>

namespace {

int failures = 0;
void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}
template <class T>
bool same(const lod::LoDTensor<T>& a, const lod::LoDTensor<T>& b) {
  return a.lod() == b.lod() && a.row_shape() == b.row_shape() && std::ranges::equal(a.values(), b.values());
}

void run() {
  const lod::CudaExecutor executor;
  const lod::nccl::Communicator ranks(MPI_COMM_SELF, executor);
  const auto here = [&](const auto& x) { return lod::to<lod::Cpu>(executor, x); };

  lod::LoDTensor<float> batch(lod::LoD::from_lengths({{3, 0, 2}}), {4});
  for (std::int64_t i = 0; i < 20; ++i) batch.data()[i] = static_cast<float>(i);
  const auto x = lod::to<lod::Cuda>(executor, batch);
  check(same(here(lod::nccl::broadcast(ranks, 0, x)), batch), "broadcast");
  check(same(here(lod::nccl::all_gather(ranks, x)), batch), "all_gather");
  check(same(here(lod::nccl::all_reduce(ranks, x)), batch), "all_reduce");
  check(same(here(lod::nccl::send_receive(ranks, x, 0, 0)), batch), "send_receive");
  const auto y = lod::nccl::all_to_all(ranks, x, {0, 0, 0});
  check(same(here(y), batch), "all_to_all");
  check(same(here(lod::nccl::all_to_all_grad(ranks, y, batch.lod(), {0, 0, 0})), batch), "all_to_all_grad");

  const lod::SelectedRows<float> found({7, 2, 7}, 9,
                                       lod::LoDTensor<float>(batch.between(0, 1).view().with_lod(lod::LoD())));
  const auto g = lod::to<lod::Cuda>(executor, found);
  const auto expected = lod::merge_add(found);
  for (const auto& sum : {here(lod::nccl::all_reduce(ranks, g)), here(lod::nccl::all_reduce_and_wait(ranks, g))}) {
    check(sum.rows() == expected.rows() && same(sum.value(), expected.value()), "all_reduce of row-sparse values");
  }
  try {
    static_cast<void>(lod::nccl::all_to_all(ranks, x, {0, 0, 1}));
    check(false, "all_to_all to a rank that there is not");
  } catch (const lod::OutOfRange&) {
  }
  ranks.synchronize();
}

}  // namespace

int main(int count, char** arguments) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  MPI_Init(&count, &arguments);
  try {
    run();
  } catch (const std::exception& error) {
    check(false, error.what());
  }
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
