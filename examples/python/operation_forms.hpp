// SPDX-License-Identifier: Apache-2.0
/// @file
/// What each operation takes from Python, and how it is called: as its declaration says, or, where it has a function of
/// its own, as a form here says.
#pragma once

#include "operation_values.hpp"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace lod_python {

/// Options<T>, those of an operation for elements of type T; and run(executor, arguments..., options).
template <class Op>
struct Form {
  using Arguments = typename lod::operation::Declared<Op>::Arguments;
  template <class T>
  using Options = typename lod::operation::OptionsOf<Op, T, lod::Cpu>::type;
  static auto run(const auto& executor, const auto&... arguments) {
    return lod::operation::Call<Op>()(executor, arguments...);
  }
};

/// A base of forms: the options.
template <class Given = lod::operation::NoOptions>
struct WithOptions {
  template <class T>
  using Options = Given;
};

using lod::operation::IdList;
using lod::operation::Of;
using lod::operation::Several;
using lod::operation::Takes;

// Kinds of arguments, besides those of <lod/ops/declaration.hpp>.

using Dense = lod::operation::Tensor;
/// A tensor that is changed in place.
struct Changed {
  template <class T, class Device>
  using Argument = lod::LoDTensorView<T, Device>;
};
/// The state of an optimizer, which is of 32 bits for parameters of 16.
struct State {
  template <class T, class Device>
  using Argument = lod::LoDTensorView<lod::kernel::Accumulator<T>, Device>;
};
/// The same, or None.
struct OptionalState {
  static constexpr const char* initial = "None";
  template <class T, class Device>
  using Argument = std::optional<lod::LoDTensorView<lod::kernel::Accumulator<T>, Device>>;
};
/// A tensor, dense or row-sparse.
struct Either {
  template <class T, class Device>
  using Argument = DenseOrSparse<T>;
};
/// A tensor as Python has it.
struct Whole {
  template <class T, class Device>
  using Argument = Shared<T>;
};
/// The type of elements itself.
struct ElementType {
  static constexpr const char* initial = "'int64'";
  template <class T, class Device>
  using Argument = std::type_identity<T>;
};

// ---- Rows ----

template <>
struct Form<lod::op::add> : WithOptions<lod::ElementwiseOptions> {
  using Arguments = Takes<Either, Either>;
  template <class T>
  static std::variant<lod::LoDTensor<T>, lod::SelectedRows<T>> run(const auto& executor, const DenseOrSparse<T>& x,
                                                                   const DenseOrSparse<T>& y,
                                                                   const lod::ElementwiseOptions& options) {
    if (const auto* const dense = std::get_if<lod::LoDTensorView<const T>>(&x)) {
      if (y.index() == 0) return lod::add(executor, *dense, std::get<0>(y), options);
      throw pybind11::type_error("add: expected SelectedRows first, then the tensor");
    }
    const auto& rows = std::get<1>(x);
    if (y.index() == 0) return lod::add(executor, rows, std::get<0>(y));
    return lod::add(executor, rows, std::get<1>(y));
  }
};
// The gradients of cells add up nothing here: each call gives new ones.
template <>
struct Form<lod::op::gru_cell_grad> : WithOptions<lod::GruCellOptions> {
  using Arguments = lod::operation::Declared<lod::op::gru_cell_grad>::Arguments;
  static auto run(const auto& executor, const auto& dhidden, const auto& x, const auto& hidden, const auto& weights,
                  const auto& gates, const auto& memory, const lod::GruCellOptions& options) {
    return lod::gru_cell_grad(executor, dhidden, x, hidden, weights, gates, memory,
                              {.reset_after = options.reset_after, .origin_mode = options.origin_mode});
  }
};
template <>
struct Form<lod::op::lstm_cell_grad> : WithOptions<lod::LstmCellOptions> {
  using Arguments = lod::operation::Declared<lod::op::lstm_cell_grad>::Arguments;
  static auto run(const auto& executor, const auto& dhidden, const auto& dcell, const auto& x, const auto& hidden,
                  const auto& cell, const auto& weights, const auto& new_cell, const auto& gates,
                  const lod::LstmCellOptions& options) {
    return lod::lstm_cell_grad(executor, dhidden, dcell, x, hidden, cell, weights, new_cell, gates,
                               {.cell_clip = options.cell_clip, .projection_clip = options.projection_clip});
  }
};
template <>
struct Form<lod::op::sequence_conv_grad> {
  using Arguments = Takes<Dense, Dense, Dense>;
  template <class T>
  using Options = lod::ConvOptions<T>;
  static auto run(const auto& executor, const auto&... arguments) {
    return lod::sequence_conv_grad(executor, arguments...);
  }
};
template <>
struct Form<lod::op::sequence_erase> : WithOptions<> {
  using Arguments = Takes<Dense, IdList>;
  template <class T>
  static auto run(const auto& executor, const lod::LoDTensorView<const T>& x, const IdList& tokens) {
    const auto numbers = std::make_unique<T[]>(tokens.size());  // of bool, too
    std::ranges::transform(tokens, numbers.get(), [](std::int64_t token) {
      return lod::detail::checked<T>(token, "sequence_erase", "tokens");
    });
    return lod::sequence_erase(executor, x, std::span<const T>(numbers.get(), tokens.size()));
  }
};
template <>
struct Form<lod::op::sequence_erase_and_wait> : Form<lod::op::sequence_erase> {};  // as there is on the CPU
template <>
struct Form<lod::op::sequence_mask> : WithOptions<lod::MaskOptions> {
  using Arguments = Takes<IdList, ElementType>;
  template <class T>
  static auto run(const auto& executor, const IdList& lengths, std::type_identity<T>, const lod::MaskOptions& options) {
    return lod::sequence_mask<T>(executor, std::span<const std::int64_t>(lengths), options);
  }
};
template <>
struct Form<lod::op::sequence_positions> : WithOptions<lod::PositionOptions> {
  using Arguments = Takes<lod::BatchLevels>;
  static auto run(const auto& executor, const lod::BatchLevels& lod, const lod::PositionOptions& options) {
    return lod::sequence_positions(executor, lod, options);
  }
};

// ---- Cut and joined ----

template <>
struct Form<lod::op::concat_grad> : WithOptions<> {
  using Arguments = Takes<Dense, Several<lod::BatchLevels>>;
  static auto run(const auto& executor, const auto&... arguments) { return lod::concat_grad(executor, arguments...); }
};
template <>
struct Form<lod::op::sequence_concat_grad> : WithOptions<> {
  using Arguments = Takes<Dense, Several<lod::LoD>>;
  static auto run(const auto& executor, const auto&... arguments) {
    return lod::sequence_concat_grad(executor, arguments...);
  }
};
template <>
struct Form<lod::op::split> : WithOptions<> {
  using Arguments = Takes<Dense, std::int64_t>;
  static auto run(const auto& executor, const auto&... arguments) { return lod::split(executor, arguments...); }
};
template <>
struct Form<lod::op::split_at> : WithOptions<> {
  using Arguments = Takes<Dense, IdList>;
  static auto run(const auto& executor, const auto&... arguments) { return lod::split_at(executor, arguments...); }
};
template <>
struct Form<lod::op::split_selected_rows_grad> : WithOptions<> {
  using Arguments = Takes<Several<Of<lod::SelectedRows>>>;
  static auto run(const auto& executor, const auto& parts) { return lod::split_selected_rows_grad(executor, parts); }
};

// ---- In place ----

template <>
struct Form<lod::op::scatter> : WithOptions<> {
  using Arguments = Takes<Of<lod::SelectedRows>, lod::ScatterOp, Changed>;
  static void run(const auto& executor, const auto& g, lod::ScatterOp how, auto dense) {
    lod::scatter(executor, g, how, dense);
  }
};
template <>
struct Form<lod::op::sgd> : WithOptions<lod::SgdOptions> {
  using Arguments = Takes<Changed, Either>;
  static void run(const auto& executor, auto parameter, const auto& gradient, const auto& options) {
    std::visit([&](const auto& g) { lod::sgd(executor, parameter, g, options); }, gradient);
  }
};
template <>
struct Form<lod::op::momentum> : WithOptions<lod::MomentumOptions> {
  using Arguments = Takes<Changed, State, Either>;
  static void run(const auto& executor, auto parameter, auto velocity, const auto& gradient, const auto& options) {
    std::visit([&](const auto& g) { lod::momentum(executor, parameter, velocity, g, options); }, gradient);
  }
};
template <>
struct Form<lod::op::adagrad> : WithOptions<lod::AdagradOptions> {
  using Arguments = Takes<Changed, State, Either>;
  static void run(const auto& executor, auto parameter, auto squares, const auto& gradient, const auto& options) {
    std::visit([&](const auto& g) { lod::adagrad(executor, parameter, squares, g, options); }, gradient);
  }
};
template <>
struct Form<lod::op::rmsprop> : WithOptions<lod::RmspropOptions> {
  using Arguments = Takes<Changed, State, State, Either, OptionalState>;
  static void run(const auto& executor, auto parameter, auto squares, auto velocity, const auto& gradient, auto mean,
                  const auto& options) {
    std::visit(
        [&](const auto& g) {
          if (mean) return lod::rmsprop(executor, parameter, squares, velocity, *mean, g, options);
          lod::rmsprop(executor, parameter, squares, velocity, g, options);
        },
        gradient);
  }
};
template <>
struct Form<lod::op::adam> : WithOptions<lod::AdamOptions> {
  using Arguments = Takes<Changed, State, State, Either>;
  static void run(const auto& executor, auto parameter, auto mean, auto squares, const auto& gradient,
                  const auto& options) {
    std::visit([&](const auto& g) { lod::adam(executor, parameter, mean, squares, g, options); }, gradient);
  }
};
template <>
struct Form<lod::op::ftrl> : WithOptions<lod::FtrlOptions> {
  using Arguments = Takes<Changed, State, State, Either>;
  static void run(const auto& executor, auto parameter, auto squares, auto linear, const auto& gradient,
                  const auto& options) {
    std::visit([&](const auto& g) { lod::ftrl(executor, parameter, squares, linear, g, options); }, gradient);
  }
};

// ---- With functions of Python's, which take its lock while they run ----

template <>
struct Form<lod::op::for_each_sequence> : WithOptions<> {
  using Arguments = Takes<Whole, int, Function>;
  template <class T>
  static void run(const auto& executor, const Shared<T>& x, int level, const Function& f) {
    lod::for_each_sequence(executor, x.view(), level, [&](const auto& sequence, std::int64_t i) {
      f(x.tensor.with_part(sequence.lod_view()), i);
    });
  }
};
template <>
struct Form<lod::op::map_sequences> : WithOptions<> {
  using Arguments = Takes<Whole, Function>;
  template <class T>
  static auto run(const auto& executor, const Shared<T>& x, const Function& f) {
    return lod::map_sequences(executor, x.view(), [&](const auto& sequence) {
      return f.template tensor<T>(x.tensor.with_part(sequence.lod_view()));
    });
  }
};
template <>
struct Form<lod::op::dynamic_rnn> : WithOptions<> {
  using Arguments = Takes<Dense, lod::RankTable, Dense, Function>;
  static auto run(const auto& executor, const auto& x, const lod::RankTable& table, const auto& initial_state,
                  const Function& cell) {
    return lod::dynamic_rnn(executor, x, table, initial_state, [&](const auto&... step) { return cell.two(step...); });
  }
};
template <>
struct Form<lod::op::dynamic_rnn_grad> : WithOptions<> {
  using Arguments = Takes<Dense, Dense, Dense, lod::RankTable, Dense, Function, Function>;
  static auto run(const auto& executor, const auto& doutput, const auto& dstate, const auto& x,
                  const lod::RankTable& table, const auto& initial_state, const Function& cell,
                  const Function& cell_grad) {
    return lod::dynamic_rnn_grad(
        executor, doutput, dstate, x, table, initial_state, [&](const auto&... step) { return cell.two(step...); },
        [&](const auto&... step) { return cell_grad.two(step...); });
  }
};

}  // namespace lod_python
