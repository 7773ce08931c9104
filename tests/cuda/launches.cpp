// SPDX-License-Identifier: Apache-2.0
/// @file
/// How many kernels operations launch: of short sequences, and of a giant among them. A sort and a scan are one each
/// here; on a GPU a sort is as many as its passes, and a scan is two. What the CPU has worked out is copied beside
/// them, and is no part of graphs.
#include "catalogue/catalogue.hpp"
#include "support/check_on_gpu.hpp"
#include "support/random_batch.hpp"
#include "support/register_cases.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#ifdef LOD_TEST_EMULATED_GPU

namespace {

using namespace lod_test;

/// What holds for operations, but for those below.
constexpr std::int64_t most_launches = 3;

struct MoreLaunches {
  std::vector<std::string> operations;
  std::int64_t launches;
  const char* why;
};
const MoreLaunches more_launches[] = {
    {{"merge_add", "merge_average", "to_dense", "scatter", "sgd", "momentum", "adagrad", "rmsprop", "adam", "ftrl",
      "sgd, EXACT", "adagrad, EXACT"},
     5,
     "rows are listed, sorted and grouped; nobody knows how long the longest group is, so there are leaves to be "
     "joined"},
    {{"momentum, EXACT", "rmsprop, EXACT", "adam, EXACT", "ftrl, EXACT"},
     6,
     "the same, and the rows that are not listed, by a search among those that are"},
    {{"add, row-sparse", "clip"}, 6, "a copy and a scatter; merge_add and the cutting of what it gave"},
    {{"embedding_max_pool_grad", "embedding_min_pool_grad"}, 5, "as merge_add"},
    {{"embedding_pool_grad"}, 6, "as merge_add; for AVERAGE and SQRT gradients are divided before"},
    {{"merge_add_grad"}, 6, "ids listed, copied, sorted and grouped; the group of each, and what it has"},
    {{"merge_average_grad"}, 7, "the same, and the division"},
    {{"scatter_grad"}, 6, "a copy of dy and of ids; rows are listed, sorted and grouped, and gone through backwards"},
    {{"clip_grad"}, 9, "merge_add, its gradient, a copy of the ids; the group of each, and what it has"},
    {{"clip_by_norm"}, 9, "merge_add; all as one sequence, whose sum is there before a row is made shorter"},
    {{"clip_by_norm_grad"}, 14, "both of these, and another sum"},
    {{"split_selected_rows"}, 6, "ids and values of each part: here there are three"},
    {{"split_selected_rows_grad"}, 4, "the values of each part, and the ids of all"},
    {{"unique_sequences_and_wait"},
     11,
     "sequences are numbered, sorted, compared and counted, and may be giants whose leaves are joined; three outputs"},
    {{"sequence_logsumexp_grad"}, 4, "a softmax, whose leaves may be joined before they are written, times dy"},
    {{"embedding_pool, with padding", "embedding_max_pool, with padding", "embedding_min_pool, with padding"},
     7,
     "ids that are no padding are counted and moved together, and sequences become shorter"},
    {{"embedding_pool_grad, with padding", "embedding_max_pool_grad, with padding",
      "embedding_min_pool_grad, with padding", "embedding_pool_weights_grad, with padding"},
     9,
     "the same, before what the gradient does"},
    {{"sequence_sort, with an index"}, 4, "the index is copied, too"},
    {{"sequence_topk, counted in sequences"}, 4, "rows of the batch, and where their sequences begin"},
    {{"for_each_sequence"}, 92, "what the user does for each sequence: as many as are not empty"},
    {{"merge_add, of two"}, 6, "a copy of the ids and of the values of each, and as merge_add"},
    {{"embedding_pool_weights_grad"},
     4,
     "for MAX and MIN: the ids checked, the pool with its leaves joined, the weights"},
    {{"sub_grad", "mul_grad"}, 4, "dx; the terms of dy, or their sign; their sums, with leaves joined"},
    {{"div_grad"}, 5, "dx; the terms of dy in two steps that round; their sums, with leaves joined"},
    {{"row_conv_grad"},
     5,
     "dx; the rows of the filter need to know where sequences end, and sum all rows as one sequence"},
    {{"cross_entropy, mean"}, 12, "losses; their sums and those of rows that count, of sequences and then of all"},
    {{"cross_entropy_grad, mean"}, 9, "the latter, spread over rows; the gradient"},
    {{"linear_grad"}, 5, "two products; the sums of dy, which may be a giant whose leaves are joined"},
    {{"linear_chain_crf_grad"}, 4, "shares of all paths; their products summed over all rows as one sequence"},
    {{"sequence_conv_grad"}, 8, "three gradients: each a product, of rows whose sequences are found, or of sums"},
    {{"sequence_scatter"}, 5, "the ids checked, x copied, updates listed, sorted and added"},
    {{"sequence_topk_avg_pooling"}, 5, "numbers are listed and sorted; one for each k: here there are three"},
    {{"sequence_topk_avg_pooling_grad"}, 7, "the same, after zeros, and where each number goes"},
    {{"lod_tensor_to_array", "array_to_lod_tensor_grad"}, 4, "one for each step: here there are four"},
    {{"lstm", "lstm, with peepholes"},
     18,
     "one product for all rows; for each step, here four, a product and the cells; first and last states, in the order "
     "of the ranks"},
    {{"gru"}, 15, "the same"},
    {{"gru, reset before"}, 23, "the same, but for two products in each step, and a half of the cells after each"},
    {{"lstm_grad", "gru_grad"}, 21, "the same backwards, and the gradients by the weights"},
    {{"lstm_grad, with peepholes"}, 22, "the same, and the sums by the peepholes"},
    {{"gru_grad, reset before"}, 30, "the same, in halves of steps, and one more product by the weights"},
    {{"lstm_cell", "lstm_cell, with peepholes", "gru_cell"}, 4, "the bias, two products, the cells"},
    {{"gru_cell, reset before"}, 6, "the same, but for three products, and the cells in halves"},
    {{"lstm_cell_grad"},
     12,
     "the states' gradients copied, the weights transposed, the cells; four products; the sums by the bias"},
    {{"lstm_cell_grad, with peepholes", "gru_cell_grad"}, 14, "the same, and the sums by peepholes or another bias"},
    {{"gru_cell_grad, reset before"}, 18, "the same, but for six products, and the cells in halves"},
    {{"dynamic_rnn"}, 16, "what the user does for each step, and where its rows come from and go"},
    {{"dynamic_rnn_grad"}, 34, "the same forwards, and backwards"},
};

/// Short sequences of rows of one number and of eight; a giant among them; several levels. Many ids are listed, once
/// more than a block takes.
std::vector<Draws> counted_batches() {
  Engine engine(64);
  const lod::LoD flat = giant_among_short(engine, 100, 20),
                 giant = giant_among_short(engine, 100, 257 * lod::kernel::leaf_rows),
                 nested = lod::LoD::from_lengths({{2, 0, 3, 1}, {3, 1, 0, 2, 4, 1}});
  std::vector<Draws> all = {Draws(engine, flat, 1, 1000, 900), Draws(engine, flat, 8, 1000, 900),
                            Draws(engine, giant, 1, 2 * lod::kernel::chunk_rows(1), 900),
                            Draws(engine, nested, 3, 1000, 900)};
  for (Draws& draws : all) {
    draws.level = draws.index.levels() - 1;
    draws.most_steps = 4;
    draws.restores = false;
  }
  return all;
}

/// Whether it is what is said above of this form of an operation.
bool launches_allowed(const std::string& form, std::int64_t launches) {
  CAPTURE(launches);
  for (const MoreLaunches& those : more_launches) {
    if (std::ranges::find(those.operations, form) != those.operations.end()) return launches == those.launches;
  }
  return launches <= most_launches;
}

struct FewLaunches {
  static constexpr const char* name = "on a GPU, three launches at most, but where it is said why";
  template <class Op>
  static constexpr bool holds_for = !lod::on_cpu_only<Op>;
  template <class Op>
  static void check() {
    const lod::CudaExecutor executor;
    std::map<std::string, std::int64_t> found;
    for (const Draws& draws : counted_batches()) {
      for_each_variant<Op, ElementOf<Op>>(draws, [&](Draws& drawn, const auto& run) {
        DeviceCall<lod::CudaExecutor> call(executor);
        const std::int64_t launches = launches_of(executor, [&] { call.make(run); });
        const std::string form = *drawn.form ? std::string(", ") + drawn.form : "";
        std::int64_t& most = found[std::string(lod::operation::name_of<Op>) + form];
        most = std::max(most, launches);
      });
    }
    for (const MoreLaunches& those : more_launches) {
      for (const std::string& form : those.operations) {
        CAPTURE(form);
        if (form.substr(0, form.find(',')) == lod::operation::name_of<Op>) CHECK(found.contains(form));
      }
    }
    for (const auto& each : found) {
      const std::string& form = each.first;
      const std::int64_t launches = each.second;
      CAPTURE(form);
      CHECK(launches_allowed(form, launches));
    }
  }
};
[[maybe_unused]] const bool registered_few_launches = register_cases<FewLaunches>(__FILE__, __LINE__);

}  // namespace

#endif
