// SPDX-License-Identifier: Apache-2.0
/// @file
/// The frame of the suite: workloads, what runs on them, how it is timed.
#pragma once

#include <lod/executor.hpp>
#include <lod/float16.hpp>
#include <lod/lod_tensor.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace benchmarks {

/// What tells one result from a wrong one: the sum of its numbers, and of their absolute values.
struct Checksum {
  double sum = 0;
  double magnitude = 0;
};
template <class T>
Checksum checksum_of(std::span<const T> values) {
  double sum = 0, magnitude = 0;
  const auto count = static_cast<std::int64_t>(values.size());
#ifdef _OPENMP
#  pragma omp parallel for reduction(+ : sum, magnitude)
#endif
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[static_cast<std::size_t>(i)]);
    sum += value;
    magnitude += std::abs(value);
  }
  return {sum, magnitude};
}

/// One way to do the work.
struct Contender {
  std::string by;  ///< "lodtensor", or who else
  std::function<void()> call;
  std::function<Checksum()> checksum = {};  ///< of the result of the last call; none where there is nothing to compare
  std::string version = {};
  std::string note = {};  ///< what a reader must know of it
};

/// Writes one input as <name>.npy to a folder.
struct Input {
  std::string name;
  std::function<void(const std::string& file)> write;
};

/// The ceiling that a workload runs against.
enum class Roof { NONE, READ, COPY, STREAM_COPY, GATHER };

/// A workload with its data, which the functions in it own.
struct Job {
  std::int64_t rows = 0;
  std::int64_t sequences = 0;
  std::int64_t bytes = 0;         ///< that the work must read and write at least
  std::string parameters = "{}";  ///< JSON
  std::vector<Input> inputs = {};
  std::vector<Contender> contenders = {};
};

/// What is measured: an operation on data of one kind and size.
struct Workload {
  std::string work;  ///< the group that it belongs to: W1, W2, ...
  std::string op = {};
  std::string variant = {};  ///< of the operation
  std::string lengths = {};  ///< the name of the distribution
  std::string ids = {};      ///< likewise; empty where there are none
  std::int64_t row_size = 1;
  std::string dtype = {};
  std::string size = {};  ///< of the values, as a person would say it
  Roof roof = Roof::NONE;
  bool in_short_form = false;
  Job (*make)(const Workload& workload, int threads) = nullptr;

  /// Unlike that of every other workload, and the same from version to version.
  std::string id() const;
};

/// Adds a workload to the long form. With a `short_size`, the same of that size is added to both forms: past the
/// caches of most machines too, but done in a moment.
inline void add_workload(std::vector<Workload>& all, const Workload& workload, const std::string& short_size = {}) {
  if (!short_size.empty()) {
    all.push_back(workload);
    all.back().size = short_size;
    all.back().in_short_form = true;
    if (short_size == workload.size) return;
  }
  all.push_back(workload);
}

/// All there are, in the order in which they are shown.
std::vector<Workload> all_workloads();

/// @{
/// The workloads of one file each.
void add_pooling(std::vector<Workload>&);
void add_softmax(std::vector<Workload>&);
void add_padding(std::vector<Workload>&);
void add_copies(std::vector<Workload>&);
void add_tokens(std::vector<Workload>&);
void add_order(std::vector<Workload>&);
void add_row_sparse(std::vector<Workload>&);
void add_embedding(std::vector<Workload>&);
void add_recurrent(std::vector<Workload>&);
void add_attention(std::vector<Workload>&);
void add_layers(std::vector<Workload>&);
void add_narrow_products(std::vector<Workload>&);
void add_chain(std::vector<Workload>&);
/// @}

template <class T>
constexpr const char* dtype_name = "";
template <>
inline constexpr const char* dtype_name<float> = "float32";
template <>
inline constexpr const char* dtype_name<double> = "float64";
template <>
inline constexpr const char* dtype_name<lod::float16> = "float16";
template <>
inline constexpr const char* dtype_name<lod::bfloat16> = "bfloat16";
template <>
inline constexpr const char* dtype_name<std::int64_t> = "int64";

/// Numbers in [-1, 1) that follow from their place and `stream` alone.
template <class T>
void fill_random(std::span<T> values, std::uint64_t stream = 0) {
  const auto count = static_cast<std::int64_t>(values.size());
#ifdef _OPENMP
#  pragma omp parallel for
#endif
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t bits = (static_cast<std::uint64_t>(i) + (stream << 40)) * 0x9E3779B97F4A7C15;
    bits = (bits ^ (bits >> 32)) * 0xD6E8FEB86659FD93;
    bits ^= bits >> 32;
    values[static_cast<std::size_t>(i)] =
        static_cast<T>(static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31F);
  }
}

/// Rows with random values; scalar rows have no row shape.
template <class T>
lod::LoDTensor<T> random_tensor(const lod::LoD& lod, std::int64_t row_size, std::uint64_t stream = 0) {
  lod::LoDTensor<T> x(lod, row_size == 1 ? lod::Shape{} : lod::Shape{row_size}, lod::uninitialized);
  fill_random(x.values(), stream);
  return x;
}
template <class T>
lod::LoDTensor<T> random_tensor(lod::Shape shape, std::uint64_t stream = 0) {
  lod::LoDTensor<T> x(shape, lod::uninitialized);
  fill_random(x.values(), stream);
  return x;
}

/// @{
/// The input `name`: an array of the given shape, which lives as long as `owner`.
Input input(std::string name, std::shared_ptr<const void> owner, const float* values, std::vector<std::int64_t> shape);
Input input(std::string name, std::shared_ptr<const void> owner, const double* values, std::vector<std::int64_t> shape);
Input input(std::string name, std::shared_ptr<const void> owner, const std::int64_t* values,
            std::vector<std::int64_t> shape);
/// @}

/// The values of a tensor as an input; none for 16-bit floats, which no peer takes from files.
template <class T>
void add_input(Job& job, const std::string& name, std::shared_ptr<const void> owner, const lod::LoDTensor<T>& x) {
  if constexpr (sizeof(T) >= 4) {
    const auto shape = x.shape();
    job.inputs.push_back(input(name, std::move(owner), x.data(), {shape.begin(), shape.end()}));
  }
}
inline void add_input(Job& job, const std::string& name, std::shared_ptr<const void> owner,
                      std::span<const std::int64_t> values) {
  job.inputs.push_back(input(name, std::move(owner), values.data(), {static_cast<std::int64_t>(values.size())}));
}

/// The contender "lodtensor", whose result is y in `data`.
template <class Data, class Call, class Base, class Y>
Contender lodtensor(std::shared_ptr<Data> data, Call call, Y Base::*y) {
  return {"lodtensor", [data, call] { call(*data); },
          [data, y] {
            const auto& result = (*data).*y;
            using T = std::remove_cvref_t<decltype(*result.data())>;
            return checksum_of(
                std::span<const T>(result.data(), static_cast<std::size_t>(result.rows() * result.row_size())));
          }};
}

/// One whose result is the vector y in `data`.
template <class Data, class Call, class Base, class T>
Contender contender(std::string by, std::shared_ptr<Data> data, Call call, std::vector<T> Base::*y,
                    std::string note = {}) {
  return {std::move(by),
          [data, call] { call(*data); },
          [data, y] { return checksum_of(std::span<const T>((*data).*y)); },
          {},
          std::move(note)};
}

}  // namespace benchmarks
