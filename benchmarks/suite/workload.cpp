// SPDX-License-Identifier: Apache-2.0
#include "workload.hpp"

#if __has_include(<xtensor/containers/xadapt.hpp>)  // from 0.26 on
#  include <xtensor/containers/xadapt.hpp>
#  include <xtensor/io/xnpy.hpp>
#else
#  include <xtensor/xadapt.hpp>
#  include <xtensor/xnpy.hpp>
#endif

#include <array>
#include <utility>

namespace benchmarks {
namespace {

template <class T>
Input npy_input(std::string name, std::shared_ptr<const void> owner, const T* values, std::vector<std::int64_t> shape) {
  return {std::move(name), [owner = std::move(owner), values, shape = std::move(shape)](const std::string& file) {
            std::vector<std::size_t> extents(shape.begin(), shape.end());
            std::size_t count = 1;
            for (const std::size_t extent : extents) count *= extent;
            xt::dump_npy(file, xt::adapt(values, count, xt::no_ownership(), extents));
          }};
}

}  // namespace

Input input(std::string name, std::shared_ptr<const void> owner, const float* values, std::vector<std::int64_t> shape) {
  return npy_input(std::move(name), std::move(owner), values, std::move(shape));
}
Input input(std::string name, std::shared_ptr<const void> owner, const double* values,
            std::vector<std::int64_t> shape) {
  return npy_input(std::move(name), std::move(owner), values, std::move(shape));
}
Input input(std::string name, std::shared_ptr<const void> owner, const std::int64_t* values,
            std::vector<std::int64_t> shape) {
  return npy_input(std::move(name), std::move(owner), values, std::move(shape));
}

std::string Workload::id() const {
  std::string id = op;
  for (const std::string& part : {variant, lengths, ids}) {
    if (!part.empty()) id += "/" + part;
  }
  return id + "/" + std::to_string(row_size) + "/" + dtype + "/" + size;
}

std::vector<Workload> all_workloads() {
  std::vector<Workload> workloads;
  add_pooling(workloads);
  add_softmax(workloads);
  add_padding(workloads);
  add_copies(workloads);
  add_tokens(workloads);
  add_order(workloads);
  add_row_sparse(workloads);
  add_embedding(workloads);
  add_recurrent(workloads);
  add_attention(workloads);
  add_layers(workloads);
  add_narrow_products(workloads);
  add_chain(workloads);
  return workloads;
}

}  // namespace benchmarks
