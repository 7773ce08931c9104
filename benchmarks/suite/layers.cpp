// SPDX-License-Identifier: Apache-2.0
/// @file
/// W20: layers that take one row after the other, and losses over rows and over sequences.
#include "batch.hpp"
#include "workload.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace benchmarks {
namespace {

using Tensor = lod::LoDTensor<float>;
using Ids = lod::LoDTensor<std::int64_t>;

/// A batch, and what the layers and losses take besides.
struct Layer : Batch<float> {
  using Batch<float>::Batch;

  Tensor dy, weight, scale, bias, dx, dweight, dscale, dbias;
  lod::LoD label_lod;
  Ids labels, groups;
};

using Call = void (*)(Layer&);

Job job_with(const std::shared_ptr<Layer>& data, std::int64_t bytes, Call call, Tensor Layer::*y,
             std::string parameters = "{}") {
  Job job = job_of<float>(data, bytes);
  job.parameters = std::move(parameters);
  for (const auto& [name, one] : {std::pair("dy", &Layer::dy), std::pair("weight", &Layer::weight),
                                  std::pair("scale", &Layer::scale), std::pair("bias", &Layer::bias)}) {
    const Tensor& given = (*data).*one;
    if (given.rows() * given.row_size() > 0) add_input(job, name, data, given);
  }
  if (data->labels.rows() > 0) add_input(job, "labels", data, data->labels);
  if (data->label_lod.levels() > 0) add_input(job, "label_offsets", data, data->label_lod.offsets(0));
  if (data->groups.rows() > 0) add_input(job, "groups", data, data->groups);
  job.contenders.push_back(lodtensor(data, call, y));
  return job;
}

constexpr std::int64_t groups = 64;

Job product(const Workload& workload, int threads) {
  const auto data = std::make_shared<Layer>(workload, threads);
  const std::int64_t size = workload.row_size, bytes = 2 * data->x_bytes();
  if (workload.op == "linear") {
    data->weight = random_tensor<float>(lod::Shape{size, size}, 1);
    return job_with(
        data, bytes, [](Layer& d) { lod::linear_into(d.executor, d.x, d.weight, d.y); }, &Layer::y);
  }
  // As many sequences as groups, each of another one.
  data->lod = lod::LoD::from_lengths({std::vector<std::int64_t>(groups, data->x.rows() / groups)});
  data->x = random_tensor<float>(data->lod, size);
  data->weight = random_tensor<float>(lod::Shape{groups, size, size}, 1);
  data->groups = Ids({groups});
  for (std::int64_t i = 0; i < groups; ++i) data->groups.data()[i] = i * 37 % groups;
  return job_with(
      data, bytes, [](Layer& d) { lod::grouped_linear_into(d.executor, d.x, d.weight, d.groups, d.y); }, &Layer::y);
}

Job norm(const Workload& workload, int threads) {
  const auto data = std::make_shared<Layer>(workload, threads);
  const std::int64_t size = workload.row_size, bytes = data->x_bytes();
  data->scale = random_tensor<float>(lod::Shape{size}, 1);
  if (workload.op == "layer_norm") {
    data->bias = random_tensor<float>(lod::Shape{size}, 2);
    return job_with(
        data, 2 * bytes,
        [](Layer& d) { lod::layer_norm_into(d.executor, d.x, {.scale = d.scale, .bias = d.bias}, d.y); }, &Layer::y);
  }
  if (workload.op == "rms_norm") {
    return job_with(
        data, 2 * bytes, [](Layer& d) { lod::rms_norm_into(d.executor, d.x, {.scale = d.scale}, d.y); }, &Layer::y);
  }
  data->dy = random_tensor<float>(data->lod, size, 3);
  return job_with(
      data, 3 * bytes,
      [](Layer& d) { lod::layer_norm_grad_into(d.executor, d.dy, d.x, {.scale = d.scale}, d.dx, d.dscale, d.dbias); },
      &Layer::dx);
}

Job rotation(const Workload& workload, int threads) {
  const auto data = std::make_shared<Layer>(workload, threads);
  return job_with(
      data, 2 * data->x_bytes(), [](Layer& d) { lod::rotary_embedding_into(d.executor, d.x, {.heads = 8}, d.y); },
      &Layer::y, "{\"heads\": 8}");
}

Job scan(const Workload& workload, int threads) {
  const auto data = std::make_shared<Layer>(workload, threads);
  data->weight = random_tensor<float>(data->lod, workload.row_size, 1);
  return job_with(
      data, 3 * data->x_bytes(), [](Layer& d) { lod::sequence_linear_scan_into(d.executor, d.weight, d.x, d.y); },
      &Layer::y);
}

constexpr lod::CrossEntropyOptions mean_of_rows{.reduction = lod::Reduction::ROWS};

Job cross_entropy(const Workload& workload, int threads) {
  const auto data = std::make_shared<Layer>(workload, threads);
  data->labels = Ids({data->x.rows()});
  for (std::int64_t i = 0; i < data->x.rows(); ++i) data->labels.data()[i] = i * 7919 % workload.row_size;
  if (workload.op == "cross_entropy") {
    return job_with(
        data, data->x_bytes(), [](Layer& d) { lod::cross_entropy_into(d.executor, d.x, d.labels, mean_of_rows, d.y); },
        &Layer::y);
  }
  data->dy = Tensor({1});
  data->dy.fill(1);
  return job_with(
      data, 2 * data->x_bytes(),
      [](Layer& d) { lod::cross_entropy_grad_into(d.executor, d.dy, d.x, d.labels, mean_of_rows, d.dx); }, &Layer::dx);
}

/// Frames with a label for every five of them, in sequences as `zipf11` has them, sixteen times as long, but at most
/// 1,281 frames.
Job ctc(const Workload& workload, int threads) {
  const auto data = std::make_shared<Layer>(workload, threads);
  std::vector<std::int64_t> frames, labels;
  std::int64_t left = data->x.rows();
  for (const std::int64_t length : lengths("zipf11", left)) {
    const std::int64_t longest = std::min<std::int64_t>(std::max<std::int64_t>(16 * length, 16), 1281);
    if (left == 0) break;
    frames.push_back(std::min(longest, left));
    labels.push_back(frames.back() / 5);
    left -= frames.back();
  }
  data->lod = lod::LoD::from_lengths({frames});
  data->x = random_tensor<float>(data->lod, workload.row_size);
  data->label_lod = lod::LoD::from_lengths({labels});
  data->labels = Ids(data->label_lod, {});
  for (std::int64_t i = 0; i < data->labels.rows(); ++i) {
    data->labels.data()[i] = 1 + i * 7919 % (workload.row_size - 1);
  }
  lod::ctc_loss_into(data->executor, data->x, data->labels, data->y);
  if (workload.op == "ctc_loss") {
    return job_with(
        data, data->x_bytes(), [](Layer& d) { lod::ctc_loss_into(d.executor, d.x, d.labels, d.y); }, &Layer::y);
  }
  data->dy = Tensor({data->lod.size(0)});
  data->dy.fill(1);
  return job_with(
      data, 2 * data->x_bytes(), [](Layer& d) { lod::ctc_loss_grad_into(d.executor, d.dy, d.x, d.labels, d.dx); },
      &Layer::dx);
}

/// Sentences as `zipf11` has them.
Job crf(const Workload& workload, int threads) {
  const auto data = std::make_shared<Layer>(workload, threads);
  const std::int64_t tags = workload.row_size;
  data->labels = Ids(data->lod, {});
  for (std::int64_t i = 0; i < data->labels.rows(); ++i) data->labels.data()[i] = i * 7919 % tags;
  data->weight = random_tensor<float>(lod::Shape{tags + 2, tags}, 1);
  if (workload.op == "linear_chain_crf") {
    return job_with(
        data, data->x_bytes(), [](Layer& d) { lod::linear_chain_crf_into(d.executor, d.x, d.weight, d.labels, d.y); },
        &Layer::y);
  }
  data->dy = Tensor({data->lod.size(0)});
  data->dy.fill(1);
  return job_with(
      data, 2 * data->x_bytes(),
      [](Layer& d) { lod::linear_chain_crf_grad_into(d.executor, d.dy, d.x, d.weight, d.labels, d.dx, d.dweight); },
      &Layer::dx);
}

}  // namespace

void add_layers(std::vector<Workload>& all) {
  const auto add = [&all](const char* op, const char* lengths, std::int64_t row_size, const char* size,
                          const char* short_size, Roof roof, Job (*make)(const Workload&, int)) {
    add_workload(all,
                 {.work = "W20",
                  .op = op,
                  .lengths = lengths,
                  .row_size = row_size,
                  .dtype = "float32",
                  .size = size,
                  .roof = roof,
                  .make = make},
                 short_size);
  };
  for (const char* op : {"linear", "grouped_linear"}) add(op, "u16", 256, "4MiB", "4MiB", Roof::NONE, product);
  for (const char* op : {"layer_norm", "rms_norm", "layer_norm_grad"}) {
    add(op, "u16", 512, "512MiB", "64MiB", Roof::COPY, norm);
  }
  add("rotary_embedding", "zipf11", 512, "512MiB", "64MiB", Roof::COPY, rotation);
  for (const char* lengths : {"u16", "giant"}) {
    add("sequence_linear_scan", lengths, 64, "512MiB", "64MiB", Roof::COPY, scan);
  }
  for (const char* op : {"cross_entropy", "cross_entropy_grad"}) {
    add(op, "u16", 32000, "2GiB", "256MiB", op[13] == '\0' ? Roof::READ : Roof::COPY, cross_entropy);
  }
  for (const char* op : {"ctc_loss", "ctc_loss_grad"}) add(op, "zipf11", 256, "12MiB", "12MiB", Roof::NONE, ctc);
  for (const char* op : {"linear_chain_crf", "linear_chain_crf_grad"}) {
    add(op, "zipf11", 57, "1MiB", "1MiB", Roof::NONE, crf);
  }
}

}  // namespace benchmarks
