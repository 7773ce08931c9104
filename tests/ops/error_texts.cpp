// SPDX-License-Identifier: Apache-2.0
#include "support/every_output.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <string>
#include <vector>

using lod::Shape;
using namespace lod_test;

namespace {

constexpr std::int64_t too_many = std::numeric_limits<std::int64_t>::max() / 2;

/// The text of what call() throws begins with the name of the operation, and says what is too much.
template <class Call>
void names_itself(const std::string& name, const Call& call) {
  CAPTURE(name);
  try {
    call();
    FAIL_CHECK("nothing thrown");
  } catch (const std::bad_alloc&) {
    FAIL_CHECK("memory was asked for");
  } catch (const std::exception& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(text.rfind(name + ":", 0) == 0);
  }
}

}  // namespace

TEST_CASE("the error of an operation that is given a level that there is not begins with its name") {
  const LoD index = LoD::from_lengths({{2, 0, 1}, {2, 0, 3}});
  const auto x = numbered(LoDTensor<float>(index, {3})), column = numbered(LoDTensor<float>(index, {}));
  const auto rows = numbered(LoDTensor<float>(Shape{3, 3}));
  const auto ids = LoDTensor<std::int64_t>(index, {});
  const auto table = numbered(LoDTensor<float>(Shape{7, 3}));
  const LoDTensor<std::int64_t> places(Shape{3, 3});
  for (const int level : {2, -3, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    names_itself("add", [&] { static_cast<void>(lod::add(x, rows, {.level = level})); });
    names_itself("mul_grad", [&] { static_cast<void>(lod::mul_grad(x, x, rows, {.level = level})); });
    names_itself("remove_level", [&] { static_cast<void>(lod::remove_level(x, level)); });
    names_itself("flatten", [&] { static_cast<void>(lod::flatten(x, {.level = level})); });
    names_itself("remove_empty", [&] { static_cast<void>(lod::remove_empty(x, {.level = level})); });
    names_itself("for_each_sequence", [&] { lod::for_each_sequence(x, level, [](const auto&) {}); });
    names_itself("split_lod_tensor", [&] { static_cast<void>(lod::split_lod_tensor(x, {true}, {.level = level})); });
    names_itself("RankTable", [&] { static_cast<void>(RankTable(index, {.level = level})); });
    names_itself("sequence_pool", [&] { static_cast<void>(lod::sequence_pool(x, PoolType::SUM, {.level = level})); });
    names_itself("sequence_first_step", [&] { static_cast<void>(lod::sequence_first_step(x, {.level = level})); });
    names_itself("sequence_max_pool", [&] { static_cast<void>(lod::sequence_max_pool(x, {.level = level})); });
    names_itself("sequence_pool_grad",
                 [&] { static_cast<void>(lod::sequence_pool_grad(rows, index, PoolType::SUM, {.level = level})); });
    names_itself("sequence_min_pool_grad",
                 [&] { static_cast<void>(lod::sequence_min_pool_grad(rows, places, index, {.level = level})); });
    names_itself("sequence_softmax", [&] { static_cast<void>(lod::sequence_softmax(x, {.level = level})); });
    names_itself("sequence_log_softmax_grad",
                 [&] { static_cast<void>(lod::sequence_log_softmax_grad(x, x, {.level = level})); });
    names_itself("sequence_logsumexp", [&] { static_cast<void>(lod::sequence_logsumexp(x, {.level = level})); });
    names_itself("sequence_logsumexp_grad",
                 [&] { static_cast<void>(lod::sequence_logsumexp_grad(rows, x, {.level = level})); });
    names_itself("sequence_cumsum", [&] { static_cast<void>(lod::sequence_cumsum(x, {.level = level})); });
    names_itself("sequence_reverse", [&] { static_cast<void>(lod::sequence_reverse(x, {.level = level})); });
    names_itself("sequence_sort", [&] { static_cast<void>(lod::sequence_sort(column, {.level = level})); });
    names_itself("sequence_argsort", [&] { static_cast<void>(lod::sequence_argsort(column, {.level = level})); });
    names_itself("sequence_topk", [&] { static_cast<void>(lod::sequence_topk(column, 1, {.level = level})); });
    names_itself("sequence_pad", [&] { static_cast<void>(lod::sequence_pad(x, {.level = level})); });
    names_itself("sequence_pad_grad",
                 [&] { static_cast<void>(lod::sequence_pad_grad(rows, index, {.level = level})); });
    names_itself("sequence_enumerate",
                 [&] { static_cast<void>(lod::sequence_enumerate(column, 2, {.level = level})); });
    names_itself("sequence_expand", [&] { static_cast<void>(lod::sequence_expand(x, index, {.ref_level = level})); });
    names_itself("row_conv", [&] { static_cast<void>(lod::row_conv(x, rows, {.level = level})); });
    names_itself("sequence_conv", [&] { static_cast<void>(lod::sequence_conv(x, table, {.level = level})); });
    names_itself("edit_distance", [&] { static_cast<void>(lod::edit_distance(ids, ids, {.level = level})); });
    names_itself("sequence_scatter",
                 [&] { static_cast<void>(lod::sequence_scatter(table, ids, column, {.level = level})); });
    names_itself("embedding_pool",
                 [&] { static_cast<void>(lod::embedding_pool(table, ids, PoolType::SUM, {.level = level})); });
    names_itself("embedding_max_pool",
                 [&] { static_cast<void>(lod::embedding_max_pool(table, ids, {.level = level})); });
  }
}

TEST_CASE("the error of a gradient or of another form that is one operation under its own name begins with that") {
  const LoD index = LoD::from_lengths({{2, 0, 1}}), two = LoD::from_lengths({{1, 2}});
  const auto plain = numbered(LoDTensor<float>(Shape{3, 3})), x = numbered(LoDTensor<float>(two, {3}));
  const LoDTensor<std::int64_t> ids(index, {}), places(Shape{2, 3});
  const lod::RankTable table(index);
  const lod::CpuExecutor executor(1);
  LoDTensor<float> y, z;
  SelectedRows<float> g;
  lod::TensorArray<float> array;
  names_itself("sequence_cumsum_grad", [&] { static_cast<void>(lod::sequence_cumsum_grad(plain)); });
  names_itself("sequence_reverse_grad", [&] { static_cast<void>(lod::sequence_reverse_grad(plain)); });
  const auto filter = numbered(LoDTensor<float>(Shape{9, 3})), padding = numbered(LoDTensor<float>(Shape{5, 3}));
  names_itself("sequence_conv_grad", [&] {
    static_cast<void>(
        lod::sequence_conv_grad(x, x, filter, {.context_length = 3, .context_start = -1, .padding = padding}));
  });
  names_itself("sequence_reverse_grad", [&] { lod::sequence_reverse_grad_into(executor, plain, y); });
  names_itself("split_grad", [&] { static_cast<void>(lod::split_grad(std::vector<LoDTensor<float>>{x, plain})); });
  names_itself("split_grad", [&] { lod::split_grad_into(executor, std::vector<LoDTensor<float>>(), y); });
  names_itself("split_lod_tensor_grad", [&] { lod::split_lod_tensor_grad_into(executor, x, x, {true}, y); });
  names_itself("merge_lod_tensor_grad", [&] { lod::merge_lod_tensor_grad_into(executor, x, {true}, y, z); });
  names_itself("split_lod_tensor_grad", [&] { static_cast<void>(lod::split_lod_tensor_grad(x, x, {true})); });
  names_itself("merge_lod_tensor_grad", [&] { static_cast<void>(lod::merge_lod_tensor_grad(x, {true})); });
  names_itself("to_dense_grad", [&] { static_cast<void>(lod::to_dense_grad(plain, {3})); });
  names_itself("to_dense_grad", [&] { lod::to_dense_grad_into(executor, plain, {-1}, g); });
  names_itself("lod_append_grad", [&] { static_cast<void>(lod::lod_append_grad(plain, LoD::from_lengths({{4}}))); });
  names_itself("lod_tensor_to_array_grad", [&] { static_cast<void>(lod::lod_tensor_to_array_grad(array, table)); });
  names_itself("lod_tensor_to_array_grad", [&] { lod::lod_tensor_to_array_grad_into(executor, array, table, y); });
  names_itself("array_to_lod_tensor_grad", [&] { static_cast<void>(lod::array_to_lod_tensor_grad(x, table)); });
  names_itself("array_to_lod_tensor_grad", [&] { lod::array_to_lod_tensor_grad_into(executor, x, table, array); });
  names_itself("from_time_major_grad", [&] { static_cast<void>(lod::from_time_major_grad(x, table)); });
  names_itself("shrink_rnn_memory", [&] { static_cast<void>(lod::shrink_rnn_memory(plain, table, -1)); });
  names_itself("shrink_rnn_memory_grad",
               [&] { static_cast<void>(lod::shrink_rnn_memory_grad(plain, plain.lod(), table, -1)); });
  names_itself("embedding_min_pool_grad: index",
               [&] { static_cast<void>(lod::embedding_min_pool_grad(plain, places, ids, 1)); });
  names_itself("embedding_min_pool_grad: dy",
               [&] { static_cast<void>(lod::embedding_min_pool_grad(x.between(0, 1), places, ids, 1)); });
  names_itself("embedding_max_pool_grad: index",
               [&] { static_cast<void>(lod::embedding_max_pool_grad(plain, places, ids, 1)); });
  names_itself("lod_from_row_ids", [&] { static_cast<void>(lod::lod_from_row_ids({2, 1})); });
}

TEST_CASE("the error of an operation whose result has more than memory can hold begins with its name") {
  const LoD index = LoD::from_lengths({{2, 0, 1}, {2, 0, 3}});
  const auto x = numbered(LoDTensor<float>(index, {3})), column = numbered(LoDTensor<float>(index, {}));
  names_itself("sequence_pad", [&] { static_cast<void>(lod::sequence_pad(x, {.padded_length = too_many})); });
  names_itself("sequence_pad", [&] { static_cast<void>(lod::sequence_pad(x, {.padded_length = too_many / 6})); });
  names_itself("sequence_unpad_grad", [&] { static_cast<void>(lod::sequence_unpad_grad(x, {2, 0, 3}, too_many)); });
  names_itself("sequence_unpad_grad", [&] { static_cast<void>(lod::sequence_unpad_grad(x, {2, 0, 3}, -1)); });
  names_itself("sequence_mask", [&] { static_cast<void>(lod::sequence_mask({1, 2}, {.max_length = too_many})); });
  names_itself("sequence_mask", [&] { static_cast<void>(lod::sequence_mask({1, too_many})); });
  names_itself("sequence_enumerate", [&] { static_cast<void>(lod::sequence_enumerate(column, too_many)); });
  names_itself("sequence_reshape_grad",
               [&] { static_cast<void>(lod::sequence_reshape_grad(x, index, Shape{too_many / 4})); });
  names_itself("im2sequence", [&] {
    static_cast<void>(lod::im2sequence(LoDTensor<float>(Shape{2, 3, 3, 3}),
                                       {.kernels = {1, 1}, .paddings = {std::int64_t{1} << 40, 0, 0, 1 << 30}}));
  });
  names_itself("im2sequence", [&] {
    static_cast<void>(lod::im2sequence(LoDTensor<float>(Shape{0, 3, 3, 3}),
                                       {.kernels = {std::int64_t{1} << 48, std::int64_t{1} << 48}}));
  });
  const SelectedRows<float> g({1}, too_many, {3});
  names_itself("to_dense", [&] { static_cast<void>(lod::to_dense(g)); });
  const LoD many = LoD::from_lengths({{too_many}});
  const LoDTensor<float> no_values(many, {0});
  names_itself("sequence_expand",
               [&] { static_cast<void>(lod::sequence_expand(no_values, LoD::from_lengths({{5}}))); });
  names_itself("concat", [&] { static_cast<void>(lod::concat(no_values, no_values, no_values)); });
  names_itself("sequence_concat", [&] { static_cast<void>(lod::sequence_concat(no_values, no_values, no_values)); });
  names_itself("select", [&] { static_cast<void>(lod::select(no_values, {0, 0, 0})); });
  names_itself("sequence_topk_avg_pooling", [&] {
    static_cast<void>(lod::sequence_topk_avg_pooling(LoDTensor<float>(LoD::from_lengths({{0}}), {}),
                                                     LoD::from_lengths({{0}}), LoD::from_lengths({{0}}), {1, 2, 3, 4},
                                                     too_many));
  });
  // Rows without elements, of which some operations list each.
  names_itself("transpose_levels", [&] { static_cast<void>(lod::transpose_levels(no_values)); });
  names_itself("transpose_levels_grad",
               [&] { static_cast<void>(lod::transpose_levels_grad(no_values, no_values.lod())); });
  const LoDTensor<float> no_images(Shape{too_many, 1, 0, 0});
  names_itself("im2sequence", [&] { static_cast<void>(lod::im2sequence(no_images, {.kernels = {1, 1}})); });
  names_itself("im2sequence_grad", [&] {
    static_cast<void>(lod::im2sequence_grad(LoDTensor<float>(Shape{0, 1}), no_images, {.kernels = {1, 1}}));
  });
  const LoDTensor<float> wide(Shape{0, too_many});
  names_itself("embedding", [&] { static_cast<void>(lod::embedding(wide, LoDTensor<std::int64_t>(Shape{0, 8}))); });
}

TEST_CASE("the error about an output says which output of which operation it is") {
  const LoD index = LoD::from_lengths({{2, 0, 1}, {2, 0, 3}});
  const auto x = numbered(LoDTensor<float>(index, {3}));
  std::vector<float> memory(2);
  const lod::CpuExecutor executor(1);
  LoDTensor<float> small = LoDTensor<float>::wrap(memory, LoD(), {});
  LoDTensor<std::int64_t> lengths;
  names_itself("sequence_pad: dense", [&] { lod::sequence_pad_into(executor, x, small, lengths); });
  names_itself("sequence_max_pool: values", [&] { lod::sequence_max_pool_into(executor, x, small, lengths); });
  names_itself("sequence_reverse: the output", [&] { lod::sequence_reverse_into(executor, x, small); });
  names_itself("sequence_reverse: the output", [&] { lod::sequence_reverse_into(executor, x, small.view()); });
  LoDTensor<float> other;
  names_itself("add_grad: dy", [&] { lod::add_grad_into(executor, x, x, x, other, small); });
  names_itself("select: the output overlaps x, expected memory of its own", [&] {
    LoDTensor<float> same = x;
    try {
      lod::select_into(executor, same, {2, 1, 0}, same);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(std::string(error.what()) + ":");
    }
  });
}
