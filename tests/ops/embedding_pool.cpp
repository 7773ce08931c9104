// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/pool_types.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using lod::SelectedRows;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;
using Ids = LoDTensor<std::int64_t>;

namespace {

bool is_extreme(PoolType type) { return type == PoolType::MAX || type == PoolType::MIN; }

/// Ids without those that stand for nothing, and which rows of the ids they were.
template <class T>
struct Unpadded {
  Ids ids;
  Numbers rows;

  Unpadded(const lod::LoDTensorView<const std::int64_t>& all, const lod::EmbeddingPoolOptions<T>& options) {
    Lengths lengths = all.lod().lengths();
    Numbers kept;
    std::int64_t row = 0;
    for (std::int64_t& length : lengths.back()) {
      const std::int64_t end = row + length;
      for (; row < end; ++row) {
        const std::int64_t id = all.data()[row];
        if ((id >= 0 && id == options.padding_idx) || (id == -1 && options.skip_minus_one)) {
          --length;
        } else {
          kept.push_back(id);
          rows.push_back(row);
        }
      }
    }
    ids = Ids::from_values(LoD::from_lengths(lengths), {}, kept);
  }

  /// The rows that are looked up, each times its weight: what the operation never writes.
  LoDTensor<T> weighted_rows(const LoDTensor<T>& table, const lod::EmbeddingPoolOptions<T>& options) const {
    auto found = lod::embedding(table, ids);
    for (std::int64_t i = 0; i < found.rows() && options.weights; ++i) {
      for (T& number : found.row(i)) {
        number = static_cast<T>(number * options.weights->data()[rows[static_cast<std::size_t>(i)]]);
      }
    }
    return found;
  }
  /// Winners as rows of all ids.
  LoDTensor<std::int64_t> of_all(LoDTensor<std::int64_t> index) const {
    for (std::int64_t& row : index.values()) row = row < 0 ? -1 : rows[static_cast<std::size_t>(row)];
    return index;
  }
};

template <class T>
LoDTensor<T> dense_like(const LoDTensor<T>& table, const SelectedRows<T>& gradient) {
  return lod::to_dense(gradient).with_lod(table.lod());
}

}  // namespace

TEST_CASE("embedding_pool: rows looked up and pooled") {
  const auto table = LoDTensor<float>::from_values({}, {2}, std::vector<float>{1, 2, 3, -4, 5, 0});
  const auto ids = Ids::from_nested(std::vector<Numbers>{{0, 2, 0}, {}, {1}});
  const auto pool = [&](PoolType type, const lod::EmbeddingPoolOptions<float>& options = {}) {
    const auto y = lod::embedding_pool(table, ids, type, options);
    CHECK(y.levels() == 0);
    return std::vector<float>(y.values().begin(), y.values().end());
  };
  CHECK(pool(PoolType::SUM) == std::vector<float>{7, 4, 0, 0, 3, -4});
  CHECK(pool(PoolType::AVERAGE, {.pad_value = 9}) == std::vector<float>{7.F / 3, 4.F / 3, 9, 9, 3, -4});
  CHECK(pool(PoolType::MAX) == std::vector<float>{5, 2, 0, 0, 3, -4});
  CHECK(pool(PoolType::MIN, {.padding_idx = 0}) == std::vector<float>{5, 0, 0, 0, 3, -4});
  CHECK(pool(PoolType::AVERAGE, {.padding_idx = 2}) == std::vector<float>{1, 2, 0, 0, 3, -4});
  CHECK(pool(PoolType::FIRST, {.padding_idx = 1, .pad_value = 6}) == std::vector<float>{1, 2, 6, 6, 6, 6});
  CHECK(pool(PoolType::LAST, {.padding_idx = 0}) == std::vector<float>{5, 0, 0, 0, 3, -4});
  CHECK(pool(PoolType::FIRST) == std::vector<float>{1, 2, 0, 0, 3, -4});
  const auto weights = LoDTensor<float>::from_values({}, {}, std::vector<float>{1, 2, -1, 0.5F});
  CHECK(pool(PoolType::SUM, {.weights = weights}) == std::vector<float>{10, 0, 0, 0, 1.5F, -2});
  CHECK(pool(PoolType::SUM, {.weights = &weights}) == pool(PoolType::SUM, {.weights = weights}));
  CHECK(pool(PoolType::SUM, {.weights = nullptr}) == pool(PoolType::SUM));
  CHECK(pool(PoolType::LAST, {.weights = weights}) == std::vector<float>{-1, -2, 0, 0, 1.5F, -2});
}

TEST_CASE("embedding_pool: the bits of sequence_pool of the weighted rows, at any level, of slices too") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(4, 1, 5, [](Engine& engine, const Lengths& lengths) {
      const LoD index = LoD::from_lengths(lengths);
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        LoDTensor<T> table({9, row_size}), weights({index.rows()});
        if constexpr (std::integral<T>) {
          fill_small(engine, table);
          fill_small(engine, weights);
        } else {
          fill_real(engine, table);
          fill_real(engine, weights);
          table.data()[0] = -T{};  // -0
        }
        const Ids all = random_ids(engine, index, 9);
        const auto ids = all.between(all.size() / 3, all.size());
        for (int level = 0; level < index.levels(); ++level) {
          for (const bool weighted : {false, true}) {
            lod::EmbeddingPoolOptions<T> options{.padding_idx = weighted ? 4 : -1, .pad_value = 1, .level = level};
            if (weighted) options.weights = weights.between(weights.rows() - ids.rows(), weights.rows());
            const Unpadded<T> unpadded(ids, options);
            const auto rows = unpadded.weighted_rows(table, options);
            const lod::PoolOptions pool{.pad_value = 1, .level = level};
            const lod::CpuExecutor executor(2);
            for (const PoolType type : all_pool_types) {
              CAPTURE(static_cast<int>(type));
              CHECK(same_bits(lod::embedding_pool(executor, table, ids, type, options),
                              lod::sequence_pool(rows, type, pool)));
            }
            const auto greatest = lod::embedding_max_pool(executor, table, ids, options);
            const auto greatest_row = lod::sequence_max_pool(rows, pool);
            CHECK(same_bits(greatest.values, greatest_row.values));
            CHECK(same_bits(greatest.index, unpadded.of_all(greatest_row.index)));
            const auto least = lod::embedding_min_pool(executor, table, ids, options);
            const auto least_row = lod::sequence_min_pool(rows, pool);
            CHECK(same_bits(least.values, least_row.values));
            CHECK(same_bits(least.index, unpadded.of_all(least_row.index)));
          }
        }
      }
    });
  });
}

TEST_CASE("embedding_pool_grad: what merge_add makes of the gradients of the single rows, with ties") {
  for_each_random_lod(8, 1, 2, [](Engine& engine, const Lengths& lengths) {
    const LoD index = LoD::from_lengths(lengths);
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      const auto table = small_integers<float>(engine, {5, row_size});
      const auto weights = small_integers<float>(engine, {index.rows()});
      const Ids ids = random_ids(engine, index, 5);
      for (int level = 0; level < index.levels(); ++level) {
        for (const bool weighted : {false, true}) {
          lod::EmbeddingPoolOptions<float> options{.padding_idx = 2, .level = level};
          if (weighted) options.weights = weights;
          const Unpadded<float> unpadded(ids, options);
          const LoD kept = unpadded.ids.lod();
          const auto rows = unpadded.weighted_rows(table, options);
          const auto dy = small_integers<float>(engine, {index.size(level), row_size});
          const auto check = [&](const SelectedRows<float>& found, const LoDTensor<float>& drows) {
            auto terms = drows;  // times the weights: the gradient of mul
            for (std::int64_t k = 0; weighted && k < terms.rows(); ++k) {
              for (float& number : terms.row(k)) number *= weights.data()[unpadded.rows[static_cast<std::size_t>(k)]];
            }
            const auto expected = lod::merge_add(lod::embedding_grad(terms, unpadded.ids, 5));
            CHECK_FALSE(found.contains(2));
            for (std::size_t i = 1; i < found.rows().size(); ++i) CHECK(found.rows()[i - 1] < found.rows()[i]);
            // Numbers, not bits: the sign of a zero may differ.
            const auto a = lod::to_dense(found), b = lod::to_dense(expected);
            CHECK(std::equal(a.values().begin(), a.values().end(), b.values().begin(), b.values().end()));
          };
          const lod::CpuExecutor executor(2);
          for (const PoolType type : all_pool_types) {
            if (is_extreme(type)) continue;
            check(lod::embedding_pool_grad(executor, dy, ids, 5, type, options),
                  lod::sequence_pool_grad(dy, kept, type, {.level = level}));
          }
          const auto greatest = lod::sequence_max_pool(rows, {.level = level}).index;
          check(lod::embedding_max_pool_grad(executor, dy, unpadded.of_all(greatest), ids, 5, options),
                lod::sequence_max_pool_grad(dy, greatest, kept, {.level = level}));
          const auto least = lod::sequence_min_pool(rows, {.level = level}).index;
          check(lod::embedding_min_pool_grad(executor, dy, unpadded.of_all(least), ids, 5, options),
                lod::sequence_min_pool_grad(dy, least, kept, {.level = level}));
        }
      }
    }
  });
}

TEST_CASE("embedding_pool_grad, embedding_pool_weights_grad: agree with differences") {
  Engine engine(7);
  const Ids ids = random_ids(engine, LoD::from_lengths({{2, 0, 1}, {4, 0, 7}}), 6);
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    for (const int level : {0, 1}) {
      auto table = real_numbers<double>(engine, {6, row_size});
      auto weights = real_numbers<double>(engine, ids.lod(), {});
      const lod::EmbeddingPoolOptions<double> options{.weights = weights.view(), .padding_idx = 2, .level = level};
      for (const PoolType type : all_pool_types) {
        CAPTURE(static_cast<int>(type));
        const auto pool = [&](const auto&) { return lod::embedding_pool(table, ids, type, options); };
        check_gradient(engine, table, pool, [&](const auto& dy) {
          if (!is_extreme(type)) return dense_like(table, lod::embedding_pool_grad(dy, ids, 6, type, options));
          const auto index = type == PoolType::MAX ? lod::embedding_max_pool(table, ids, options).index
                                                   : lod::embedding_min_pool(table, ids, options).index;
          return dense_like(table, lod::embedding_max_pool_grad(dy, index, ids, 6, options));
        });
        check_gradient(engine, weights, pool,
                       [&](const auto& dy) { return lod::embedding_pool_weights_grad(dy, table, ids, type, options); });
      }
    }
  }
}

TEST_CASE("embedding_pool: ids that stand for nothing are as if they were not there, on every executor") {
  for_each_random_lod(2, 1, 2, [](Engine& engine, const Lengths& lengths) {
    const LoD index = LoD::from_lengths(lengths);
    for (const std::int64_t row_size : {1, 17}) {
      const auto table = small_integers<float>(engine, {4, row_size});
      const auto weights = small_integers<float>(engine, {index.rows()});
      Ids ids = random_ids(engine, index, 4);
      for (std::int64_t& id : ids.values()) id = random_number(engine, 0, 3) == 0 ? -1 : id;
      for (const int kind : {0, 1, 2, 3}) {
        CAPTURE(kind);
        const int level = static_cast<int>(random_number(engine, 0, index.levels() - 1));
        lod::EmbeddingPoolOptions<float> options{
            .padding_idx = kind > 1 ? 1 : -1, .skip_minus_one = true, .pad_value = 5, .level = level};
        if (kind % 2 == 1) options.weights = weights;
        const Unpadded<float> unpadded(ids, options);
        const auto rows = unpadded.weighted_rows(table, options);
        const LoD kept = unpadded.ids.lod();
        LoDTensor<float> kept_weights({kept.rows()});
        for (std::int64_t k = 0; k < kept.rows(); ++k) {
          kept_weights.data()[k] = weights.data()[unpadded.rows[static_cast<std::size_t>(k)]];
        }
        lod::EmbeddingPoolOptions<float> plain{.pad_value = 5, .level = level};
        if (options.weights) plain.weights = kept_weights;
        const auto dy = small_integers<float>(engine, {index.size(level), row_size});
        for_each_executor([&](const auto& executor) {
          const auto check_weights_grad = [&](PoolType type) {
            const auto found = lod::embedding_pool_weights_grad(executor, dy, table, ids, type, options);
            const auto expected = lod::embedding_pool_weights_grad(dy, table, unpadded.ids, type, plain);
            LoDTensor<float> spread(index, {});
            for (std::int64_t k = 0; k < kept.rows(); ++k) {
              spread.data()[unpadded.rows[static_cast<std::size_t>(k)]] = expected.data()[k];
            }
            CHECK(same_bits(found, spread));
          };
          for (const PoolType type : all_pool_types) {
            CAPTURE(static_cast<int>(type));
            CHECK(same_bits(lod::embedding_pool(executor, table, ids, type, options),
                            lod::sequence_pool(rows, type, {.pad_value = 5, .level = level})));
            check_weights_grad(type);
            if (is_extreme(type)) continue;
            const auto found = lod::embedding_pool_grad(executor, dy, ids, 4, type, options);
            const auto expected = lod::embedding_pool_grad(dy, unpadded.ids, 4, type, plain);
            CHECK(found.rows() == expected.rows());
            CHECK(same_bits(found.value(), expected.value()));
          }
          const auto check_extreme = [&](const auto& found, const auto& expected) {
            CHECK(same_bits(found.values, expected.values));
            CHECK(same_bits(found.index, unpadded.of_all(expected.index)));
            const auto gradient = lod::embedding_max_pool_grad(executor, dy, found.index, ids, 4, options);
            const auto of_kept = lod::embedding_max_pool_grad(dy, expected.index, unpadded.ids, 4, plain);
            CHECK(gradient.rows() == of_kept.rows());
            CHECK(same_bits(gradient.value(), of_kept.value()));
          };
          check_extreme(lod::embedding_max_pool(executor, table, ids, options),
                        lod::sequence_max_pool(rows, {.pad_value = 5, .level = level}));
          check_extreme(lod::embedding_min_pool(executor, table, ids, options),
                        lod::sequence_min_pool(rows, {.pad_value = 5, .level = level}));
        });
      }
    }
  });
}

TEST_CASE("embedding_pool: numbers of torch.nn.functional.embedding_bag with padding_idx=2, and its gradients") {
  const auto table = LoDTensor<double>::from_values({}, {2}, std::vector<double>{1, -2, 3, 4, -5, 6, 7, -8});
  const auto ids = Ids::from_nested(std::vector<Numbers>{{0, 2, 1, 2}, {2, 2}, {}, {3, 1, 2}, {0}});
  const auto weights = LoDTensor<double>::from_values({}, {}, std::vector<double>{2, 3, -1, 4, 5, 6, 0.5, 2, 7, -3});
  const auto dy = LoDTensor<double>::from_values({}, {2}, std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  using Values = std::vector<double>;
  const auto values = [](const auto& x) { return Values(x.values().begin(), x.values().end()); };
  lod::EmbeddingPoolOptions<double> options{.padding_idx = 2};
  for_each_executor([&](const auto& executor) {
    const auto check = [&](PoolType type, const Values& y, const Values& dtable) {
      CHECK(values(lod::embedding_pool(executor, table, ids, type, options)) == y);
      const auto gradient =
          type == PoolType::MAX
              ? lod::embedding_max_pool_grad(executor, dy, lod::embedding_max_pool(executor, table, ids, options).index,
                                             ids, 4, options)
              : lod::embedding_pool_grad(executor, dy, ids, 4, type, options);
      CHECK(values(lod::to_dense(gradient)) == dtable);
    };
    options.weights = nullptr;
    check(PoolType::SUM, {4, 2, 0, 0, 0, 0, 10, -4, 1, -2}, {10, 12, 8, 10, 0, 0, 7, 8});
    check(PoolType::AVERAGE, {2, 1, 0, 0, 0, 0, 5, -2, 1, -2}, {9.5, 11, 4, 5, 0, 0, 3.5, 4});
    check(PoolType::MAX, {3, 4, 0, 0, 0, 0, 7, 4, 1, -2}, {9, 10, 1, 10, 0, 0, 7, 0});
    options.weights = weights;
    check(PoolType::SUM, {-1, -8, 0, 0, 0, 0, 9.5, 4, -3, 6}, {-25, -26, 13, 14, 0, 0, 3.5, 4});
    CHECK(values(lod::embedding_pool_weights_grad(executor, dy, table, ids, PoolType::SUM, options)) ==
          Values{-3, 0, 11, 0, 0, 0, -15, 53, 0, -11});
  });
}

TEST_CASE("embedding_pool: the id -1 is padding by an option only, and no other id below 0 is") {
  const auto table = LoDTensor<float>::from_values({}, {2}, std::vector<float>{1, 2, 3, -4, 5, 0});
  const auto ids = Ids::from_nested(std::vector<Numbers>{{0, -1, 2}, {-1, -1}, {1}});
  const auto bad = Ids::from_nested(std::vector<Numbers>{{0, -2, 2}, {-1, -1}, {1}});
  LoDTensor<float> y({3, 2});
  SelectedRows<float> gradient({1}, 3, {2});
  for_each_executor([&](const auto& executor) {
    const auto average = lod::embedding_pool(executor, table, ids, PoolType::AVERAGE, {.skip_minus_one = true});
    CHECK(std::vector<float>(average.values().begin(), average.values().end()) ==
          std::vector<float>{3, 1, 0, 0, 3, -4});
    const auto won = lod::embedding_max_pool(executor, table, ids, {.skip_minus_one = true}).index;
    CHECK(Numbers(won.values().begin(), won.values().end()) == Numbers{2, 0, -1, -1, 5, 5});
    check_throws<lod::OutOfRange>([&] { lod::embedding_pool_into(executor, table, ids, PoolType::SUM, {}, y); },
                                  "embedding_pool: id -1 at position 1, expected 0 to 2", y);
    check_throws<lod::OutOfRange>(
        [&] { lod::embedding_pool_into(executor, table, bad, PoolType::SUM, {.skip_minus_one = true}, y); },
        "embedding_pool: id -2 at position 1, expected -1 to 2", y);
    check_throws<lod::OutOfRange>(
        [&] { lod::embedding_pool_grad_into(executor, y, bad, 3, PoolType::SUM, {.skip_minus_one = true}, gradient); },
        "embedding_pool_grad: id -2 at position 1, expected -1 to 2", gradient.value());
  });
}

TEST_CASE("embedding_pool: no sequences, empty ones only, ids in rows of shape {1}, rows without elements") {
  const auto table = LoDTensor<float>::from_values({}, {2}, std::vector<float>{1, 2, 3, 4});
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{2}, {0, 0}}}) {
    const Ids ids(LoD::from_lengths(lengths), {});
    for (const PoolType type : all_pool_types) {
      const auto y = lod::embedding_pool(table, ids, type, {.pad_value = 5});
      CHECK(y.rows() == ids.lod().size(ids.levels() - 1));
      for (const float value : y.values()) CHECK(value == 5);
      CHECK(lod::embedding_pool_weights_grad(y, table, ids, type).rows() == 0);
      if (!is_extreme(type)) CHECK(lod::embedding_pool_grad(y, ids, 2, type).rows().empty());
    }
    const auto index = lod::embedding_max_pool(table, ids).index;
    for (const std::int64_t row : index.values()) CHECK(row == -1);
  }
  const Ids wide = Ids::from_values(LoD::from_lengths({{2, 1}}), {1}, Numbers{1, 0, 1});
  const auto y = lod::embedding_pool(table, wide, PoolType::SUM);
  CHECK(y.shape() == Numbers{2, 1, 2});
  CHECK(lod::embedding_pool_grad(y, wide, 2, PoolType::SUM).dense_shape() == Numbers{2, 2});
  CHECK(lod::embedding_pool_weights_grad(y, table, wide, PoolType::SUM).shape() == Numbers{3, 1});
  const LoDTensor<float> narrow({2, 0});
  CHECK(lod::embedding_pool(narrow, wide, PoolType::AVERAGE).shape() == Numbers{2, 1, 0});
}

TEST_CASE("embedding_pool: the same bits for any number of threads; a second call allocates nothing") {
  Engine engine(3);
  for (const std::int64_t row_size : {3, 20}) {
    const std::int64_t size = slow ? 500 : 3000, height = slow ? 1000 : 5000;
    const Ids ids = random_ids(engine, giant_among_short(engine, size, 17 * grain / 16 / row_size + 600), height);
    const auto table = real_numbers<float>(engine, {height, row_size});
    const auto weights = real_numbers<float>(engine, ids.lod(), {});
    const lod::EmbeddingPoolOptions<float> plain, weighted{.weights = weights.view(), .padding_idx = 7};
    const auto dy = lod::embedding_pool(lod::CpuExecutor(1), table, ids, PoolType::AVERAGE);
    std::vector<LoDTensor<float>> expected;
    for (const int threads : {1, 2, 7}) {
      CountingResource resource;
      const lod::CpuExecutor executor(threads, &resource);
      std::vector<LoDTensor<float>> results(16, LoDTensor<float>(&resource));
      SelectedRows<float> gradient(&resource);
      LoDTensor<std::int64_t> index(&resource);
      const auto run = [&] {
        std::size_t next = 0;
        for (const auto& options : {plain, weighted}) {
          lod::embedding_pool_into(executor, table, ids, PoolType::SUM, options, results[next++]);
          lod::embedding_pool_into(executor, table, ids, PoolType::MIN, options, results[next++]);
          lod::embedding_max_pool_into(executor, table, ids, options, results[next++], index);
          lod::embedding_pool_weights_grad_into(executor, dy, table, ids, PoolType::SQRT, options, results[next++]);
          lod::embedding_pool_grad_into(executor, dy, ids, height, PoolType::AVERAGE, options, gradient);
          lod::to_dense_into(executor, gradient, results[next++]);
          lod::embedding_max_pool_grad_into(executor, dy, index, ids, height, options, gradient);
          lod::to_dense_into(executor, gradient, results[next++]);
          lod::embedding_min_pool_into(executor, table, ids, options, results[next++], index);
          lod::embedding_min_pool_grad_into(executor, dy, index, ids, height, options, gradient);
          lod::to_dense_into(executor, gradient, results[next++]);
        }
      };
      run();
      run();
      const int before = resource.allocations;
      run();
      CHECK(resource.allocations == before);
      if (threads == 1) expected = results;
      for (std::size_t i = 0; i < results.size(); ++i) {
        CAPTURE(i);
        CHECK(same_bits(results[i], expected[i]));
      }
    }
  }
}

TEST_CASE("embedding_pool: large results, rows of whole vectors and others have the bits of sequence_pool") {
  for (const std::int64_t row_size : {8, 16, 32, 63, 64, 65, 128}) {
    CAPTURE(row_size);
    lod_test::Engine engine(static_cast<std::uint64_t>(row_size));
    const auto table = real_numbers<float>(engine, LoD::from_lengths({{50}}), {row_size});
    const std::int64_t sequences = 256 * lod_test::grain / (4 * row_size) + 5;  // more than caches are taken to hold
    Numbers lengths(static_cast<std::size_t>(sequences));
    for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::int64_t>(i % 6);
    Ids ids(LoD::from_lengths({lengths}), lod::Shape{});
    for (std::int64_t& id : ids.values()) id = static_cast<std::int64_t>(engine() % 50);
    const auto expected = lod::sequence_pool(lod::CpuExecutor(1), lod::embedding(table, ids), PoolType::SUM);
    for (const int threads : lod_test::thread_counts) {
      CHECK(same_bits(lod::embedding_pool(lod::CpuExecutor(threads), table, ids, PoolType::SUM), expected));
    }
  }
}

TEST_CASE("embedding_pool: sums of narrow rows have the bits of sequence_pool at every length") {
  Numbers lengths(40);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::int64_t>(i);
  lengths.push_back(600);
  const LoD index = LoD::from_lengths({lengths});
  for_each_type(Types<float, double, std::int64_t, lod::bfloat16>(), [&]<class T>(std::type_identity<T>) {
    Engine engine(first_seed());
    CAPTURE(first_seed());
    for (const std::int64_t row_size : {2, 5, 7}) {
      CAPTURE(row_size);
      LoDTensor<T> table({50, row_size});
      for (T& number : table.values()) number = static_cast<T>(static_cast<double>(engine() % 20001) / 7 - 1000);
      std::fill_n(table.data(), row_size, static_cast<T>(-0.0));
      const Ids ids = random_ids(engine, index, 50);
      for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE}) {
        CHECK(same_bits(lod::embedding_pool(lod::CpuExecutor(1), table, ids, type),
                        lod::sequence_pool(lod::CpuExecutor(1), lod::embedding(table, ids), type)));
      }
    }
  });
}

TEST_CASE("embedding_pool: sums of many rows stay accurate") {
  const Ids ids(LoD::from_lengths({{1 << 20}}), {});
  auto table = LoDTensor<float>({1, 1});
  table.data()[0] = 0.1F;
  const double exact = static_cast<double>(0.1F) * (1 << 20);
  CHECK(lod::embedding_pool(table, ids, PoolType::SUM).data()[0] == doctest::Approx(exact).epsilon(1e-6));
  const auto dy = lod::embedding_pool(table, ids, PoolType::AVERAGE);
  CHECK(lod::to_dense(lod::embedding_pool_grad(dy, ids, 1, PoolType::AVERAGE)).data()[0] ==
        doctest::Approx(dy.data()[0]).epsilon(1e-6));
}

TEST_CASE("embedding_pool: bad arguments throw and change nothing; a view may be the output") {
  const LoDTensor<float> table({3, 2}), dy({2, 2}), weights({3});
  const lod::CpuExecutor executor(1);
  const auto ids = Ids::from_nested(std::vector<Numbers>{{0, 2}, {1}});
  const Ids plain({3}), pairs(ids.lod(), {2});
  LoDTensor<float> y({2, 2}), other({3, 2});
  const auto pool = [&](const Ids& list, const lod::EmbeddingPoolOptions<float>& options = {}) {
    return [&, options] { lod::embedding_pool_into(executor, table, list, PoolType::SUM, options, y); };
  };
  check_throws<lod::InvalidLoD>(pool(plain), "embedding_pool: the tensor has no level", y);
  const auto no_type = static_cast<PoolType>(99);
  check_throws<lod::OutOfRange>([&] { lod::embedding_pool_into(executor, table, ids, no_type, {}, y); },
                                "embedding_pool: PoolType 99, expected SUM to LAST", y);
  check_throws<lod::OutOfRange>(
      [&] { lod::embedding_pool_weights_grad_into(executor, dy, table, ids, no_type, {}, y); },
      "embedding_pool_weights_grad: PoolType 99, expected SUM to LAST", y);
  check_throws<lod::OutOfRange>([&] { return lod::embedding_pool_grad(executor, dy, ids, 3, no_type); },
                                "embedding_pool_grad: PoolType 99, expected SUM to LAST", y);
  check_throws<std::invalid_argument>([&] { return lod::embedding_pool_grad(executor, dy, ids, 3, PoolType::MIN); },
                                      "use embedding_max_pool_grad or embedding_min_pool_grad with the index", y);
  check_throws<lod::OutOfRange>(pool(ids, {.level = 1}), "level 1 of a LoD with 1 levels", y);
  check_throws<lod::ShapeMismatch>(pool(pairs), "embedding_pool: ids: rows of shape {2}, expected one id a row", y);
  check_throws<lod::ShapeMismatch>(pool(ids, {.weights = dy}),
                                   "embedding_pool: weights of shape {2, 2}, expected 3 numbers, one for each id", y);
  const LoDTensor<float> none({0});
  check_throws<lod::ShapeMismatch>(pool(ids, {.weights = none}), "embedding_pool: weights of shape {0}", y);
  SelectedRows<float> dtable({1}, 2, {});
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{3}, INT64_MAX}) {
    auto broken = ids;
    broken.data()[2] = bad;
    check_throws<lod::OutOfRange>(pool(broken), "at position 2, expected 0 to 2", y);
    LoDTensor<std::int64_t> index({1});
    check_throws<lod::OutOfRange>([&] { lod::embedding_max_pool_into(executor, table, broken, {}, y, index); },
                                  "embedding_max_pool: id ", y);
    check_throws<lod::OutOfRange>(
        [&] { lod::embedding_pool_grad_into(executor, dy, broken, 3, PoolType::SUM, {}, dtable); },
        "embedding_pool_grad: id ", dtable.value());
    check_throws<lod::OutOfRange>(
        [&] { lod::embedding_pool_weights_grad_into(executor, dy, table, broken, PoolType::SUM, {}, y); },
        "embedding_pool_weights_grad: id ", y);
  }
  const auto grad = [&](const LoDTensor<float>& d, PoolType type) {
    return [&, type] { lod::embedding_pool_grad_into(executor, d, ids, 3, type, {}, dtable); };
  };
  check_throws<lod::ShapeMismatch>(grad(other, PoolType::SUM), "embedding_pool_grad: dy: 3 rows, expected 2",
                                   dtable.value());
  check_throws<std::invalid_argument>(
      grad(dy, PoolType::MAX), "use embedding_max_pool_grad or embedding_min_pool_grad with the index", dtable.value());
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::embedding_pool_weights_grad_into(executor, LoDTensor<float>({2, 5}), table, ids, PoolType::SUM, {}, y);
      },
      "embedding_pool_weights_grad: dy: rows of shape {5}, expected {2}", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::embedding_max_pool_grad_into(executor, dy, LoDTensor<std::int64_t>({2, 3}), ids, 3, {}, dtable);
      },
      "embedding_max_pool_grad: index: rows of shape {3}, expected {2}", dtable.value());
  CHECK(dtable.rows() == Numbers{1});
  lod::embedding_pool_into(executor, table, ids, PoolType::SUM, {.weights = weights}, y.view());
  check_throws<lod::ShapeMismatch>(
      [&] { lod::embedding_pool_into(executor, table, ids, PoolType::SUM, {}, other.view()); },
      ": a view of shape {3, 2} with 0 levels", other);
}

TEST_CASE("infer_embedding_pool: allows what the operations give, and refuses what they do") {
  const LoDTensor<float> table({9, 2, 3});
  for_each_random_batch<float>(1, {}, [&](Engine& engine, const LoDTensor<float>& x) {
    const LoDTensor<std::int64_t> ids(x.lod(), {});
    const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
    const lod::EmbeddingPoolDescOptions options{.weights = describe(x), .level = level};
    const auto infer = [&](const auto& rows, const auto& list) {
      return lod::infer_embedding_pool(rows, list, lod::PoolType::SUM, options);
    };
    const auto y = lod::embedding_pool(table, ids, lod::PoolType::SUM, {.weights = x, .level = level});
    check_inference(y, infer, describe(table), describe(ids));
    CHECK(infer(describe(table), describe(ids)).tensor.dims == std::vector<std::int64_t>{-1, 2, 3});
    const auto winners = lod::embedding_max_pool(table, ids, {.level = level});
    check_inferred(winners.index, lod::infer_embedding_max_pool(describe(table), describe(ids), options).index);
    check_inferred(winners.values, lod::infer_embedding_min_pool(describe(table), describe(ids), options).values);
  });
  const auto rows = describe(table), ids = described(lod::DataType::INT64, {15}, 2);
  const auto infer = [](const auto& a, const auto& b, const lod::EmbeddingPoolDescOptions& options = {}) {
    return lod::infer_embedding_pool(a, b, lod::PoolType::SUM, options);
  };
  CHECK_THROWS_AS(infer(rows, described(lod::DataType::INT16, {15}, 2)), lod::ShapeMismatch);
  CHECK_THROWS_AS(infer(rows, described(lod::DataType::INT64, {15}, 0)), lod::InvalidLoD);
  CHECK_THROWS_AS(infer(rows, described(lod::DataType::INT64, {15, 2}, 1)), lod::ShapeMismatch);
  CHECK_THROWS_AS(infer(rows, ids, {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_AS(infer(rows, ids, {.weights = described(lod::DataType::FP32, {14})}), lod::ShapeMismatch);
  CHECK_THROWS_AS(infer(rows, ids, {.weights = described(lod::DataType::FP64, {15})}), lod::ShapeMismatch);
  CHECK_THROWS_AS(infer(described(lod::DataType::COMPLEX64, {9, 2}), ids), lod::ShapeMismatch);
}
