// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operations that are walked, and the places where they are measured.
#include "cliffs.hpp"
#include <lod/kernels/cpu/vector.hpp>
#include <lod/lod.hpp>

#include <suite/batch.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

namespace benchmarks {
namespace {

// ---- Data --------------------------------------------------------------------------------------------------------

/// Replaces random values in [-1, 1) by those that the name says.
template <class T>
void set_values(const Name& name, std::span<T> values) {
  const auto map = [values](const auto& f) {
    for (T& value : values) value = static_cast<T>(f(static_cast<float>(value)));
  };
  if constexpr (std::integral<T>) {
    // As they are, all would be 0.
    std::uint64_t bits = 1;
    for (T& value : values) value = static_cast<T>((bits = bits * 0x5851F42D4C957F2D + 1) >> 58);
  }
  if (name == "random") return;
  if (name == "zeros") return map([](float) { return 0.F; });
  if (name == "signed zeros") return map([](float x) { return std::copysign(0.F, x); });
  if (name == "equal") return map([](float) { return 3.F; });
  if (name == "after ReLU") return map([](float x) { return std::max(x, 0.F); });
  if (name == "0 to 100") return map([](float x) { return std::abs(x) * 100; });
  if (name == "-1000 or 0") return map([](float x) { return x < 0 ? -1000.F : 0.F; });
  if (name == "around 200") return map([](float x) { return x + 200; });
  if (name == "denormal") return map([](float x) { return x * std::numeric_limits<float>::min(); });
  if (name == "some infinite") {
    return map([](float x) { return x > 0.99F ? -std::numeric_limits<float>::infinity() : x; });
  }
  if (name == "some NaN") return map([](float x) { return x > 0.99F ? std::numeric_limits<float>::quiet_NaN() : x; });
  throw std::invalid_argument("no values have the name " + name);
}

/// Values of 256 KiB, which a second-level cache holds: memory would hide what computations cost.
Workload workload_at(const Place& place) {
  Workload workload;
  workload.lengths = place[1];
  workload.row_size = std::stoll(place[0]);
  workload.dtype = place[3];
  workload.size = "256KiB";
  return workload;
}

/// The shape of `rows` rows; scalar rows have no row shape.
lod::Shape shape_of(std::int64_t rows, std::int64_t row_size) {
  return row_size == 1 ? lod::Shape{rows} : lod::Shape{rows, row_size};
}

template <class T>
struct Rows : Batch<T> {
  Rows(const Place& place, int threads)
      : Batch<T>(workload_at(place), threads),
        for_each(random_tensor<T>(shape_of(this->sequences(), this->row_size()))) {
    set_values(place[2], this->x.values());
  }
  lod::LoDTensor<T> for_each;  ///< a row for each sequence
  lod::LoDTensor<T> z;
  lod::LoDTensor<std::int64_t> index;
};

/// Calls body(T{}) for the type of that name.
template <class Body>
auto with_any_dtype(const Name& name, const Body& body) {
  if (name == "int64") return body(std::int64_t{});
  if (name == "int32") return body(std::int32_t{});
  if (name == "int16") return body(std::int16_t{});
  if (name == "int8") return body(std::int8_t{});
  if (name == "uint8") return body(std::uint8_t{});
  return with_dtype(name, body);
}

/// What a call must touch.
struct Touched {
  int rows = 1;      ///< tensors with the rows of x, x among them
  int for_each = 0;  ///< tensors with a row for each sequence
  int index = 0;     ///< likewise, of 64-bit numbers
  int ids = 0;       ///< 64-bit numbers for each row
};
template <class Data, class Call>
Job job_of_rows(const std::shared_ptr<Data>& data, const Touched& touched, const Call& call) {
  constexpr std::int64_t wide = sizeof(std::int64_t);
  return {.rows = data->x.rows(),
          .sequences = data->sequences(),
          .bytes = touched.rows * data->x_bytes() + data->offset_bytes() + touched.ids * wide * data->x.rows() +
                   data->sequences() * (touched.for_each * data->row_bytes() + touched.index * wide * data->row_size()),
          .contenders = {{"lodtensor", [data, call] { call(*data); }}}};
}
template <class T, class Call>
Job job_at(const Place& place, int threads, const Touched& touched, const Call& call) {
  return job_of_rows(std::make_shared<Rows<T>>(place, threads), touched, call);
}

// ---- Places ------------------------------------------------------------------------------------------------------

const Places row_sizes = {"16", {"1", "2", "3", "4", "5", "6", "7", "8", "9", "12", "15", "16", "17", "31", "64"}};
const Places lengths_of_rows = {"u16",
                                {"1", "u2", "u4", "u8", "u16", "33", "60", "100", "u256", "1000", "one"},
                                {"empty", "empty90", "zipf11", "20 levels"}};
const Places plain_values = {"random", {}, {"zeros"}};
const Places compared_values = {"random", {}, {"zeros", "signed zeros", "equal", "after ReLU", "some NaN"}};
const Places scores = {
    "random", {}, {"zeros", "0 to 100", "around 200", "-1000 or 0", "denormal", "some infinite", "some NaN"}};
const Places all_types = {
    "float32", {}, {"float64", "int64", "int32", "float16", "bfloat16", "int16", "int8", "uint8"}};
const Places floating_types = {"float32", {}, {"float64", "float16", "bfloat16"}};
const Places only_float = {"float32"};

/// An operation on any elements.
template <class Call>
Walk any(std::string name, const Places& values, Touched touched, const Call& call) {
  return {std::move(name), {row_sizes, lengths_of_rows, values, all_types}, [=](const Place& place, int threads) {
            return with_any_dtype(place[3],
                                  [&](auto zero) { return job_at<decltype(zero)>(place, threads, touched, call); });
          }};
}
/// One on floating-point numbers.
template <class Call>
Walk floating(std::string name, const Places& values, Touched touched, const Call& call) {
  return {std::move(name), {row_sizes, lengths_of_rows, values, floating_types}, [=](const Place& place, int threads) {
            return with_dtype(place[3],
                              [&](auto zero) { return job_at<decltype(zero)>(place, threads, touched, call); });
          }};
}
/// One that is measured on floats alone: its kernels do not depend on the type.
template <class Call>
Walk of_float(std::string name, const Places& values, Touched touched, const Call& call) {
  return {std::move(name), {row_sizes, lengths_of_rows, values, only_float}, [=](const Place& place, int threads) {
            return job_at<float>(place, threads, touched, call);
          }};
}

// ---- Operations --------------------------------------------------------------------------------------------------

using lod::PoolType;

void add_pools(std::vector<Walk>& all) {
  constexpr Touched moved{.for_each = 1};
  const auto pool = [](PoolType type) {
    return [type](auto& d) { lod::sequence_pool_into(d.executor, d.x, type, d.y); };
  };
  all.push_back(any("sequence_pool SUM", plain_values, moved, pool(PoolType::SUM)));
  all.push_back(of_float("sequence_pool AVERAGE", plain_values, moved, pool(PoolType::AVERAGE)));
  all.push_back(any("sequence_pool MAX", compared_values, moved, pool(PoolType::MAX)));
  all.push_back(of_float("sequence_pool LAST", plain_values, {.rows = 0, .for_each = 2}, pool(PoolType::LAST)));
  all.push_back(of_float("sequence_max_pool", compared_values, {.for_each = 1, .index = 1},
                         [](auto& d) { lod::sequence_max_pool_into(d.executor, d.x, d.y, d.index); }));
  all.push_back(of_float("sequence_pool_grad SUM", plain_values, moved, [](auto& d) {
    lod::sequence_pool_grad_into(d.executor, d.for_each, d.lod, PoolType::SUM, {}, d.y);
  }));
  all.push_back(of_float("sequence_mean_var", plain_values, {.for_each = 2},
                         [](auto& d) { lod::sequence_mean_var_into(d.executor, d.x, d.y, d.z); }));
}

void add_softmax(std::vector<Walk>& all) {
  constexpr Touched moved{.rows = 2};
  all.push_back(
      floating("sequence_softmax", scores, moved, [](auto& d) { lod::sequence_softmax_into(d.executor, d.x, d.y); }));
  all.push_back(of_float("sequence_log_softmax", scores, moved,
                         [](auto& d) { lod::sequence_log_softmax_into(d.executor, d.x, d.y); }));
  all.push_back(of_float("sequence_softmax_grad", plain_values, {.rows = 3},
                         [](auto& d) { lod::sequence_softmax_grad_into(d.executor, d.x, d.x, d.y); }));
  all.push_back(floating("sequence_logsumexp", scores, {.for_each = 1},
                         [](auto& d) { lod::sequence_logsumexp_into(d.executor, d.x, d.y); }));
}

void add_copies(std::vector<Walk>& all) {
  all.push_back(any("sequence_expand_as", plain_values, {.for_each = 1},
                    [](auto& d) { lod::sequence_expand_as_into(d.executor, d.for_each, d.lod, d.y); }));
  all.push_back(of_float("sequence_reverse", plain_values, {.rows = 2},
                         [](auto& d) { lod::sequence_reverse_into(d.executor, d.x, d.y); }));
}

void add_arithmetic(std::vector<Walk>& all) {
  all.push_back(of_float("mul by a row for each sequence", plain_values, {.rows = 2, .for_each = 1},
                         [](auto& d) { lod::mul_into(d.executor, d.x, d.for_each, d.y); }));
  all.push_back(of_float("mul_grad by a row for each sequence", plain_values, {.rows = 3, .for_each = 2},
                         [](auto& d) { lod::mul_grad_into(d.executor, d.x, d.x, d.for_each, d.y, d.z); }));
}

void add_orders(std::vector<Walk>& all) {
  const Places scalars = {"1"};
  const Places sorted_lengths = {"100", {"8", "33", "100", "256", "257", "300", "1000", "5000"}, {"mixed", "zipf11"}};
  const Places values = {"random", {}, {"equal", "signed zeros", "some NaN"}};
  // Keys of 32 and of 64 bits, of numbers with and without NaNs.
  const Places types = {"float32", {}, {"float64", "int32", "int64"}};
  const auto add = [&](const char* name, Touched touched, const auto& call) {
    all.push_back({name, {scalars, sorted_lengths, values, types}, [=](const Place& place, int threads) {
                     if (place[3] == "float64") return job_at<double>(place, threads, touched, call);
                     if (place[3] == "int32") return job_at<std::int32_t>(place, threads, touched, call);
                     if (place[3] == "int64") return job_at<std::int64_t>(place, threads, touched, call);
                     return job_at<float>(place, threads, touched, call);
                   }});
  };
  add("sequence_sort", {.rows = 2}, [](auto& d) { lod::sequence_sort_into(d.executor, d.x, d.y); });
  add("sequence_argsort", {.ids = 1}, [](auto& d) { lod::sequence_argsort_into(d.executor, d.x, d.index); });
  add("sequence_topk", {}, [](auto& d) { lod::sequence_topk_into(d.executor, d.x, 5, d.y, d.index); });
  all.push_back(of_float("sequence_cumsum", plain_values, {.rows = 2},
                         [](auto& d) { lod::sequence_cumsum_into(d.executor, d.x, d.y); }));
}

/// Rows whose ids the values name.
struct ListedRows : Rows<float> {
  ListedRows(const Place& place, int threads)
      : Rows({place[0], place[1], "random", place[3]}, threads),
        g(ids(place[2], lod.rows(), lod.rows()), lod.rows(), random_tensor<float>(shape_of(lod.rows(), row_size()))) {}
  lod::SelectedRows<float> g, merged;
};
void add_merging(std::vector<Walk>& all) {
  const Places of_ids = {"sorted", {}, {"uniform", "reversed", "zipf", "same"}};
  all.push_back({"merge_add", {row_sizes, {"one"}, of_ids, only_float}, [](const Place& place, int threads) {
                   return job_of_rows(std::make_shared<ListedRows>(place, threads), {.rows = 2, .ids = 1},
                                      [](ListedRows& d) { lod::merge_add_into(d.executor, d.g, d.merged); });
                 }});
}

struct Tables : Rows<float> {
  Tables(const Place& place, int threads)
      : Rows(place, threads),
        height(this->x.rows() / 2 + 1),
        table(random_tensor<float>(shape_of(height, row_size()))),
        ids(lod, lod::Shape{}, lod::uninitialized),
        filter(random_tensor<float>(shape_of(3, row_size()))),
        wide_filter(random_tensor<float>(lod::Shape{3 * row_size(), 16})) {
    std::ranges::copy(benchmarks::ids("uniform", lod.rows(), height), ids.data());
  }
  std::int64_t height;
  lod::LoDTensor<float> table;
  lod::LoDTensor<std::int64_t> ids;
  lod::LoDTensor<float> filter, wide_filter;
};

/// One with a table or a filter, which are floats.
template <class Call>
Walk of_tables(std::string name, Touched touched, const Call& call) {
  return {std::move(name), {row_sizes, lengths_of_rows, {"random"}, only_float}, [=](const Place& place, int threads) {
            const auto data = std::make_shared<Tables>(place, threads);
            return job_of_rows(data, touched, call);
          }};
}

void add_tables(std::vector<Walk>& all) {
  const auto embedding = [](PoolType type) {
    return [type](Tables& d) { lod::embedding_pool_into(d.executor, d.table, d.ids, type, {}, d.y); };
  };
  all.push_back(of_tables("embedding_pool SUM", {.for_each = 1, .ids = 1}, embedding(PoolType::SUM)));
  all.push_back(of_tables("embedding_pool MAX", {.for_each = 1, .ids = 1}, embedding(PoolType::MAX)));
  all.push_back(of_tables("embedding_max_pool", {.for_each = 1, .index = 1, .ids = 1}, [](Tables& d) {
    lod::embedding_max_pool_into(d.executor, d.table, d.ids, {}, d.y, d.index);
  }));
  all.push_back(
      of_tables("row_conv", {.rows = 2}, [](Tables& d) { lod::row_conv_into(d.executor, d.x, d.filter, d.y); }));
  all.push_back(of_tables("sequence_conv", {.rows = 2},
                          [](Tables& d) { lod::sequence_conv_into(d.executor, d.x, d.wide_filter, d.y); }));
}

}  // namespace

std::vector<Walk> all_walks() {
  std::vector<Walk> walks;
  add_pools(walks);
  add_softmax(walks);
  add_copies(walks);
  add_arithmetic(walks);
  add_orders(walks);
  add_merging(walks);
  add_tables(walks);
  return walks;
}

}  // namespace benchmarks
