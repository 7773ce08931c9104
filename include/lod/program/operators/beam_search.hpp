// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operators of beam searches: beam_search, beam_search_decode and gather_tree.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/beam_search.hpp>
#include <lod/ops/beam_search_decode.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/tensor_array.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <numeric>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// One row of the numbers 0, 1, 2, ...: in a tensor that keeps them for the next call.
inline LoDTensorView<const std::int64_t, Cpu> numbered(LoDTensor<std::int64_t>& numbers, std::int64_t count) {
  if (numbers.row_size() != count) {
    LoDTensor<std::int64_t> more({1, count});
    std::iota(more.values().begin(), more.values().end(), std::int64_t{0});
    numbers = std::move(more);
  }
  return std::as_const(numbers).view();
}

/// beam_search: pre_ids, pre_scores, ids?, scores -> selected_ids, selected_scores, parent_idx?; level = 0, beam_size,
/// end_id, is_accumulated = true.
template <Executor E>
RunOperator<E> beam_search(const OperatorArguments& op) {
  const Slot pre_ids = op.input("pre_ids"), pre_scores = op.input("pre_scores");
  const Slot ids = op.optional_input("ids"), scores = op.input("scores");
  const Slot out_ids = op.output("selected_ids"), out_scores = op.output("selected_scores");
  const Slot out_parents = op.optional_output("parent_idx");
  const std::int64_t beam_size = op.desc().attr<std::int32_t>("beam_size"),
                     end_id = op.desc().attr<std::int32_t>("end_id");
  const int level = op.attr("level", 0);
  const bool is_accumulated = op.attr("is_accumulated", true);
  if (beam_size < 1) op.refuse_attr("beam_size", "1 or more");
  return [=, numbers = LoDTensor<std::int64_t>({1, 0}),
          unused = LoDTensor<std::int32_t>()](OperatorCall<E>& call) mutable {
    call.with_floating(scores, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto from = call.template view<T>(scores);
      const auto before = call.template view<std::int64_t>(pre_ids);
      const auto scores_before = call.template view<T>(pre_scores);
      const BeamSearchOptions<T> options{.beam_size = beam_size,
                                         .end_id = end_id,
                                         .level = level,
                                         .is_accumulated = is_accumulated,
                                         .pre_ids = before,
                                         .pre_scores = scores_before};
      const auto candidates = ids ? call.template view<std::int64_t>(ids) : numbered(numbers, from.row_size());
      if (ids && candidates.rows() != from.rows()) {
        throw ShapeMismatch(detail::text({call.name(ids), " of shape ", to_string(candidates.shape()), ", expected ",
                                          to_string(from.shape()), ", as ", call.name(scores)}));
      }
      const auto search = [&](LoDTensor<std::int32_t>& parents) {
        auto y = call.template output<std::int64_t>(out_ids);
        auto z = call.template output<T>(out_scores);
        beam_search_into(call.executor(), candidates, from, options, *y, *z, parents);
      };
      if (out_parents) {
        auto parents = call.template output<std::int32_t>(out_parents);
        search(*parents);
      } else {
        search(unused);
      }
    });
  };
}

/// Views of an array's tensors, which must all be of type T.
template <class T, class E>
void view_all(const OperatorCall<E>& call, const Slot& x, const Workspace::Loan<LoDTensorView<const T, Cpu>>& views) {
  const auto& array = array_of(call, x);
  for (std::size_t t = 0; t < array.size(); ++t) {
    if (!array[t].template holds<T>()) {
      throw ShapeMismatch(detail::text({call.name(x), ": element ", t, ": elements of ",
                                        to_string(array[t].data_type()), ", expected ", to_string(data_type_v<T>)}));
    }
    ::new (static_cast<void*>(views.data() + t)) LoDTensorView<const T, Cpu>(array[t].template view<T>());
  }
}

/// beam_search_decode: Ids, Scores -> SentenceIds, SentenceScores; beam_size, end_id. The arrays hold the results of
/// all steps. There may be any number of sentences, whatever the beam size.
template <Executor E>
RunOperator<E> beam_search_decode(const OperatorArguments& op) {
  const Slot ids = op.input("Ids"), scores = op.input("Scores");
  const Slot out_ids = op.output("SentenceIds"), out_scores = op.output("SentenceScores");
  const BeamSearchDecodeOptions options{.end_id = op.desc().attr<std::int32_t>("end_id")};
  return [=](OperatorCall<E>& call) {
    const auto decode = [&]<class T>(T) {
      Workspace& workspace = call.executor().workspace();
      const Workspace::Loan<LoDTensorView<const std::int64_t, Cpu>> id_views(
          workspace, static_cast<std::int64_t>(array_of(call, ids).size()));
      const Workspace::Loan<LoDTensorView<const T, Cpu>> score_views(
          workspace, static_cast<std::int64_t>(array_of(call, scores).size()));
      view_all<std::int64_t>(call, ids, id_views);
      view_all<T>(call, scores, score_views);
      auto y = call.template output<std::int64_t>(out_ids);
      auto z = call.template output<T>(out_scores);
      beam_search_decode_into(call.executor(), id_views.span(), score_views.span(), options, *y, *z);
    };
    const auto& array = array_of(call, scores);
    if (!array.empty() && array.front().template holds<double>()) {
      decode(double{});
    } else {
      decode(float{});
    }
  };
}

/// gather_tree: Ids, Parents of shape {steps, batch, beams} -> Out: for each beam of the last step the ids on the way
/// to it, from step to step by the parents. Throws OutOfRange for a parent that is on such a way and is no beam.
template <Executor E>
RunOperator<E> gather_tree(const OperatorArguments& op) {
  const Slot ids = op.input("Ids"), parents = op.input("Parents"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(ids);
    const Shape shape = from.shape();
    if (shape.size() != 3) {
      throw ShapeMismatch(
          detail::text({call.name(ids), " of shape ", to_string(shape), ", expected {steps, batch, beams}"}));
    }
    call.with_id(ids, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const id = call.template view<T>(ids).data(), *const parent = numbers_of<T>(call, parents, shape);
      const std::int64_t steps = shape[0], beams = shape[2], step = shape[1] * beams;
      // Calls f(place, the place on its way) for all places.
      const auto for_each = [&](const auto& f) {
        for (std::int64_t first = 0; steps > 0 && first < step; first += beams) {
          for (std::int64_t beam = 0; beam < beams; ++beam) {
            std::int64_t on_way = beam;
            for (std::int64_t t = steps; t-- > 0;) {
              const std::int64_t at = t * step + first;
              if (on_way < 0 || on_way >= beams) {
                throw OutOfRange(
                    detail::text({call.name(parents), " has ", on_way, ", expected 0 or more, and less than ", beams}));
              }
              f(at + beam, at + on_way);
              on_way = static_cast<std::int64_t>(parent[at + on_way]);
            }
          }
        }
      };
      for_each([](std::int64_t, std::int64_t) {});
      auto y = call.output_bytes(out, from.data_type(), LoD(), from.row_shape(), from.rows());
      T* const to = y.template elements<T>();
      for_each([=](std::int64_t at, std::int64_t on_way) { to[at] = id[on_way]; });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
