// SPDX-License-Identifier: Apache-2.0
// Values between GPUs as they are, against the same between CPUs.
#include "nccl/gpus.hpp"
#include "support/element_types.hpp"

#include <cstdint>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::SelectedRows;
using lod_test::Gpus;
using lod_test::own;
using lod_test::same_bits;
using lod_test::same_rows;
using lod_test::without_waiting;
namespace mpi = lod::mpi;
namespace nccl = lod::nccl;

namespace {

/// Row-sparse values for each rank, with a place that names no row, and what they are without it.
struct WithPlaces {
  SelectedRows<float, lod::Cuda> there;
  SelectedRows<float> named;
};
WithPlaces with_places(const Gpus& gpus, const SelectedRows<float>& g) {
  auto ids = LoDTensor<std::int64_t>::from_values(LoD(), {}, {-1});
  auto all = LoDTensor<std::int64_t>::from_values(LoD(), {}, g.rows());
  const std::vector<LoDTensor<std::int64_t>> id_parts{std::move(ids), std::move(all)};
  const std::vector<LoDTensor<float>> parts{LoDTensor<float>({1, 3}), g.value()};
  return {{gpus.there(lod::concat(id_parts)), g.height(), gpus.there(lod::concat(parts))}, g};
}

}  // namespace

TEST_CASE("GPUs: all_gather and broadcast of tensors, of every type, without waiting for the GPU") {
  const Gpus gpus;
  lod_test::for_each_type(lod_test::AllTypes(), [&]<class T>(std::type_identity<T>) {
    lod_test::for_each_sample(2, 3, [&](auto& engine, int levels) {
      const auto all = lod_test::batches<T>(engine, gpus.hosts, levels);
      const auto x = gpus.there(own(all, gpus.hosts));
      const int root = levels % gpus.ranks.size();
      const auto gathered = without_waiting([&] { return nccl::all_gather(gpus.ranks, x); });
      const auto from_root = without_waiting([&] { return nccl::broadcast(gpus.ranks, root, x); });
      CHECK(same_bits(gpus.here(gathered), lod::concat(all)));
      CHECK(same_bits(gpus.here(from_root), all[static_cast<std::size_t>(root)]));
    });
  });
}

TEST_CASE("GPUs: all_gather of equal sizes, of slices, and into memory that suffices") {
  const Gpus gpus;
  lod_test::Engine engine(lod_test::first_seed());
  std::vector<LoDTensor<float>> all, halves;
  for (int rank = 0; rank < gpus.ranks.size(); ++rank) {
    all.push_back(lod_test::random_tensor<float>(engine, {{4, 0, 3}}, 3));
    halves.emplace_back(all.back().between(1, 3));
  }
  const auto x = gpus.there(own(all, gpus.hosts));
  LoDTensor<float, lod::Cuda> y(gpus.executor.resource());
  nccl::all_gather_into(gpus.ranks, x, y);
  CHECK(same_bits(gpus.here(y), lod::concat(all)));
  const float* const memory = y.data();
  nccl::all_gather_into(gpus.ranks, x.between(1, 3), y);
  CHECK(y.data() == memory);
  CHECK(same_bits(gpus.here(y), lod::concat(halves)));
}

TEST_CASE("GPUs: row-sparse values with all their places") {
  const Gpus gpus;
  lod_test::Engine engine(lod_test::first_seed());
  for (int sample = 0; sample < 6; ++sample) {
    const auto all = lod_test::sparse_values<float>(engine, gpus.hosts, 30);
    const auto x = with_places(gpus, own(all, gpus.hosts));
    const int root = sample % gpus.ranks.size();
    const auto gathered = nccl::all_gather(gpus.ranks, x.there);
    CHECK(gathered.rows().rows() == lod_test::listed(all).value().rows() + gpus.ranks.size());
    CHECK(same_rows(gpus.here(gathered), lod_test::listed(all)));
    CHECK(same_rows(gpus.here(nccl::broadcast(gpus.ranks, root, x.there)), all[static_cast<std::size_t>(root)]));
    const auto received = nccl::send_receive(gpus.ranks, x.there, gpus.next(), gpus.before());
    CHECK(same_rows(gpus.here(received), all[static_cast<std::size_t>(gpus.before())]));
  }
}

TEST_CASE("GPUs: all_to_all, its gradient, and the way back, for any destinations") {
  const Gpus gpus;
  lod_test::for_each_sample(6, 3, [&](auto& engine, int levels) {
    const auto all = lod_test::batches<float>(engine, gpus.hosts, levels);
    const auto& x = own(all, gpus.hosts);
    // Each rank draws those of all.
    std::vector<std::vector<std::int64_t>> destinations;
    for (const auto& one : all) {
      auto& list = destinations.emplace_back();
      for (std::int64_t i = 0; i < one.size(); ++i) {
        list.push_back(lod_test::random_number(engine, 0, gpus.ranks.size() - 1));
      }
      if (levels % 2 == 1) std::sort(list.begin(), list.end());
    }
    const auto& mine = own(destinations, gpus.hosts);
    const auto expected = mpi::all_to_all(gpus.hosts, x, mine);
    const auto on_gpu = gpus.there(x);
    const auto y = without_waiting([&] { return nccl::all_to_all(gpus.ranks, on_gpu, mine); });
    CHECK(same_bits(gpus.here(y), expected));
    const auto dy = lod_test::small_integers<float>(engine, {expected.rows(), 2});
    const auto dy_there = gpus.there(dy);
    const auto dx = without_waiting([&] { return nccl::all_to_all_grad(gpus.ranks, dy_there, x.lod_view(), mine); });
    CHECK(same_bits(gpus.here(dx), mpi::all_to_all_grad(gpus.hosts, dy, x.lod_view(), mine)));
    CHECK(same_bits(gpus.here(nccl::all_to_all_grad(gpus.ranks, y, x.lod_view(), mine)), x));
  });
}

TEST_CASE("GPUs: send, receive and both at once") {
  const Gpus gpus;
  lod_test::for_each_sample(3, 3, [&](auto& engine, int levels) {
    const auto all = lod_test::batches<double>(engine, gpus.hosts, levels);
    const auto x = gpus.there(own(all, gpus.hosts));
    const auto y = without_waiting([&] { return nccl::send_receive(gpus.ranks, x, gpus.next(), gpus.before()); });
    CHECK(same_bits(gpus.here(y), all[static_cast<std::size_t>(gpus.before())]));
    // From each rank to the one after it.
    LoDTensor<double, lod::Cuda> z(gpus.executor.resource());
    if (gpus.ranks.rank() > 0) nccl::receive_into(gpus.ranks, gpus.ranks.rank() - 1, z);
    if (gpus.ranks.rank() + 1 < gpus.ranks.size()) nccl::send(gpus.ranks, x, gpus.ranks.rank() + 1);
    const auto received = gpus.here(z);
    if (gpus.ranks.rank() > 0) CHECK(same_bits(received, all[static_cast<std::size_t>(gpus.ranks.rank() - 1)]));
  });
}

TEST_CASE("GPUs: many operations are enqueued before any of them has run") {
  const Gpus gpus;
  lod_test::Engine engine(lod_test::first_seed());
  const auto all = lod_test::batches<float>(engine, gpus.hosts, 2);
  const auto x = gpus.there(own(all, gpus.hosts));
  const std::int64_t calls = lod_test::emulated_nccl::calls();
  const auto y = without_waiting([&] {
    auto gathered = nccl::all_gather(gpus.ranks, x);
    return nccl::all_gather(gpus.ranks, lod::sequence_reverse(gpus.executor, gathered));
  });
  CHECK((lod_test::emulated_nccl::calls() > calls || lod::concat(all).rows() == 0));
  const auto reversed = lod::sequence_reverse(lod::concat(all));
  CHECK(same_bits(gpus.here(y), lod::concat(std::vector(static_cast<std::size_t>(gpus.ranks.size()), reversed))));
}
