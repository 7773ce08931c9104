// SPDX-License-Identifier: Apache-2.0
/// @file
/// The two loops of all optimizers in bulk: over dense tensors, and over the rows of row-sparse gradients.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/lane.hpp>
#include <lod/kernels/bulk/merge_rows.hpp>
#include <lod/kernels/careful_update.hpp>
#include <lod/kernels/partition_point.hpp>
#include <lod/ops/optimizers.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// The states of a parameter. Bodies cannot call the functions of std::array.
template <class S, std::size_t n>
struct States {
  S* data[n > 0 ? n : 1]{};

  explicit States(const std::array<S*, n>& states) noexcept { std::copy(states.begin(), states.end(), data); }
};

/// `after`, or what the rule gives in unbounded arithmetic, where that is finite. Takes copies, as finish_carefully
/// does, and is not inlined: few threads ever come here.
template <class T, class S, class Rule, class A, std::size_t... k>
LOD_NOINLINE LOD_HOST_DEVICE UpdatedNumbers<A, sizeof...(k)> updated_carefully(Rule rule,
                                                                               UpdatedNumbers<A, sizeof...(k)> before,
                                                                               UpdatedNumbers<A, sizeof...(k)> after,
                                                                               std::index_sequence<k...> states) {
  return update_carefully<T, S>(rule, before, states) ? before : after;
}
/// Applies the rule to one number of a parameter and of its states.
template <class T, class S, class Rule, class A, std::size_t... k>
LOD_HOST_DEVICE UpdatedNumbers<A, sizeof...(k)> updated(const Rule& rule, const UpdatedNumbers<A, sizeof...(k)>& before,
                                                        std::index_sequence<k...> states) {
  Lane<A> parameter(before.parameter);
  [[maybe_unused]] Lane<A> numbers[sizeof...(k) + 1] = {Lane<A>(before.states[k])..., Lane<A>(A{})};
  rule(parameter, numbers[k]..., Lane<A>(before.gradient));
  const bool stay_finite = std::fabs(parameter.number) <= static_cast<A>(greatest_rounded<T>) &&
                           (true && ... && (std::fabs(numbers[k].number) <= static_cast<A>(greatest_rounded<S>)));
  UpdatedNumbers<A, sizeof...(k)> after = before;
  after.parameter = parameter.number;
  ((after.states[k] = numbers[k].number), ...);
  if (stay_finite && !loses_digits(rule, after)) return after;
  const Rule own_rule = rule;  // as finish_sum copies
  const UpdatedNumbers<A, sizeof...(k)> from = before, otherwise = after;
  return updated_carefully<T, S>(own_rule, from, otherwise, states);
}

/// Applies the rule to `count` numbers from `at` on.
template <std::size_t count, class Rule, class T, class S, std::size_t... k>
LOD_HOST_DEVICE void update(const Rule& rule, T* parameter, [[maybe_unused]] const States<S, sizeof...(k)>& states,
                            const Few<T, count>& gradients, std::int64_t at, std::index_sequence<k...>) {
  using A = Accumulator<T>;
  Few<T, count> parameters = read_few<count>(parameter + at);
  [[maybe_unused]] Few<S, count> all[sizeof...(k) + 1] = {read_few<count>(states.data[k] + at)..., Few<S, count>{}};
  for (std::size_t n = 0; n < count; ++n) {
    UpdatedNumbers<A, sizeof...(k)> numbers{};
    numbers.parameter = static_cast<A>(parameters.number[n]);
    ((numbers.states[k] = static_cast<A>(all[k].number[n])), ...);
    numbers.gradient = static_cast<A>(gradients.number[n]);
    numbers = updated<T, S>(rule, numbers, std::make_index_sequence<sizeof...(k)>());
    parameters.number[n] = static_cast<T>(numbers.parameter);
    ((all[k].number[n] = static_cast<S>(numbers.states[k])), ...);
  }
  write_few(parameter + at, parameters);
  (write_few(states.data[k] + at, all[k]), ...);
}

/// Applies the rule to the sums of a group.
template <std::size_t count, class Rule, class T, class S>
struct UpdateGroup {
  Rule rule;
  T* parameter;
  States<S, Rule::states> states;
  Segments groups;
  const std::int64_t* to;
  std::int64_t row_size;

  static constexpr bool is_corrected = true;
  LOD_HOST_DEVICE void operator()(std::int64_t group, std::int64_t column,
                                  const Few<Accumulator<T>, count>& sums) const {
    if (groups.length(group) == 0) return;
    const std::int64_t at = to[group] * row_size + column * static_cast<std::int64_t>(count);
    update(rule, parameter, states, converted<T>(sums), at, std::make_index_sequence<Rule::states>());
  }
};

template <>
struct Kernel<Update> {
  template <class E, class Rule, class T, class S>
  static void run(const E& executor, const Rule& rule, T* parameter, const std::array<S*, Rule::states>& states,
                  const T* gradient, std::int64_t count) {
    const States<S, Rule::states> all(states);
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) {
      update(rule, parameter, all, read_few<1>(gradient + at), at, std::make_index_sequence<Rule::states>());
    });
  }
};

template <>
struct Kernel<UpdateRows> {
  template <class E, class Rule, class T, class S>
  static void run(const E& executor, const Rule& rule, T* parameter, const std::array<S*, Rule::states>& states,
                  const NumberedRows<T>& rows, const std::int64_t* order, const Segments& groups,
                  const std::int64_t* to, std::int64_t height, std::int64_t row_size, bool listed_only) {
    const States<S, Rule::states> all(states);
    const auto of_columns = [&]<std::size_t count>() {
      sum_groups<count, Accumulator<T>>(executor, rows, order, groups, row_size,
                                        UpdateGroup<count, Rule, T, S>{rule, parameter, all, groups, to, row_size});
    };
    if constexpr (sizeof(S) == sizeof(T)) {
      std::apply([&](const auto*... state) { with_count(of_columns, row_size, parameter, state...); }, states);
    } else {  // states and parameter differ in size: one number at a time
      of_columns.template operator()<1>();
    }
    if (listed_only) return;

    for_each(executor, height * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t row = at / row_size;
      const std::int64_t listed =  // the first listed row that is not before this one
          partition_point<std::int64_t>(0, groups.size, [=](std::int64_t k) { return to[k] < row; });
      if (listed < groups.size && to[listed] == row) return;
      update(rule, parameter, all, Few<T, 1>{}, at, std::make_index_sequence<Rule::states>());
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk
