// SPDX-License-Identifier: Apache-2.0
/// @file
/// Every operation by its plain name, beside all that C and the standard library have: those of `Functions` below are
/// called, of the others LOD_OBJECTS are the names. Compiled without that, the program prints these names, with commas.
#include <lod/lod.hpp>

#include <stdlib.h>
#include <sys/select.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <functional>
#include <iostream>
#include <numeric>
#include <ranges>
#include <system_error>
#include <utility>
#include <vector>

using namespace lod;
using namespace std;

using Functions =
    operation::List<op::adagrad, op::adam, op::concat, op::concat_grad, op::div, op::dynamic_rnn, op::dynamic_rnn_grad,
                    op::filter, op::for_each_sequence, op::ftrl, op::linear, op::map_sequences, op::momentum,
                    op::rmsprop, op::scatter, op::select, op::sequence_concat_grad, op::sequence_conv_grad,
                    op::sequence_cumsum, op::sequence_mask, op::sequence_pool, op::sequence_positions, op::sgd,
                    op::split, op::split_at, op::split_selected_rows_grad>;

#ifdef LOD_OBJECTS

template <class... Ops>
constexpr size_t count(const operation::Call<Ops>&...) {
  return sizeof...(Ops);
}
static_assert(count(LOD_OBJECTS) + Functions::size == AllOperations::size);

template <class... Results>
void called(const Results&...) {}

void functions(LoDTensor<float>& x, LoDTensor<float>& y, const SelectedRows<float>& g) {
  const vector<LoD> lods = {x.lod(), x.lod()};
  const RankTable ranks(x.lod());
  const auto cell = [](const auto& state, const auto& step) { return pair(state, step); };
  const auto cell_grad = [](const auto&, const auto&, const auto& dstate, const auto& dstep) {
    return pair(dstate, dstep);
  };
  const auto same = [](const auto& sequence) { return sequence; };
  called(concat(x, x), concat_grad(y, lods), split(x, 2), split_at(x, {1}), select(x, {0}), filter(x, {true}));
  called(div(x, y), linear(x, y), sequence_pool(x, PoolType::SUM), sequence_cumsum(x), sequence_mask<float>({1, 2}));
  called(sequence_concat_grad(y, lods), sequence_conv_grad(y, x, y));
  called(split_selected_rows_grad(vector{g, g}));
  called(dynamic_rnn(x, ranks, y, cell), dynamic_rnn_grad(x, y, x, ranks, y, cell, cell_grad), map_sequences(x, same));
  for_each_sequence(x, 0, [](const auto&) {});
  scatter(g, ScatterOp::ADD, y);
  sgd(x, g, 0.1);
  momentum(x, y, g);
  adagrad(x, y, g);
  rmsprop(x, y, y, g);
  adam(x, y, y, g, {.step = 1});
  ftrl(x, y, y, g);
}

#else

template <class Op, class... Called>
constexpr bool is_among(operation::List<Called...>) {
  return (same_as<Op, Called> || ...);
}

int main() {
  const char* before = "";
  operation::for_each_operation(AllOperations(), [&before]<class Op>() {
    if constexpr (!is_among<Op>(Functions())) cout << exchange(before, ",") << operation::name_of<Op>;
  });
}

#endif
