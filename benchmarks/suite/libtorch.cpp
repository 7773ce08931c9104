// SPDX-License-Identifier: Apache-2.0
#include "libtorch.hpp"

#include <ATen/Config.h>
#include <torch/torch.h>

#include <utility>

namespace benchmarks {
namespace {

using torch::Tensor;

const std::string version = std::string("libtorch ") + TORCH_VERSION;

/// The values where they are.
Tensor tensor_of(const float* values, std::vector<std::int64_t> shape) {
  return torch::from_blob(const_cast<float*>(values), shape, torch::kFloat32);
}
Tensor tensor_of(std::span<const std::int64_t> values) {
  return torch::from_blob(const_cast<std::int64_t*>(values.data()), {static_cast<std::int64_t>(values.size())},
                          torch::kInt64);
}
Tensor rows_of(const lod::LoDTensor<float>& x) {
  return x.row_size() == 1 ? tensor_of(x.data(), {x.rows()}) : tensor_of(x.data(), {x.rows(), x.row_size()});
}

/// A contender whose call makes a tensor anew each time.
Contender contender(std::string by, int threads, std::function<Tensor()> make, std::string note = {}) {
  torch::set_num_threads(threads);
  auto result = std::make_shared<Tensor>();
  return {
      std::move(by),
      [make = std::move(make), result] {
        const torch::NoGradGuard no_gradients;
        *result = Tensor();  // its memory first, for the new one
        *result = make();
      },
      [result] {
        const Tensor values = result->to(torch::kFloat32).contiguous();
        return checksum_of(std::span<const float>(values.data_ptr<float>(), static_cast<std::size_t>(values.numel())));
      },
      version, std::move(note)};
}

}  // namespace

void add_libtorch_pool(Job& job, const lod::LoDTensor<float>& x, const std::string& variant, int threads) {
  const Tensor rows = rows_of(x), offsets = tensor_of(x.lod().offsets(0));
  const Tensor lengths = offsets.slice(0, 1) - offsets.slice(0, 0, -1);
  const std::string reduce = variant == "SUM" ? "sum" : variant == "MAX" ? "max" : "mean";
  // An empty sequence would be a NaN or -inf without `initial`.
  job.contenders.push_back(contender("libtorch segment_reduce", threads, [=] {
    return torch::segment_reduce(rows, reduce, lengths, {}, {}, 0, /*unsafe=*/true,
                                 reduce == "max" ? c10::optional<at::Scalar>() : 0);
  }));
  if (variant == "SUM" && x.row_size() > 1) {
    const Tensor every = torch::arange(x.rows());
    job.contenders.push_back(contender(
        "libtorch embedding_bag", threads,
        [=] {
          return std::get<0>(
              torch::embedding_bag(rows, every, offsets, false, 0, false, {}, /*include_last_offset=*/true));
        },
        "the list of all rows is made before the clock starts"));
  }
}

void add_libtorch_expand_as_grad(Job& job, const lod::LoDTensor<float>& dy, int threads) {
  const Tensor rows = rows_of(dy), offsets = tensor_of(dy.lod().offsets(0));
  const Tensor lengths = offsets.slice(0, 1) - offsets.slice(0, 0, -1);
  const Tensor sequence = torch::repeat_interleave(lengths);
  std::vector<std::int64_t> shape = rows.sizes().vec();
  shape[0] = dy.lod().size(0);
  job.contenders.push_back(contender(
      "libtorch index_add", threads, [=] { return torch::zeros(shape).index_add_(0, sequence, rows); },
      "the sequence of each row is worked out before the clock starts"));
  job.contenders.push_back(contender("libtorch segment_reduce", threads, [=] {
    return torch::segment_reduce(rows, "sum", lengths, {}, {}, 0, /*unsafe=*/true, 0);
  }));
}

void add_libtorch_merge_add(Job& job, std::span<const std::int64_t> ids, const lod::LoDTensor<float>& x,
                            std::int64_t height, int threads) {
  const Tensor rows = rows_of(x), index = tensor_of(ids).unsqueeze(0);
  job.contenders.push_back(contender("libtorch coalesce", threads, [=] {
    return torch::sparse_coo_tensor(index, rows, {height, rows.size(1)}).coalesce().values();
  }));
}

void add_libtorch_embedding_pool(Job& job, const lod::LoDTensor<float>& table, std::span<const std::int64_t> ids,
                                 std::span<const std::int64_t> offsets, int threads) {
  const Tensor rows = rows_of(table), index = tensor_of(ids), starts = tensor_of(offsets);
  job.contenders.push_back(contender("libtorch embedding_bag", threads, [=] {
    return std::get<0>(torch::embedding_bag(rows, index, starts, false, 0, false, {}, /*include_last_offset=*/true));
  }));
}

void add_libtorch_recurrent(Job& job, bool gru, const lod::LoDTensor<float>& x, std::int64_t hidden,
                            const RecurrentWeights& weights, int threads) {
  torch::set_num_threads(threads);
  const std::int64_t columns = x.row_size(), rows = static_cast<std::int64_t>(weights.bias.size());
  const std::vector<Tensor> parameters = {tensor_of(weights.input.data(), {rows, columns}),
                                          tensor_of(weights.recurrent.data(), {rows, hidden}),
                                          tensor_of(weights.bias.data(), {rows}), torch::zeros({rows})};
  const auto offsets = x.lod().offsets(0);
  std::vector<Tensor> sequences;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    sequences.push_back(tensor_of(x.data() + offsets[i] * columns, {offsets[i + 1] - offsets[i], columns}));
  }
  const auto packed = torch::nn::utils::rnn::pack_sequence(sequences, /*enforce_sorted=*/false);
  const auto size = static_cast<std::int64_t>(sequences.size());
  const Tensor zero = torch::zeros({1, size, hidden});
  job.contenders.push_back(contender(
      "libtorch packed", threads,
      [=] {
        if (gru)
          return std::get<0>(
              torch::gru(packed.data(), packed.batch_sizes(), zero, parameters, true, 1, 0, false, false));
        return std::get<0>(
            torch::lstm(packed.data(), packed.batch_sizes(), {zero, zero}, parameters, true, 1, 0, false, false));
      },
      "packed before the clock starts"));
}

}  // namespace benchmarks
