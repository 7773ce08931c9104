// SPDX-License-Identifier: Apache-2.0
/// @file
/// How gradients come to the rows of a sharded table: each rank sends its rows of a gradient to the ranks that have
/// these rows, where an optimizer updates them.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/philox.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/all_to_all.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/mpi/table_shard.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/optimizer_options.hpp>
#include <lod/ops/optimizers.hpp>
#include <lod/ops/row_groups.hpp>
#include <lod/ops/select.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// An optimizer: its name, the names of the states of each row, its numbers, which all ranks must have, and its step.
template <class Options>
struct TableOptimizer;

template <>
struct TableOptimizer<SgdOptions> {
  static constexpr const char* name = "sgd";
  static constexpr std::array<const char*, 0> states{};
  static auto numbers(const SgdOptions& options) { return std::array{options.learning_rate}; }
  template <class P, class States, class G>
  static void step(const CpuExecutor& executor, P&& rows, const States&, const G& gradient, const SgdOptions& options) {
    sgd(executor, rows, gradient, options);
  }
};
template <>
struct TableOptimizer<MomentumOptions> {
  static constexpr const char* name = "momentum";
  static constexpr std::array states{"velocity"};
  static auto numbers(const MomentumOptions& options) {
    return std::array{options.learning_rate, options.momentum, options.l2_decay, options.nesterov ? 1.0 : 0.0};
  }
  template <class P, class States, class G>
  static void step(const CpuExecutor& executor, P&& rows, const States& of_rows, const G& gradient,
                   const MomentumOptions& options) {
    momentum(executor, rows, of_rows[0], gradient, options);
  }
};
template <>
struct TableOptimizer<AdagradOptions> {
  static constexpr const char* name = "adagrad";
  static constexpr std::array states{"squares"};
  static auto numbers(const AdagradOptions& options) { return std::array{options.learning_rate, options.epsilon}; }
  template <class P, class States, class G>
  static void step(const CpuExecutor& executor, P&& rows, const States& of_rows, const G& gradient,
                   const AdagradOptions& options) {
    adagrad(executor, rows, of_rows[0], gradient, options);
  }
};
template <>
struct TableOptimizer<RmspropOptions> {
  static constexpr const char* name = "rmsprop";
  static constexpr std::array states{"squares", "velocity"};
  static auto numbers(const RmspropOptions& options) {
    return std::array{options.learning_rate, options.rho, options.epsilon, options.momentum};
  }
  template <class P, class States, class G>
  static void step(const CpuExecutor& executor, P&& rows, const States& of_rows, const G& gradient,
                   const RmspropOptions& options) {
    rmsprop(executor, rows, of_rows[0], of_rows[1], gradient, options);
  }
};
template <>
struct TableOptimizer<AdamOptions> {
  static constexpr const char* name = "adam";
  static constexpr std::array states{"mean", "squares"};
  static auto numbers(const AdamOptions& options) {
    return std::array{options.learning_rate, options.beta1, options.beta2, options.epsilon,
                      static_cast<double>(options.step)};
  }
  template <class P, class States, class G>
  static void step(const CpuExecutor& executor, P&& rows, const States& of_rows, const G& gradient,
                   const AdamOptions& options) {
    adam(executor, rows, of_rows[0], of_rows[1], gradient, options);
  }
};
template <>
struct TableOptimizer<FtrlOptions> {
  static constexpr const char* name = "ftrl";
  static constexpr std::array states{"squares", "linear"};
  static auto numbers(const FtrlOptions& options) {
    return std::array{options.learning_rate, options.l1, options.l2, options.learning_rate_power};
  }
  template <class P, class States, class G>
  static void step(const CpuExecutor& executor, P&& rows, const States& of_rows, const G& gradient,
                   const FtrlOptions& options) {
    ftrl(executor, rows, of_rows[0], of_rows[1], gradient, options);
  }
};

/// One collective with sizes, then ids and rows of the gradient.
template <class Shard, class Options>
class Updating final : public TableSteps<Shard> {
  using T = typename Shard::Value;
  using State = typename Shard::State;
  using Optimizer = TableOptimizer<Options>;

 public:
  Updating(Shard& shard, const SelectedRows<T>& gradient, const Options& options)
      : TableSteps<Shard>(shard, Operation::TABLE_UPDATE), gradient_(&gradient), options_(options) {}

  bool next() override {
    switch (step_++) {
      case 0:
        agree();
        return true;
      case 1:
        send_rows();
        return true;
      case 2:
        prepare_update();
        this->tell();
        return true;
      default:
        this->check_told();
        update();
        return false;
    }
  }

 private:
  static constexpr std::size_t state_count = Optimizer::states.size();

  void agree() {
    this->agreement_.prepare([&] {
      check();
      const bool fixed_order = this->shard_.options.fixed_order;
      if (!fixed_order) {
        merge_add_into(this->executor(), *gradient_, merged_);
        gradient_ = &merged_;
      }
      const auto& ids = gradient_->rows();
      const int ranks = this->group.size;
      const auto size = static_cast<std::int64_t>(ids.size());
      const Sorted sorted(this->shard_.owners(ids), size, ranks, this->what());
      if (!sorted.in_order()) {
        sorted_ids_.reserve(ids.size());
        for (const std::int64_t i : sorted.order()) sorted_ids_.push_back(ids[static_cast<std::size_t>(i)]);
        select_into(this->executor(), gradient_->value(), sorted.order(), sorted_values_);
      }
      sent_ids_ = sorted.in_order() ? ids.data() : sorted_ids_.data();
      sent_values_ = sorted.in_order() ? gradient_->value().data() : std::as_const(sorted_values_).data();
      sent_ = PartBegins(ranks, [&](int rank) { return sorted.end(rank) - sorted.begin(rank); });
      Header header = this->shard_.header();
      put_options(header);
      for (int rank = 0; rank < ranks; ++rank) {
        header.rows = sent_.size(rank);
        this->agreement_.tell(rank, header);
      }
    });
    this->agreement_.exchange(this->messages);
  }
  /// Throws what is wrong with the gradient and the options.
  void check() const {
    const std::string name = detail::text({"ShardedTable::", Optimizer::name});
    const std::string subject = name + ": gradient";
    detail::check_value_rows(*gradient_, subject.c_str());
    operation::check_row_shape(gradient_->row_shape(), this->shard_.rows.row_shape(), subject.c_str());
    if (gradient_->height() != this->shard_.options.height) {
      throw ShapeMismatch(detail::text({subject, ": height ", gradient_->height(), ", expected ",
                                        this->shard_.options.height, ", which is the table's"}));
    }
    const std::string& before = this->shard_.optimizer;
    if (state_count > 0 && !before.empty() && before != Optimizer::name) {
      throw std::invalid_argument(detail::text({name, ": the table has the states of ", before}));
    }
    // The optimizer itself checks its options: with no rows, of which it changes none.
    LoDTensor<T> no_rows(Shape(0, this->shard_.rows.row_shape()));
    std::array<LoDTensor<State>, state_count> no_states;
    for (auto& state : no_states) state = LoDTensor<State>(Shape(0, this->shard_.rows.row_shape()));
    Optimizer::step(this->executor(), no_rows.view(), views(no_states),
                    SelectedRows<T>({}, 0, this->shard_.rows.row_shape()), options_);
  }
  /// The number of the optimizer's options, and whether the order is fixed, for comparison.
  void put_options(Header& header) const {
    header.samples[0] = this->shard_.options.fixed_order ? 1 : 0;
    header.samples[1] = static_cast<std::int64_t>(options_.mode);
    header.samples[2] = static_cast<std::int64_t>(detail::Philox::key_of(Optimizer::name));
    std::size_t next = 3;
    for (const double number : Optimizer::numbers(options_)) {
      header.samples[next++] = std::bit_cast<std::int64_t>(number);
    }
  }

  void send_rows() {
    this->agreement_.check();
    check_tables(this->agreement_, this->group.size);
    check_same(this->agreement_, this->group.size, 0, Header::max_samples, "the optimizer, or an option of it,");
    this->attempt([&] {
      arriving_ = PartBegins(this->group.size, [&](int rank) { return this->agreement_.from(rank).rows; });
      ids_.resize(detail::checked_count<std::int64_t>(arriving_.total(), this->what()));
      values_ = LoDTensor<T>(Shape(arriving_.total(), this->shard_.rows.row_shape()), uninitialized,
                             this->executor().resource());
      const int own = this->group.rank;
      const std::int64_t first = arriving_.begin(own), size = values_.row_size();
      std::copy_n(sent_ids_ + sent_.begin(own), sent_.size(own), ids_.data() + first);
      std::copy_n(sent_values_ + sent_.begin(own) * size, sent_.size(own) * size, values_.data() + first * size);
    });
    const int tag = this->agreement_.tag();
    this->for_each_other([&](int rank) {
      const std::int64_t arriving = this->agreement_.from(rank).rows, sent = sent_.size(rank);
      const std::int64_t size = this->shard_.rows.row_size(), first = sent_.begin(rank);
      const bool failed = this->has_failed();
      std::int64_t* const ids = failed ? nullptr : ids_.data() + arriving_.begin(rank);
      T* const values = failed ? nullptr : values_.data() + arriving_.begin(rank) * size;
      this->messages.receive(rank, tag, ids, detail::bytes_of<std::int64_t>(arriving));
      this->messages.receive(rank, tag, values, detail::saturated_product(arriving, this->row_bytes()));
      this->messages.send(rank, tag, sent_ids_ + first, detail::bytes_of<std::int64_t>(sent));
      this->messages.send(rank, tag, sent_values_ + first * size, detail::saturated_product(sent, this->row_bytes()));
    });
  }
  /// All that may fail: the update itself needs no more memory than merging the rows.
  void prepare_update() {
    this->attempt([&] {
      const auto positions = this->shard_.positions(ids_);
      this->shard_.prepare_states(state_count);
      std::vector<std::int64_t> rows(positions.values().begin(), positions.values().end());
      const SelectedRows<T> arrived(std::move(rows), this->shard_.rows.size(), std::move(values_));
      merge_add_into(this->executor(), arrived, merged_);
      name_ = Optimizer::name;
    });
  }
  void update() {
    if (state_count > 0) this->shard_.optimizer.swap(name_);
    std::array<LoDTensorView<State>, state_count> states;
    for (std::size_t i = 0; i < state_count; ++i) states[i] = this->shard_.state(i);
    Optimizer::step(this->executor(), this->shard_.rows.value(), states, merged_, options_);
    this->keep();
  }
  static std::array<LoDTensorView<State>, state_count> views(std::array<LoDTensor<State>, state_count>& tensors) {
    std::array<LoDTensorView<State>, state_count> all;
    for (std::size_t i = 0; i < state_count; ++i) all[i] = tensors[i].view();
    return all;
  }

  const SelectedRows<T>* gradient_;
  Options options_;
  SelectedRows<T> merged_;  // what this rank sends; later, what it has got
  std::vector<std::int64_t> sorted_ids_;
  LoDTensor<T> sorted_values_;
  const std::int64_t* sent_ids_ = nullptr;  // by the ranks that they go to
  const T* sent_values_ = nullptr;
  PartBegins sent_{1}, arriving_{1};
  std::vector<std::int64_t> ids_;  // what arrives, by ranks
  LoDTensor<T> values_;
  std::string name_;
  int step_ = 0;
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
