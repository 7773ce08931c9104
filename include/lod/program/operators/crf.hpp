// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators of conditional random fields: linear_chain_crf, its gradient, and crf_decoding.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/linear_chain_crf.hpp>
#include <lod/ops/staging.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/calls.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// linear_chain_crf: Emission, Transition, Label -> LogLikelihood: a loss, the negative logarithm of the likelihood, as
/// a column with one number for each sequence. The other outputs, which no gradient here needs, are not written.
template <Executor E>
RunOperator<E> linear_chain_crf(const OperatorArguments& op) {
  op.expect_no_input("Length");
  const Slot emission = op.input("Emission"), transition = op.input("Transition"), label = op.input("Label");
  const Slot loss = op.output("LogLikelihood");
  return [=, spare = Variable()](OperatorCall<E>& call) mutable {
    call.with_floating(emission, [&](auto element) {
      using T = typename decltype(element)::type;
      auto likelihood = output_or<T>(call, Slot(), spare);
      linear_chain_crf_into(call.executor(), call.template view<T>(emission), call.template view<T>(transition),
                            call.template view<std::int64_t>(label), *likelihood);
      auto y = call.output_bytes(loss, data_type_v<T>, LoD(), {1}, likelihood->rows());
      std::transform(likelihood->values().begin(), likelihood->values().end(), y.template elements<T>(),
                     std::negate<T>());
    });
  };
}

/// linear_chain_crf_grad: Emission, Transition, Label, LogLikelihood@GRAD -> Emission@GRAD?, Transition@GRAD?
template <Executor E>
RunOperator<E> linear_chain_crf_grad(const OperatorArguments& op) {
  op.expect_no_input("Length");
  const Slot emission = op.input("Emission"), transition = op.input("Transition"), label = op.input("Label");
  const Slot dloss = op.input("LogLikelihood@GRAD");
  const Slot demission = op.optional_output("Emission@GRAD"), dtransition = op.optional_output("Transition@GRAD");
  return [=, spare = std::array<Variable, 2>()](OperatorCall<E>& call) mutable {
    call.with_floating(emission, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto given = call.template view<T>(dloss);
      if (given.row_size() != 1) {
        throw ShapeMismatch(
            detail::text({call.name(dloss), " of shape ", to_string(given.shape()), ", expected a column"}));
      }
      const kernel::Scratch<E, T> negative(call.executor(), given.rows());
      std::transform(given.values().begin(), given.values().end(), negative.data(), std::negate<T>());
      const Shape scalars;
      auto to_emission = output_or<T>(call, demission, spare[0]);
      auto to_transition = output_or<T>(call, dtransition, spare[1]);
      linear_chain_crf_grad_into(
          call.executor(), LoDTensorView<const T, Cpu>(negative.data(), LoDView::plain(0, given.rows()), &scalars, 1),
          call.template view<T>(emission), call.template view<T>(transition), call.template view<std::int64_t>(label),
          *to_emission, *to_transition);
    });
  };
}

/// crf_decoding: Emission, Transition, Label? -> ViterbiPath. The path is a column of tags, or, with labels, of 1 where
/// tag and label agree and 0 elsewhere.
template <Executor E>
RunOperator<E> crf_decoding(const OperatorArguments& op) {
  op.expect_no_input("Length");
  const Slot emission = op.input("Emission"), transition = op.input("Transition");
  const Slot label = op.optional_input("Label"), out = op.output("ViterbiPath");
  return [=, path = LoDTensor<std::int64_t>()](OperatorCall<E>& call) mutable {
    call.with_floating(emission, [&](auto element) {
      using T = typename decltype(element)::type;
      crf_decoding_into(call.executor(), call.template view<T>(emission), call.template view<T>(transition), path);
    });
    const auto tags = std::as_const(path).values();
    auto y = call.output_bytes(out, DataType::INT64, call.tensor(emission).lod(), {1}, path.rows());
    auto* const column = y.template elements<std::int64_t>();
    if (!label) {
      std::copy(tags.begin(), tags.end(), column);
      return;
    }
    const auto labels = call.template view<std::int64_t>(label).values();
    if (labels.size() != tags.size()) {
      throw ShapeMismatch(detail::text({call.name(label), ": ", labels.size(), " labels, expected ", tags.size()}));
    }
    std::transform(tags.begin(), tags.end(), labels.begin(), column,
                   [](std::int64_t a, std::int64_t b) { return a == b ? std::int64_t{1} : 0; });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
