// SPDX-License-Identifier: Apache-2.0
/// @file
/// What users of the compiled libraries do: each operation called for each type of elements that these have. That such
/// a program links says that nothing is missing there.
#pragma once

#include "catalogue/catalogue.hpp"
#include "support/device_call.hpp"

#include <concepts>
#include <cstdint>

namespace lod_test {

inline Draws small_batch() { return Draws(Engine(1), lod::LoD::from_lengths({{2, 0, 1}, {2, 0, 3}}), 3, 5); }

/// Calls each operation that there is for T where the executor works, in each of its forms.
template <class T, lod::Executor E>
void call_every_operation_for(const E& executor) {
  const auto call = [&]<class Op, class State>(Op, State) {
    for_each_variant<Op, T, State>(small_batch(), [&](Draws&, const auto& run) {
      DeviceCall<E> on(executor);
      on.make(run);
    });
  };
  lod::operation::for_each_operation(lod::AllOperations(), [&]<class Op>() {
    if constexpr (Op::template includes<T> && (std::same_as<typename E::device, lod::Cpu> || !lod::on_cpu_only<Op>)) {
      call(Op(), T{});
      if constexpr (sizeof(T) == 2 && has_states<Op>) call(Op(), float{});
    }
  });
  using Sum = lod::kernel::Accumulator<T>;
  if constexpr (lod::kernel::has_wide_sums<T, Sum>) {
    DeviceCall<E> on(executor);
    const lod::LoDTensor<T> x(small_batch().index, {3});
    static_cast<void>(lod::sequence_pool<Sum>(executor, on.on(x), lod::PoolType::SUM));
    static_cast<void>(lod::sequence_cumsum<Sum>(executor, on.on(x)));
  }
}

/// For all types of elements of the libraries.
template <lod::Executor E>
void call_every_operation(const E& executor) {
  call_every_operation_for<float>(executor);
  call_every_operation_for<double>(executor);
  call_every_operation_for<lod::float16>(executor);
  call_every_operation_for<lod::bfloat16>(executor);
  call_every_operation_for<std::int32_t>(executor);
  call_every_operation_for<std::int64_t>(executor);
}

}  // namespace lod_test
