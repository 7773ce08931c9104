// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators on labels of sequences: warpctc and its gradient, chunk_eval.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/chunk_eval.hpp>
#include <lod/ops/ctc_loss.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/sequence_pad.hpp>
#include <lod/ops/staging.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/calls.hpp>
#include <lod/program/operators/reductions.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// Ids of INT32 or INT64 as std::int64_t, in the workspace.
template <class E>
class WideIds {
 public:
  /// Throws ShapeMismatch for elements of another type.
  WideIds(const OperatorCall<E>& call, const Slot& slot)
      : x_(&call.tensor(slot)), ids_(call.executor().workspace(), x_->shape().elements()) {
    call.with_id(slot, [&](auto element) {
      const auto from = call.template view<typename decltype(element)::type>(slot);
      std::copy(from.values().begin(), from.values().end(), ids_.data());
      lod_ = from.lod_view();
    });
  }
  /// The tensor with these ids.
  LoDTensorView<const std::int64_t, Cpu> view() const noexcept {
    return {ids_.data(), lod_, &x_->row_shape(), x_->row_shape().elements()};
  }

 private:
  const AnyLoDTensor* x_;
  LoDView lod_;
  Workspace::Loan<std::int64_t> ids_;
};

/// Throws ShapeMismatch unless a tensor has the layout of padded frames, {longest, sequences, classes}.
template <class E>
void check_padded_frames(const OperatorCall<E>& call, const Slot& slot) {
  const AnyLoDTensor& x = call.tensor(slot);
  if (x.levels() > 0 || x.row_shape().size() != 2) {
    throw ShapeMismatch(detail::text({call.name(slot), " of shape ", to_string(x.shape()), " with ", x.levels(),
                                      " levels, expected {longest, sequences, classes} and no level"}));
  }
}
/// Calls f with padded rows, {sequences, longest, row shape...}, as sequences of the given lengths.
template <class T, class E, class F>
void with_sequences(const OperatorCall<E>& call, const T* rows, const Shape& shape, const Slot& lengths,
                    Variable& spare, const F& f) {
  const Shape row_shape = shape.without_first();
  auto y = output_or<T>(call, Slot(), spare);
  const LoDTensorView<const T, Cpu> padded(rows, LoDView::plain(0, shape.front()), &row_shape, row_shape.elements());
  const WideIds<E> ids(call, lengths);
  const auto given = ids.view();
  sequence_unpad_into(call.executor(), padded, with_rows(given, given.rows() * given.row_size(), Shape()), *y);
  f(y->view());
}

/// Writes the frames of sequences as {longest, sequences, classes}, with 0 where there are none.
template <class T>
void pad_frames(const LoDTensorView<T, Cpu>& x, std::int64_t sequences, std::int64_t longest, T* y) {
  const std::int64_t classes = x.row_size();
  const kernel::Segments frames = operation::segments(x.lod_view(), x.levels() - 1);
  std::fill_n(y, longest * sequences * classes, T{});
  for (std::int64_t i = 0; i < sequences; ++i) {
    for (std::int64_t t = 0; t < frames.length(i); ++t) {
      std::copy_n(x.data() + (frames.begin(i) + t) * classes, classes, y + (t * sequences + i) * classes);
    }
  }
}

/// warpctc: Logits, Label, LogitsLength?, LabelLength? -> Loss, WarpCTCGrad?; blank = 0, norm_by_times = false, which
/// only the gradient uses. Frames and labels are sequences or, with their lengths, {longest, sequences, classes} and
/// {sequences, longest}. Labels that no path spells have the loss 0. WarpCTCGrad is the gradient of the losses with
/// respect to the logits, {longest, sequences, classes}.
template <Executor E>
RunOperator<E> warpctc(const OperatorArguments& op) {
  const Slot logits = op.input("Logits"), label = op.input("Label"), out = op.output("Loss");
  const Slot lengths = op.optional_input("LogitsLength"), label_lengths = op.optional_input("LabelLength");
  const Slot gradient = op.optional_output("WarpCTCGrad");
  if (!lengths != !label_lengths) {
    op.refuse({"input '", lengths ? "LogitsLength" : "LabelLength", "' alone, expected both lengths or none"});
  }
  const CtcLossOptions options{.blank = op.attr("blank", 0), .zero_infinity = true};
  return [=, frames = Variable(), spelled = Variable(), losses = Variable(),
          dframes = Variable()](OperatorCall<E>& call) mutable {
    call.with_floating(logits, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      const auto run = [&](const LoDTensorView<const T, Cpu>& x, const LoDTensorView<const std::int64_t, Cpu>& labels) {
        auto each = output_or<T>(call, Slot(), losses), dx = output_or<T>(call, Slot(), dframes);
        ctc_loss_into(executor, x, labels, options, *each);
        const std::int64_t sequences = each->rows(), classes = x.row_size();
        if (gradient) {
          const Workspace::Loan<T> ones(executor.workspace(), sequences);
          std::fill_n(ones.data(), sequences, T{1});
          const Shape scalar;
          ctc_loss_grad_into(executor,
                             LoDTensorView<const T, Cpu>(ones.data(), LoDView::plain(0, sequences), &scalar, 1), x,
                             labels, options, *dx);
          const std::int64_t longest = lengths ? call.tensor(logits).rows() : x.lod_view().max_rows(x.levels() - 1);
          auto padded = call.output_bytes(gradient, data_type_v<T>, LoD(), {sequences, classes}, longest);
          pad_frames<T>(dx->view(), sequences, longest, padded.template elements<T>());
        }
        auto y = call.output_bytes(out, data_type_v<T>, LoD(), {1}, sequences);
        std::copy_n(each->data(), sequences, y.template elements<T>());
      };
      const WideIds<E> ids(call, label);
      const auto x = call.template view<T>(logits);
      const auto labels = ids.view();
      if (!lengths) return run(x, labels);
      check_padded_frames(call, logits);
      if (labels.row_shape().size() != 1) {
        throw ShapeMismatch(detail::text(
            {call.name(label), " of shape ", to_string(labels.shape()), ", expected {sequences, longest}"}));
      }
      const std::int64_t longest = x.rows(), sequences = x.row_shape()[0], classes = x.row_shape()[1];
      const Workspace::Loan<T> in_turn(executor.workspace(), x.rows() * x.row_size());
      for (std::int64_t t = 0; t < longest; ++t) {
        for (std::int64_t i = 0; i < sequences; ++i) {
          std::copy_n(x.data() + (t * sequences + i) * classes, classes, in_turn.data() + (i * longest + t) * classes);
        }
      }
      with_sequences(call, static_cast<const T*>(in_turn.data()), {sequences, longest, classes}, lengths, frames,
                     [&](const auto& ragged) {
                       with_sequences(call, labels.data(), {labels.rows(), labels.row_size(), 1}, label_lengths,
                                      spelled, [&](const auto& of_frames) { run(ragged, of_frames); });
                     });
    });
  };
}

/// warpctc_grad: WarpCTCGrad, Logits, LogitsLength?, Loss@GRAD -> Logits@GRAD; norm_by_times = false: whether the
/// gradient of a sequence is divided by the number of its frames. Of Logits only the levels are used.
template <Executor E>
RunOperator<E> warpctc_grad(const OperatorArguments& op) {
  const Slot saved = op.input("WarpCTCGrad"), logits = op.input("Logits"), dy = op.input("Loss@GRAD");
  const Slot lengths = op.optional_input("LogitsLength"), out = op.output("Logits@GRAD");
  const bool is_mean = op.attr("norm_by_times", false);
  return [=](OperatorCall<E>& call) {
    call.with_floating(saved, [&](auto element) {
      using T = typename decltype(element)::type;
      check_padded_frames(call, saved);
      const auto padded = call.template view<T>(saved);
      const std::int64_t longest = padded.rows();
      const std::int64_t sequences = padded.row_shape()[0], classes = padded.row_shape()[1];
      const T* const given = some_numbers<T>(call, dy, sequences);
      const AnyLoDTensor& x = call.tensor(logits);
      const auto factor = [=](std::int64_t i, std::int64_t frames) {
        return is_mean ? given[i] / static_cast<T>(std::max<std::int64_t>(frames, 1)) : given[i];
      };
      if (lengths) {
        const WideIds<E> counts(call, lengths);
        if (x.shape() != padded.shape() || counts.view().values().size() != static_cast<std::size_t>(sequences)) {
          throw ShapeMismatch(detail::text({call.name(logits), " of shape ", to_string(x.shape()), " with ",
                                            counts.view().values().size(), " lengths, expected ",
                                            to_string(padded.shape()), " with ", sequences}));
        }
        auto dx = call.output_bytes(out, data_type_v<T>, LoD(), padded.row_shape(), longest);
        T* to = dx.template elements<T>();
        for (std::int64_t row = 0; row < longest * sequences; ++row, to += classes) {
          const std::int64_t i = row % sequences;
          const T times = factor(i, counts.view().data()[i]);
          std::transform(padded.data() + row * classes, padded.data() + (row + 1) * classes, to,
                         [=](T v) { return v * times; });
        }
        return;
      }
      const int last = x.levels() - 1;
      const auto rows = last < 0 ? LoDView() : x.lod().view();
      if (last < 0 || rows.size(last) != sequences || rows.max_rows(last) > longest ||
          x.row_shape().elements() != classes) {
        throw ShapeMismatch(
            detail::text({call.name(logits), " of shape ", to_string(x.shape()), " with ", x.levels(),
                          " levels, expected ", sequences, " sequences of at most ", longest, " rows of ", classes}));
      }
      auto dx = call.output_bytes(out, data_type_v<T>, x.lod(), x.row_shape(), x.rows());
      T* to = dx.template elements<T>();
      for (std::int64_t i = 0; i < sequences; ++i) {
        const std::int64_t frames = operation::segments(rows, last).length(i);
        const T times = factor(i, frames);
        for (std::int64_t t = 0; t < frames; ++t, to += classes) {
          const T* const from = padded.data() + (t * sequences + i) * classes;
          std::transform(from, from + classes, to, [=](T v) { return v * times; });
        }
      }
    });
  };
}

/// The scheme of chunk_eval, "IOB" by default.
inline ChunkScheme chunk_scheme(const OperatorArguments& op) {
  constexpr std::pair<std::string_view, ChunkScheme> schemes[] = {{"IOB", ChunkScheme::IOB},
                                                                  {"IOE", ChunkScheme::IOE},
                                                                  {"IOBES", ChunkScheme::IOBES},
                                                                  {"plain", ChunkScheme::PLAIN}};
  const std::string name = op.attr("chunk_scheme", "IOB");
  for (const auto& one : schemes) {
    if (one.first == name) return one.second;
  }
  op.refuse_attr("chunk_scheme", "IOB, IOE, IOBES or plain");
}
/// chunk_eval: Inference, Label, SeqLength? -> Precision, Recall, F1-Score, NumInferChunks, NumLabelChunks,
/// NumCorrectChunks; num_chunk_types, chunk_scheme = "IOB", excluded_chunk_types = {}. Inference and Label are
/// sequences, or {sequences, longest} with their lengths.
template <Executor E>
RunOperator<E> chunk_eval(const OperatorArguments& op) {
  const Slot inference = op.input("Inference"), label = op.input("Label"), lengths = op.optional_input("SeqLength");
  const std::array<Slot, 3> rates = {op.optional_output("Precision"), op.optional_output("Recall"),
                                     op.optional_output("F1-Score")};
  const std::array<Slot, 3> counts = {op.optional_output("NumInferChunks"), op.optional_output("NumLabelChunks"),
                                      op.optional_output("NumCorrectChunks")};
  const auto types = op.desc().attr<std::int32_t>("num_chunk_types");
  if (types < 1) op.refuse_attr("num_chunk_types", "at least 1");
  const ChunkScheme scheme = chunk_scheme(op);
  const std::int64_t labels = types * kernel::ChunkTags::of(scheme).count;
  return [=, excluded = op.attr("excluded_chunk_types", std::vector<std::int64_t>()), found = ChunkEval<std::int64_t>(),
          inferred = Variable(), expected = Variable()](OperatorCall<E>& call) mutable {
    const WideIds<E> a(call, inference), b(call, label);
    // One more number stands for rows outside of chunks.
    detail::check_row_ids(a.view().values(), labels + 1, "Inference");
    detail::check_row_ids(b.view().values(), labels + 1, "Label");
    const auto run = [&](const auto& x, const auto& y) {
      chunk_eval_into(call.executor(), x, y, ChunkEvalOptions{.scheme = scheme, .types = types, .excluded = excluded},
                      found.rates, found.counts);
    };
    if (lengths) {
      const auto with_length = [&](const LoDTensorView<const std::int64_t, Cpu>& x, Variable& spare, const auto& f) {
        with_sequences(call, x.data(), {x.rows(), x.row_size(), 1}, lengths, spare, f);
      };
      with_length(a.view(), inferred,
                  [&](const auto& x) { with_length(b.view(), expected, [&](const auto& y) { run(x, y); }); });
    } else {
      run(a.view(), b.view());
    }
    for (std::size_t i = 0; i < 3; ++i) {
      if (rates[i])
        *call.output_bytes(rates[i], DataType::FP32, LoD(), {}, 1).template elements<float>() = found.rates.data()[i];
      if (counts[i])
        *call.output_bytes(counts[i], DataType::INT64, LoD(), {}, 1).template elements<std::int64_t>() =
            found.counts.data()[i];
    }
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
