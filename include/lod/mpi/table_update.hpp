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
  static constexpr auto step = [](auto&... arguments) { sgd(arguments...); };
};
template <>
struct TableOptimizer<MomentumOptions> {
  static constexpr const char* name = "momentum";
  static constexpr std::array states{"velocity"};
  static auto numbers(const MomentumOptions& of) {
    return std::array{of.learning_rate, of.momentum, of.l2_decay, of.nesterov ? 1.0 : 0.0};
  }
  static constexpr auto step = [](auto&... arguments) { momentum(arguments...); };
};
template <>
struct TableOptimizer<AdagradOptions> {
  static constexpr const char* name = "adagrad";
  static constexpr std::array states{"squares"};
  static auto numbers(const AdagradOptions& of) { return std::array{of.learning_rate, of.epsilon}; }
  static constexpr auto step = [](auto&... arguments) { adagrad(arguments...); };
};
template <>
struct TableOptimizer<RmspropOptions> {
  static constexpr const char* name = "rmsprop";
  static constexpr std::array states{"squares", "velocity"};
  static auto numbers(const RmspropOptions& of) {
    return std::array{of.learning_rate, of.rho, of.epsilon, of.momentum};
  }
  static constexpr auto step = [](auto&... arguments) { rmsprop(arguments...); };
};
template <>
struct TableOptimizer<AdamOptions> {
  static constexpr const char* name = "adam";
  static constexpr std::array states{"mean", "squares"};
  static auto numbers(const AdamOptions& of) {
    return std::array{of.learning_rate, of.beta1, of.beta2, of.epsilon, static_cast<double>(of.step)};
  }
  static constexpr auto step = [](auto&... arguments) { adam(arguments...); };
};
template <>
struct TableOptimizer<FtrlOptions> {
  static constexpr const char* name = "ftrl";
  static constexpr std::array states{"squares", "linear"};
  static auto numbers(const FtrlOptions& of) {
    return std::array{of.learning_rate, of.l1, of.l2, of.learning_rate_power};
  }
  static constexpr auto step = [](auto&... arguments) { ftrl(arguments...); };
};

/// A step of an optimizer: of a parameter with its states, in an array, by a gradient.
template <class Options, class P, class State, std::size_t count, class G>
void take_step(const CpuExecutor& executor, P&& parameter, std::array<State, count> states, const G& gradient,
               const Options& options) {
  const auto call = [&]<std::size_t... i>(std::index_sequence<i...>) {
    TableOptimizer<Options>::step(executor, parameter, states[i]..., gradient, options);
  };
  call(std::make_index_sequence<count>());
}

/// One collective with sizes, then ids and rows of the gradient.
template <class Shard, class Options>
class Updating final : public TableSteps<Shard> {
  using T = typename Shard::Value;
  using State = typename Shard::State;
  using Optimizer = TableOptimizer<Options>;

 public:
  Updating(Shard& shard, const SelectedRows<T>& gradient, const Options& options)
      : TableSteps<Shard>(shard, Operation::TABLE_UPDATE), gradient_(&gradient), options_(options) {}

 private:
  static constexpr std::size_t state_count = Optimizer::states.size();

  bool take(int step) override {
    if (step == 0) agree();
    if (step == 1) send_rows();
    if (step == 2) prepare_update();
    if (step == 3) update();
    return step < 3;
  }
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
      const auto owners = this->shard_.owners(ids);
      const Sorted sorted(owners, size, ranks, this->what());
      if (!sorted.in_order()) {
        const auto order = sorted.order();
        sorted_ids_.reserve(ids.size());
        for (const std::int64_t i : order) sorted_ids_.push_back(ids[static_cast<std::size_t>(i)]);
        select_into(this->executor(), gradient_->value(), order, sorted_values_);
      }
      sent_ids_ = sorted.in_order() ? ids.data() : sorted_ids_.data();
      sent_values_ = sorted.in_order() ? gradient_->value().data() : std::as_const(sorted_values_).data();
      sent_ = PartBegins(ranks, [&](int rank) { return sorted.size(rank); });
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
    take_step(this->executor(), no_rows, no_states, SelectedRows<T>({}, 0, this->shard_.rows.row_shape()), options_);
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
    this->tell();
  }
  void update() {
    this->check_told();
    if (state_count > 0) this->shard_.optimizer.swap(name_);
    std::array<LoDTensorView<State>, state_count> states;
    for (std::size_t i = 0; i < state_count; ++i) states[i] = this->shard_.state(i);
    take_step(this->executor(), this->shard_.rows.value(), states, merged_, options_);
    this->keep();
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
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
