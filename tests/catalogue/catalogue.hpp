// SPDX-License-Identifier: Apache-2.0
/// @file
/// A sample of each operation of the list: sample(op::f(), c) calls f_into once, or f where it changes its arguments,
/// with arguments and outputs of a Case. What holds for all operations is tested over the list with them: an operation
/// without a sample does not compile there. And how a gradient is checked, which <catalogue/gradients.hpp> does.
#pragma once

#include "catalogue/case.hpp"
#include "catalogue/layers.hpp"
#include "catalogue/rows.hpp"
#include "catalogue/steps.hpp"
#include "catalogue/structure.hpp"
#include "catalogue/tables.hpp"
#include <lod/ops/operations.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lod_test {

/// The type of the elements with which an operation is tested, where that is done with one.
template <class Op>
using ElementOf = std::conditional_t<Op::template includes<float>, float, std::int64_t>;

/// Whether an operation is one of these.
template <class Op, class... Those>
inline constexpr bool is_one_of = (std::same_as<Op, Those> || ...);
/// Whether it changes tensors beside its parameter: the states of optimizers.
template <class Op>
inline constexpr bool has_states = is_one_of<Op, op::momentum, op::adagrad, op::rmsprop, op::adam, op::ftrl>;
/// Whether a function of the user's works out new tensors, which are allocated.
template <class Op>
inline constexpr bool calls_users = is_one_of<Op, op::dynamic_rnn, op::dynamic_rnn_grad>;
/// Whether it waits for what it computes.
template <class Op>
inline constexpr bool waits = lod::operation::name_of<Op>.ends_with("_and_wait");

}  // namespace lod_test
