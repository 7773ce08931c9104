// SPDX-License-Identifier: Apache-2.0
/// @file
/// With what the sample of an operation is called: random arguments, the same on every device, and outputs.
#pragma once

#include "support/grain.hpp"
#include "support/random_batch.hpp"
#include <lod/ops.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

namespace lod_test {

/// A batch and all else that a sample draws, on the CPU: kept, so that each call of the sample is given the same.
struct Draws {
  Draws(Engine random, const lod::LoD& lod, std::int64_t size_of_row, std::int64_t count_of_listed,
        std::int64_t rows_of_tables = 15)
      : engine(random),
        whole(lod),
        last(lod.size(0)),
        level(static_cast<int>(random_number(engine, 0, lod.levels() - 1))),
        row_size(size_of_row),
        index(lod),
        both{lod, lod},
        height(rows_of_tables) {
    for (std::int64_t i = 0; i < count_of_listed; ++i) {
      listed.push_back(i % 3 ? 2 : random_number(engine, 0, height - 1));
    }
  }
  /// The same for the middle of the batch, so that its offsets and its rows begin somewhere else.
  Draws&& middle() && {
    if (whole.size(0) > 2) {
      first = 1;
      last = whole.size(0) - 1;
      index = lod::LoDTensor<std::int64_t>(whole, {}).between(first, last).lod();
      both = {index, index};
    }
    return std::move(*this);
  }
  /// Forgets what was drawn, and lets samples call their operation in another of its forms.
  bool next_variant() {
    drawn.clear();
    form = "";
    return ++variant < variants;
  }

  Engine engine;
  lod::LoD whole;
  std::int64_t first = 0;
  std::int64_t last;  ///< the sequences of level 0 that belong to the batch
  int level;          ///< any of its levels
  std::int64_t row_size;
  lod::LoD index;                    ///< its levels
  std::vector<lod::LoD> both;        ///< those of two batches
  std::int64_t height;               ///< of tables and of row-sparse tensors
  std::vector<std::int64_t> listed;  ///< the ids of row-sparse tensors, most of which are the same
  std::int64_t most_steps = 300;     ///< the longest sequence whose steps may be a call each
  bool restores = true;              ///< whether what a call changes in place is as it was before the next one
  bool in_place = false;             ///< whether it changes something in place
  std::int64_t variant = 0;
  const char* form = "";      ///< what it is that costs more than the plain form, where the sample says so
  std::int64_t variants = 1;  ///< as the samples that were called have
  std::map<std::type_index, std::vector<std::shared_ptr<void>>> drawn;
};

/// How many kernels an operation launches, by the names of its forms, of which "" is the plain one. Beside a sample is
/// said which are more than three, and why.
using Launches = std::map<std::string, std::int64_t>;
template <class Op>
Launches launches(Op) {
  return {};
}

/// One call of a sample. `Store` has the arguments and outputs on the device: a DeviceCall, or something like it. T is
/// the type of the elements, `State` that of the states of optimizers.
template <class Store, class T, class State = T>
class Case {
 public:
  using Device = typename Store::Device;
  using Tensor = lod::LoDTensor<T, Device>;
  using Ids = lod::LoDTensor<std::int64_t, Device>;
  using Rows = lod::SelectedRows<T, Device>;

  Case(Store& in, Draws& with)
      : executor(in.executor()),
        index(with.index),
        both(with.both),
        level(with.level),
        row_size(with.row_size),
        height(with.height),
        store_(in),
        draws_(with) {}

  /// Sequences of level 0.
  std::int64_t size() const { return draws_.last - draws_.first; }
  /// Sequences of the level.
  std::int64_t sequences() const { return index.size(level); }
  /// Few enough steps that each may be a call of its own.
  bool is_short() const { return std::max(index.max_length(-1), index.max_length(level)) <= draws_.most_steps; }
  /// Which of so many forms of the operation is to be called.
  std::int64_t variant(std::int64_t count) {
    draws_.variants = std::max(draws_.variants, count);
    return draws_.variant % count;
  }
  /// Says which form it is, where that costs more than others.
  void named(const char* form) { draws_.form = form; }
  template <class X>
  X one_of(std::initializer_list<X> values) {
    return values.begin()[variant(static_cast<std::int64_t>(values.size()))];
  }

  /// Whether quotients are numbers of the type.
  static constexpr bool divides() { return lod::elements::Floating::includes<T>; }

  // Arguments. All are asked for in each call, not in a function that `given` calls.

  /// make(), drawn once.
  template <class Make>
  const auto& draw(const Make& make) {
    using X = decltype(make());
    if (giving_)
      throw std::logic_error("an argument is drawn where another one is worked out, which is done only once");
    auto& all = draws_.drawn[typeid(X)];
    std::size_t& next = next_of(typeid(X));
    if (next == all.size()) all.push_back(std::make_shared<X>(make()));
    return *static_cast<const X*>(all[next++].get());
  }
  /// What another operation gives.
  template <class Make>
  auto& given(const Make& make) {
    return store_.given([&] {
      giving_ = true;
      auto result = make();
      giving_ = false;
      return result;
    });
  }
  /// The batch.
  auto rows() {
    return of_batch(draw([&] { return numbers(lod::LoDTensor<T>(draws_.whole, {row_size})); }));
  }
  /// The same with one number a row.
  auto column() {
    return of_batch(draw([&] { return numbers(lod::LoDTensor<T>(draws_.whole, {})); }));
  }
  /// The same with repeated numbers, of which some are as great as others.
  auto ties() {
    return of_batch(draw([&] { return small_integers<T>(draws_.engine, draws_.whole, {row_size}); }));
  }
  auto column_of_ties() {
    return of_batch(draw([&] { return small_integers<T>(draws_.engine, draws_.whole, {}); }));
  }
  /// Tokens: numbers from 0 to 3.
  auto tokens() {
    return of_batch(draw([&] {
      lod::LoDTensor<T> x(draws_.whole, {});
      for (T& token : x.values()) token = static_cast<T>(random_number(draws_.engine, 0, 3));
      return x;
    }));
  }
  const std::vector<T>& two_tokens() {
    return draw([] { return std::vector<T>{T(0), T(3)}; });
  }
  /// Numbers of rows of tables.
  auto ids() { return ids_below(height); }
  auto ids_below(std::int64_t count) {
    return of_batch(draw([&] { return random_ids(draws_.engine, draws_.whole, count); }));
  }
  /// The same under levels of their own.
  auto ids_of(const lod::LoD& lod, std::int64_t count) {
    return on(draw([&] { return random_ids(draws_.engine, lod, count); }));
  }
  /// The same, as many to a row as the batch has numbers.
  auto rows_of_ids(std::int64_t count) {
    return of_batch(draw([&] { return random_ids(draws_.engine, draws_.whole, count, {row_size}); }));
  }
  /// As `ids`, with -1 among them.
  auto ids_or_none() {
    return of_batch(draw([&] {
      auto some = random_ids(draws_.engine, draws_.whole, height);
      for (std::int64_t& id : some.values()) id = id % 4 == 1 ? -1 : id;
      return some;
    }));
  }
  /// A tensor without levels, or with others than those of the batch.
  auto dense(const lod::Shape& shape) {
    return on(draw([&] { return numbers(lod::LoDTensor<T>(shape)); }));
  }
  auto scalars(const lod::LoD& lod) {
    return on(draw([&] { return numbers(lod::LoDTensor<T>(lod, {})); }));
  }
  /// Numbers between -1 and 1.
  auto weights(const lod::Shape& shape) { return tensor(shape).view(); }
  /// Numbers away from 0, so that what is divided by them and summed keeps its last bits: of the same rows as the
  /// batch, of one row, or of a row for each sequence.
  auto divisors(std::int64_t form) {
    const auto apart = [&](lod::LoDTensor<T> x) { return scaled(numbers(std::move(x)), 2, 0.25); };
    if (form == 0) return of_batch(draw([&] { return apart(lod::LoDTensor<T>(draws_.whole, {row_size})); }));
    if (form == 1) return on(draw([&] { return apart(lod::LoDTensor<T>(lod::Shape{row_size})); }));
    return on(draw([&] { return apart(lod::LoDTensor<T>(lod::Shape{sequences(), row_size})); }));
  }
  /// A row-sparse tensor with the ids `listed`; with a few others; with values near 1, whose products stay numbers.
  const Rows& sparse() {
    return on_rows(draw([&] { return sparse_here(draws_.listed, -3, 1); }));
  }
  const Rows& few_rows() {
    return on_rows(draw([&] { return sparse_here({height - 1, 3, 3, 0}, 0, 1); }));
  }
  const Rows& near_one() {
    return on_rows(draw([&] { return sparse_here(draws_.listed, 1, 0.001); }));
  }
  const auto& listed() {
    return list([&] { return draws_.listed; });
  }
  /// A list of numbers, which make() gives; of so many random ones.
  template <class Make>
  const auto& list(const Make& make) {
    const std::vector<std::int64_t>& numbers = draw([&] { return std::vector<std::int64_t>(make()); });
    if constexpr (requires { store_.list(numbers); }) {
      return store_.list(numbers);
    } else {
      return numbers;
    }
  }
  const auto& random(std::int64_t count, std::int64_t least, std::int64_t greatest) {
    return list([&] { return random_numbers(count, least, greatest); });
  }
  const std::vector<bool>& mask(std::int64_t count) {
    return draw([&] { return random_mask(draws_.engine, count); });
  }
  /// One level of so many sequences, of up to so many rows each.
  const lod::LoD& lod(std::int64_t count, std::int64_t longest) {
    return draw([&] { return lod::LoD::from_lengths({random_numbers(count, 0, longest)}); });
  }
  /// One level of these lengths.
  const lod::LoD& lod(std::initializer_list<std::int64_t> lengths) {
    return draw([&] { return lod::LoD::from_lengths({std::vector<std::int64_t>(lengths)}); });
  }
  const lod::RankTable& ranks(const lod::LoD& lod, int of_level) {
    return draw([&] { return lod::RankTable(lod, {.level = of_level}); });
  }
  /// Options of pools of looked-up rows: with a padding id; or without the ids -1, and with rows counted in sequences.
  lod::EmbeddingPoolOptions<T, Device> pool_options() {
    if (variant(3) == 0) return {.level = level};
    named("with padding");
    if (variant(3) == 1) return {.padding_idx = 3, .level = level};
    return {.skip_minus_one = true, .level = level, .row_index = lod::RowIndex::SEQUENCE};
  }
  const auto& lstm_weights() {
    if (variant(3) == 1) named("with peepholes");
    if (variant(3) == 2) named("projected");
    const auto &input = tensor({row_size, 8}), &recurrent = tensor({2, 8}), &bias = tensor({8}),
               &peepholes = tensor({variant(3) == 1 ? 6 : 0}), &projection = tensor({variant(3) == 2 ? 2 : 0, 2});
    return store_.made([&] { return lod::LstmWeights<T, Device>{input, recurrent, bias, peepholes, projection}; });
  }
  const auto& gru_weights() {
    const auto &input = tensor({row_size, 6}), &recurrent = tensor({2, 6}), &bias = tensor({6}),
               &products = tensor({2});
    return store_.made([&] { return lod::GruWeights<T, Device>{input, recurrent, bias, products}; });
  }
  /// Two layers: both directions, and backward alone, projected or with other sizes.
  const auto& lstm_layers() {
    const auto &input = tensor({row_size, 8}), &recurrent = tensor({2, 8}), &bias = tensor({8}),
               &second = tensor({4, 12}), &projected = tensor({2, 12}), &projection = tensor({3, 2});
    using Weights = lod::LstmWeights<T, Device>;
    return store_.made([&] {
      return lod::LstmLayers<T, Device>{
          {.forward = Weights{input, recurrent, bias}, .backward = Weights{input, recurrent}},
          {.backward = Weights{.input = second, .recurrent = projected, .projection = projection}}};
    });
  }
  const auto& gru_layers() {
    const auto &input = tensor({row_size, 6}), &recurrent = tensor({2, 6}), &bias = tensor({6}),
               &second = tensor({4, 6});
    using Weights = lod::GruWeights<T, Device>;
    return store_.made([&] {
      return lod::GruLayers<T, Device>{
          {.forward = Weights{input, recurrent, bias}, .backward = Weights{input, recurrent}},
          {.backward = Weights{second, recurrent}}};
    });
  }
  /// Networks that are unrolled: h = h' + x, and the output is h + x; where nothing may be worked out, what was given.
  auto cell() const {
    if constexpr (requires { typename Store::Unchanged; }) {
      return [](const auto& before, const auto& step) { return std::pair(before, step); };
    } else {
      return [&e = executor](const auto& before, const auto& step) {
        auto after = lod::add(e, before, step);
        auto output = lod::add(e, after, step);
        return std::pair(std::move(after), std::move(output));
      };
    }
  }
  auto cell_grad() const {
    if constexpr (requires { typename Store::Unchanged; }) {
      return
          [](const auto&, const auto&, const auto& dstate, const auto& doutput) { return std::pair(dstate, doutput); };
    } else {
      return [&e = executor](const auto&, const auto&, const auto& dstate, const auto& doutput) {
        auto dbefore = lod::add(e, dstate, doutput);
        auto dstep = lod::add(e, dbefore, doutput);
        return std::pair(std::move(dbefore), std::move(dstep));
      };
    }
  }

  // Outputs.

  Tensor& out() { return out_of<T>(); }
  Ids& out_ids() { return out_of<std::int64_t>(); }
  template <class U>
  lod::LoDTensor<U, Device>& out_of() {
    return store_.output([&] { return lod::LoDTensor<U, Device>(executor.resource()); });
  }
  Rows& out_rows() {
    return store_.output([&] { return Rows(executor.resource()); });
  }
  std::vector<Tensor>& outs(std::size_t count) {
    return store_.output([&] { return std::vector<Tensor>(count, Tensor(executor.resource())); });
  }
  auto& out_parts() { return out_as<std::vector<Rows>>(); }
  auto& out_steps() { return out_as<lod::TimeMajor<T, Device>>(); }
  auto& out_array() { return out_as<lod::TensorArray<T, Device>>(); }
  auto& out_lstm() { return out_as<lod::LstmWeights<T, Device>>(); }
  auto& out_gru() { return out_as<lod::GruWeights<T, Device>>(); }
  auto& out_lstm_layers() { return out_as<lod::LstmLayers<T, Device>>(); }
  auto& out_gru_layers() { return out_as<lod::GruLayers<T, Device>>(); }
  auto& lstm_trace() { return kept<lod::LstmTrace<T, Device>>(); }
  auto& gru_trace() { return kept<lod::GruTrace<T, Device>>(); }
  auto& stacked_lstm_trace() { return kept<lod::StackedLstmTrace<T, Device>>(); }
  auto& stacked_gru_trace() { return kept<lod::StackedGruTrace<T, Device>>(); }
  /// What is changed in place: a dense tensor as row-sparse ones are, and states of it, which begin as zeros.
  Tensor& parameter() {
    return changed<T>(draw([&] { return numbers(lod::LoDTensor<T>(lod::Shape{height, row_size})); }));
  }
  lod::LoDTensor<State, Device>& state() {
    return changed<State>(draw([&] {
                            return std::pair(lod::LoDTensor<State>(lod::Shape{height, row_size}), 0);
                          }).first);
  }
  /// A copy of x that is changed in place.
  template <class X>
  Tensor& copy(const X& x) {
    draws_.in_place = true;
    Tensor& y = out();
    if (draws_.restores || y.rows() == 0) lod::lod_reset_into(executor, x, index, y);
    return y;
  }

  const typename Store::Executor& executor;
  const lod::LoD& index;  ///< the levels of the batch
  const std::vector<lod::LoD>& both;
  int level;  ///< any of them
  std::int64_t row_size;
  std::int64_t height;  ///< rows of tables

 private:
  /// How many of this type were drawn in this call; without memory of its own, so that what allocates is the operation.
  std::size_t& next_of(const std::type_info& type) {
    for (auto& each : next_) {
      if (!each.first) each.first = &type;
      if (*each.first == type) return each.second;
    }
    throw std::logic_error("a sample draws things of too many types");
  }
  template <class X>
  X& out_as() {
    return store_.output([] { return X(); });
  }
  template <class X>
  X& kept() {
    return store_.made([] { return X(); });
  }
  lod::LoDTensor<T> numbers(lod::LoDTensor<T> x) {
    if constexpr (lod::elements::Floating::includes<T>) {
      fill_real(draws_.engine, x);
    } else {
      for (T& number : x.values()) number = static_cast<T>(random_number(draws_.engine, 1, 5));
    }
    return x;
  }
  static lod::LoDTensor<T> scaled(lod::LoDTensor<T> x, double from, double by) {
    if constexpr (lod::elements::Floating::includes<T>) {
      for (T& number : x.values()) number = static_cast<T>(from + by * static_cast<double>(number));
    }
    return x;
  }
  lod::SelectedRows<T> sparse_here(const std::vector<std::int64_t>& ids, double from, double by) {
    const auto count = static_cast<std::int64_t>(ids.size());
    return {ids, height, scaled(numbers(lod::LoDTensor<T>(lod::Shape{count, row_size})), from, by)};
  }
  std::vector<std::int64_t> random_numbers(std::int64_t count, std::int64_t least, std::int64_t greatest) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(random_number(draws_.engine, least, greatest));
    return all;
  }
  const Tensor& tensor(const lod::Shape& shape) {
    return store_.on(draw([&] { return scaled(numbers(lod::LoDTensor<T>(shape)), 0, 0.25); }));
  }
  template <class U>
  auto on(const lod::LoDTensor<U>& x) {
    return std::as_const(store_.on(x)).view();
  }
  const Rows& on_rows(const lod::SelectedRows<T>& g) { return store_.on(g); }
  template <class U>
  auto of_batch(const lod::LoDTensor<U>& x) {
    const auto all = on(x);
    return size() == draws_.whole.size(0) ? all : all.between(draws_.first, draws_.last);
  }
  template <class U>
  lod::LoDTensor<U, Device>& changed(const lod::LoDTensor<U>& x) {
    draws_.in_place = true;
    const auto before = on(x);
    auto& y = out_of<U>();
    if (draws_.restores || y.rows() == 0) lod::lod_reset_into(executor, before, lod::LoD(), y);
    return y;
  }

  Store& store_;
  Draws& draws_;
  std::array<std::pair<const std::type_info*, std::size_t>, 16> next_{};
  bool giving_ = false;
};

/// Calls the sample of an operation in each of its forms, as call(run), where run(store) calls it with elements of type
/// T on the device of a store.
template <class Op, class T, class State = T, class Call>
void for_each_variant(Draws draws, const Call& call) {
  do {
    call(draws, [&]<class Store>(Store& store) {
      Case<Store, T, State> with(store, draws);
      sample(Op(), with);
    });
  } while (draws.next_variant());
}

}  // namespace lod_test
