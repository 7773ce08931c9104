// SPDX-License-Identifier: Apache-2.0
// Sums over GPUs, against those over CPUs.
#include "nccl/gpus.hpp"
#include "support/element_types.hpp"

#include <cstdint>
#include <utility>
#include <vector>

using lod::LoDTensor;
using lod::SelectedRows;
using namespace lod_test;
namespace mpi = lod::mpi;
namespace nccl = lod::nccl;

namespace {

using SummedTypes =
    lod_test::Types<std::int8_t, std::uint8_t, std::int32_t, std::int64_t, lod::float16, lod::bfloat16, float, double>;

/// Rows of all ranks, most with small ids, as natural data has; some ranks have none.
template <class T>
std::vector<SelectedRows<T>> gradients(lod_test::Engine& engine, int ranks, std::int64_t height) {
  std::vector<SelectedRows<T>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::int64_t> ids;
    const std::int64_t count = lod_test::random_number(engine, 0, 3) == 0 ? 0 : lod_test::random_number(engine, 1, 40);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t id = lod_test::random_number(engine, 0, height - 1);
      ids.push_back(id * id / height);
    }
    all.emplace_back(std::move(ids), height, lod_test::real_numbers<T>(engine, {count, 3}));
  }
  return all;
}

}  // namespace

TEST_CASE("GPUs: all_reduce of dense tensors, of every type that NCCL adds up, also in place") {
  const Gpus gpus;
  lod_test::for_each_type(SummedTypes(), [&]<class T>(std::type_identity<T>) {
    lod_test::Engine engine(lod_test::first_seed());
    for (const std::int64_t rows : {0, 1, 50}) {
      // Whose sums are exact, in whatever order.
      std::vector<LoDTensor<T>> all;
      for (int rank = 0; rank < gpus.ranks.size(); ++rank) {
        all.push_back(lod_test::small_integers<T>(engine, {rows, 3}));
      }
      const auto expected = mpi::all_reduce(gpus.hosts, own(all, gpus.hosts));
      auto x = gpus.there(own(all, gpus.hosts));
      const auto y = without_waiting([&] { return nccl::all_reduce(gpus.ranks, x); });
      CHECK(same_bits(gpus.here(y), expected));
      const T* const memory = x.data();
      nccl::all_reduce_into(gpus.ranks, x, x);
      CHECK(x.data() == memory);
      CHECK(same_bits(gpus.here(x), expected));
    }
  });
}

TEST_CASE("GPUs: all_reduce of row-sparse values has the bits of that between CPUs, and waits only where it says so") {
  const Gpus gpus;
  lod_test::for_each_type(lod_test::Types<float, lod::bfloat16>(), [&]<class T>(std::type_identity<T>) {
    for (int sample = 0; sample < 8; ++sample) {
      INFO("LOD_TEST_SEED=", lod_test::first_seed(), ": sample ", sample);
      lod_test::Engine engine(lod_test::first_seed() + static_cast<std::uint64_t>(sample));
      const auto all = gradients<T>(engine, gpus.ranks.size(), sample == 0 ? 1 : 200);
      const auto expected = mpi::all_reduce(gpus.hosts, own(all, gpus.hosts));
      auto g = gpus.there(own(all, gpus.hosts));
      const auto y = without_waiting([&] { return nccl::all_reduce(gpus.ranks, g); });
      CHECK(same_rows(gpus.here(y), expected));
      const auto exact = nccl::all_reduce_and_wait(gpus.ranks, g);
      CHECK(exact.rows().rows() == expected.value().rows());
      CHECK(same_rows(gpus.here(exact), expected));
      nccl::all_reduce_and_wait_into(gpus.ranks, g, g);
      CHECK(same_rows(gpus.here(g), expected));
    }
  });
}

TEST_CASE("GPUs: all_reduce_and_wait sends a rank its share of rows, and waits once") {
  const Gpus gpus;
  // All have the same ids: each owner gets some of them from each rank.
  std::vector<std::int64_t> ids(1000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i) * 3;
  const auto g = gpus.there(SelectedRows<float>(ids, 3000, LoDTensor<float>({1000, 2})));
  static_cast<void>(nccl::all_reduce_and_wait(gpus.ranks, g));
  gpus.executor.synchronize();
  const auto before = lod_test::emulated_cuda::counters();
  const auto sum = nccl::all_reduce_and_wait(gpus.ranks, g);
  CHECK((lod_test::emulated_cuda::counters() - before).synchronisations == 1);
  CHECK(sum.rows().rows() == 1000);
}
