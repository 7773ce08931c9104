// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients against differences of what the operations give: in double, on random batches with empty sequences at
/// every level, of every row size, by any executor. What is compared is said beside the samples of the operations, by
/// differences(op::f_grad(), on) for a batch, by differences_of_rows for row-sparse tensors: a gradient without either
/// does not compile here.
#pragma once

#include "catalogue/catalogue.hpp"
#include "support/device_call.hpp"
#include "support/gradient.hpp"
#include "support/interpreted_kernels.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/register_cases.hpp"
#include <lod/ops.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace lod_test {

/// The executor, and checks of gradients by tensors that are brought to its device.
template <lod::Executor E>
class GradientsBy {
 public:
  using Device = typename E::device;
  using Batch = lod::LoDTensor<double>;
  using There = lod::LoDTensor<double, Device>;
  using Function = std::function<There(const There&)>;

  explicit GradientsBy(Engine& random) : engine_(random) {}

  template <class X>
  auto there(const X& x) const {
    return Transfer<Device>::there(executor, x);
  }
  template <class X>
  auto here(const X& x) const {
    return Transfer<Device>::here(executor, x);
  }

  /// Checks that grad(dy) is the gradient of f by x, where `what` tells it from others of the operation. Compiled once.
  /// On GPUs some 20 to 40 elements of x are moved, spread over it, or 5 to 10 where that is slow; on CPUs all.
  void check(Batch& x, const Function& f, const Function& grad) { check("of the first argument", x, f, grad); }
  void check(const char* what, Batch& x, const Function& f, const Function& grad) {
    ++count_;
    INFO(what);
    const auto run = [&](const Function& g) { return [this, &g](const Batch& at) { return here(g(there(at))); }; };
    std::size_t stride = slow ? 7 : 1;
    if constexpr (!std::same_as<Device, lod::Cpu>) {
      const std::size_t moved = slow || kernels_are_interpreted() ? 5 : 20;
      stride = std::max<std::size_t>(x.values().size() / moved, 1);
    }
    check_gradient(engine_, x, run(f), run(grad), stride);
  }
  std::int64_t count() const { return count_; }

  // Tensors on the CPU: of zeros; of random numbers, between -4 and 4, -1 and 1, 1 and 3; of numbers so far apart that
  // their order does not change.

  Batch zeros(const lod::Shape& shape) const { return Batch(shape); }
  Batch zeros(const lod::LoD& lod, const lod::Shape& row_shape) const { return Batch(lod, row_shape); }
  Batch reals(const lod::Shape& shape) { return real_numbers<double>(engine_, shape); }
  Batch reals(const lod::LoD& lod, const lod::Shape& row_shape) {
    return real_numbers<double>(engine_, lod, row_shape);
  }
  Batch weights(const lod::Shape& shape) { return small_reals<double>(engine_, shape); }
  Batch divisors(const lod::Shape& shape) { return away_from_zero(reals(shape)); }
  Batch divisors(const lod::LoD& lod, const lod::Shape& row_shape) { return away_from_zero(reals(lod, row_shape)); }
  Batch apart(const lod::Shape& shape) const { return set_apart(zeros(shape)); }
  Batch apart(const lod::LoD& lod, const lod::Shape& row_shape) const { return set_apart(zeros(lod, row_shape)); }

  std::int64_t random(std::int64_t least, std::int64_t greatest) { return random_number(engine_, least, greatest); }
  std::vector<std::int64_t> random(std::int64_t count, std::int64_t least, std::int64_t greatest) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(random(least, greatest));
    return all;
  }
  std::vector<bool> mask(std::int64_t size) { return random_mask(engine_, size); }

  E executor;

 protected:
  Engine& engine_;

 private:
  static Batch away_from_zero(Batch x) {
    for (double& number : x.values()) number = 2 + number / 4;
    return x;
  }
  static Batch set_apart(Batch x) {
    for (std::int64_t i = 0; double& number : x.values()) number = static_cast<double>((i++ - 3) * 37 % 101) / 10;
    return x;
  }

  std::int64_t count_ = 0;
};

/// The same beside a batch.
template <lod::Executor E>
class GradientsOfBatch : public GradientsBy<E> {
 public:
  using Batch = typename GradientsBy<E>::Batch;

  GradientsOfBatch(Engine& engine, const Batch& batch)
      : GradientsBy<E>(engine),
        x(batch),
        index(batch.lod()),
        level(static_cast<int>(random_number(engine, 0, batch.levels() - 1))),
        row_size(batch.row_size()) {}

  /// Numbers of rows of a table with `height` rows, on the device.
  auto ids(std::int64_t height) { return ids(index, height); }
  auto ids(const lod::LoD& lod, std::int64_t height) { return this->there(random_ids(this->engine_, lod, height)); }

  Batch x;
  lod::LoD index;  ///< its levels
  int level;       ///< any of them
  std::int64_t row_size;
};

/// The same beside listed rows of a table with 6 rows.
template <lod::Executor E>
class GradientsOfRows : public GradientsBy<E> {
 public:
  using Device = typename E::device;
  using Batch = typename GradientsBy<E>::Batch;
  using There = typename GradientsBy<E>::There;
  using RowsThere = lod::SelectedRows<double, Device>;

  GradientsOfRows(Engine& engine, std::int64_t size_of_row)
      : GradientsBy<E>(engine),
        row_size(size_of_row),
        value(this->reals({7, row_size})),
        dense(this->reals({6, row_size})) {}

  /// These values of the rows `ids`.
  RowsThere rows(const There& values) const {
    return this->there(lod::SelectedRows<double>(ids, 6, this->here(values)));
  }
  /// As what was merged: on a GPU with places that name no row, whose values do not count.
  RowsThere in_places(const There& values) const {
    if constexpr (std::same_as<Device, lod::Cpu>) {
      return RowsThere({0, 1, 2, 3, 5}, 6, values);
    } else {
      lod::LoDTensor<std::int64_t> places({7});
      for (std::size_t i = 0; const std::int64_t id : {0, 1, 2, 3, 5, -1, -1}) places.values()[i++] = id;
      Batch rest({2, row_size});
      std::fill(rest.values().begin(), rest.values().end(), std::numeric_limits<double>::quiet_NaN());
      return RowsThere(this->there(places), 6, lod::concat(this->executor, values, this->there(rest)));
    }
  }
  There values_of(const RowsThere& g) const { return this->there(Batch(this->here(g).value())); }

  const std::vector<std::int64_t> ids = {1, 0, 2, 5, 5, 3, 5};
  std::int64_t row_size;
  Batch value;  ///< of the rows listed
  Batch dense;  ///< of the whole table
};

/// Calls body(on) for small random batches: on GPUs each of a row size that takes its turn, on CPUs smaller ones of
/// each. Returns how many gradients were checked. Compiled once, as is the next one.
template <lod::Executor E>
std::int64_t for_each_small_batch(const std::function<void(GradientsOfBatch<E>&)>& body) {
  constexpr bool on_cpu = std::same_as<typename E::device, lod::Cpu>;
  constexpr int batches = on_cpu ? 8 : slow ? 2 : 6;
  constexpr std::int64_t row_sizes[] = {1, 3, 8, 17, 64};
  std::size_t turn = 0;
  std::int64_t count = 0;
  for_each_random_lod(batches, 1, 3, [&](Engine& engine, const Lengths& lengths) {
    const lod::LoD index = lod::LoD::from_lengths(lengths);
    if (index.rows() > (on_cpu ? 16 : 100)) return;
    const auto check = [&](std::int64_t row_size) {
      INFO("row size ", row_size);
      GradientsOfBatch<E> on(engine, real_numbers<double>(engine, index, {row_size}));
      body(on);
      count += on.count();
    };
    if (on_cpu) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) check(row_size);
    } else {
      check(row_sizes[turn++ % 5]);
    }
  });
  return count;
}
/// The same for listed rows.
template <lod::Executor E>
std::int64_t for_each_row_size(const std::function<void(GradientsOfRows<E>&)>& body) {
  std::int64_t count = 0;
  for (const std::int64_t row_size : {1, 3, 8, 17, 64}) {
    INFO("row size ", row_size);
    Engine engine(60);
    GradientsOfRows<E> on(engine, row_size);
    body(on);
    count += on.count();
  }
  return count;
}

/// A case for each operation that is a gradient, and for those that are the gradients of others.
template <lod::Executor E>
struct Differences {
  static constexpr const char* name = "gradient against differences";
  template <class Op>
  static constexpr bool on_batches = requires(GradientsOfBatch<E>& on) {
    differences(Op(), on);
  };
  template <class Op>
  static constexpr bool on_rows = requires(GradientsOfRows<E>& on) {
    differences_of_rows(Op(), on);
  };
  template <class Op>
  static constexpr bool holds_for = on_batches<Op> || on_rows<Op> || lod::operation::name_of<Op>.ends_with("_grad");
  template <class Op>
  static void check() {
    static_assert(on_batches<Op> || on_rows<Op>, "a gradient is compared with differences, beside its sample");
    std::int64_t count = 0;
    if constexpr (on_batches<Op>) count += for_each_small_batch<E>([](auto& on) { differences(Op(), on); });
    if constexpr (on_rows<Op>) count += for_each_row_size<E>([](auto& on) { differences_of_rows(Op(), on); });
    CHECK(count > 0);
  }
};

}  // namespace lod_test
