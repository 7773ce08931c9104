// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

using lod::CtcAlignOptions;
using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

using Labels = std::vector<std::vector<int>>;
using LabelTypes = Types<bool, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t>;

template <class T>
Tree<T> reference_align(const Tree<T>& tree, int levels, const CtcAlignOptions& options) {
  Tree<T> aligned;
  if (levels > 0) {
    for (const auto& part : tree.parts) aligned.parts.push_back(reference_align(part, levels - 1, options));
    return aligned;
  }
  for (std::size_t i = 0; i < tree.parts.size(); ++i) {
    const T label = tree.parts[i].row[0];
    const bool repeated = i > 0 && label == tree.parts[i - 1].row[0];
    const bool blank = static_cast<std::int64_t>(label) == options.blank;
    if (!blank && !(repeated && options.merge_repeated)) aligned.parts.push_back(tree.parts[i]);
  }
  return aligned;
}

}  // namespace

TEST_CASE("ctc_align: blanks and repetitions leave, a blank between two keeps both") {
  const auto x = LoDTensor<int>::from_nested(Labels{{0, 1, 1, 0, 1, 2, 2, 0}, {}, {0, 0}, {2, 3, 3}});
  CHECK(same_bits(lod::ctc_align(x), LoDTensor<int>::from_nested(Labels{{1, 1, 2}, {}, {}, {2, 3}})));
  CHECK(same_bits(lod::ctc_align(x, {.merge_repeated = false}),
                  LoDTensor<int>::from_nested(Labels{{1, 1, 1, 2, 2}, {}, {}, {2, 3, 3}})));
  CHECK(same_bits(lod::ctc_align(x, {.blank = 2}), LoDTensor<int>::from_nested(Labels{{0, 1, 0, 1, 0}, {}, {0}, {3}})));
  // The first row of a sequence does not follow the last one of the sequence before it.
  CHECK(same_bits(lod::ctc_align(x.between(2, 4), {.blank = 9}), LoDTensor<int>::from_nested(Labels{{0}, {2, 3}})));
  const auto same = LoDTensor<int>::from_nested(Labels{{5}, {5}, {}, {5}});
  CHECK(same_bits(lod::ctc_align(same), same));
}

TEST_CASE("ctc_align: agrees with nested loops for slices of every type and depth") {
  for_each_type(LabelTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(8, 1, 5, [](Engine& engine, const Lengths& lengths) {
      const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {1});
      const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
      for (const std::int64_t blank : {0, 1, -2, 300}) {
        for (const bool merge_repeated : {true, false}) {
          const CtcAlignOptions options{.blank = blank, .merge_repeated = merge_repeated};
          check_tree(lod::ctc_align(lod::CpuExecutor(2), slice, options), x.levels(),
                     reference_align(tree_of(slice), x.levels(), options));
        }
      }
    });
  });
}

TEST_CASE("ctc_align: a blank below 0 is no label without a sign") {
  const auto x = LoDTensor<std::uint64_t>::from_values(LoD::from_lengths({{3}}), {}, {~std::uint64_t{0}, 7, 9});
  for_each_executor([&](const auto& executor) { CHECK(same_bits(lod::ctc_align(executor, x, {.blank = -1}), x)); });
}

TEST_CASE("ctc_align: many labels, by any number of threads; a second call allocates nothing") {
  for (const std::int64_t size : {3, 3000}) {
    Engine engine(4);
    const LoD frames = giant_among_short(engine, size, grain);
    const auto x = small_integers<int>(engine, LoD::from_lengths({{1, 0, size - 1}, frames.lengths(0)}), {});
    const auto expected = reference_align(tree_of(x), 2, {});
    for (const int threads : thread_counts) {
      CountingResource resource;
      const lod::CpuExecutor executor(threads, &resource);
      LoDTensor<int> y(&resource);
      lod::ctc_align_into(executor, x, y);
      check_tree(y, 2, expected);
      const int before = resource.allocations;
      lod::ctc_align_into(executor, x, y);
      CHECK(resource.allocations == before);
    }
  }
}

TEST_CASE("ctc_align_and_wait: on the CPU the same, where a second call allocates nothing") {
  CountingResource resource;
  const lod::CpuExecutor executor(2, &resource);
  Engine engine(5);
  const auto x = small_integers<int>(engine, LoD::from_lengths({{2, 0, 1}, {3, 0, 40}}), {});
  const lod::CtcAlignOptions options = {.blank = 2, .merge_repeated = false};
  LoDTensor<int> y(&resource);
  lod::ctc_align_and_wait_into(executor, x, options, y);
  CHECK(same_bits(y, lod::ctc_align(x, options)));
  CHECK(same_bits(y, lod::ctc_align_and_wait(x, options)));
  const int before = resource.allocations;
  lod::ctc_align_and_wait_into(executor, x, options, y);
  CHECK(resource.allocations == before);
  lod::ctc_align_and_wait_into(executor, x, y);
  CHECK(same_bits(y, lod::ctc_align(x)));
  CHECK(lod::infer_ctc_align_and_wait(lod::describe(x)) == lod::infer_ctc_align(lod::describe(x)));
}

TEST_CASE("ctc_align: batches without sequences, of empty ones only, of blanks only") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}}) {
    const LoDTensor<int> x(LoD::from_lengths(lengths), {});
    CHECK(same_bits(lod::ctc_align(x), x));
  }
  const LoDTensor<int> blanks(LoD::from_lengths({{2, 0}, {2000, 70000}}), {});
  CHECK(lod::ctc_align(blanks).lod() == LoD::from_lengths({{2, 0}, {0, 0}}));
}

TEST_CASE("ctc_align: bad arguments throw and change nothing; views as outputs") {
  const LoDTensor<int> wide(LoD::from_lengths({{2, 1}}), {2}), plain({3});
  LoDTensor<int> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::ctc_align_into(executor, plain, y); },
                                "ctc_align: the tensor has no level, expected at least one", y);
  check_throws<lod::ShapeMismatch>([&] { lod::ctc_align_into(executor, wide, y); },
                                   "ctc_align: rows of shape {2}, expected one id a row", y);

  const auto x = LoDTensor<int>::from_nested(Labels{{1, 1}, {0}});
  LoDTensor<int> out(LoD::from_lengths({{1, 0}}), {}), other(LoD::from_lengths({{0, 1}}), {});
  lod::ctc_align_into(executor, x, out.view());
  CHECK(out.data()[0] == 1);
  check_throws<lod::ShapeMismatch>([&] { lod::ctc_align_into(executor, x, other.view()); },
                                   ": a view of shape {1} with 1 levels", other);
}

TEST_CASE("infer_ctc_align: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<std::int32_t>(1, {1}, [](Engine&, const lod::LoDTensor<std::int32_t>& x) {
    check_inference(
        lod::ctc_align(x), [](const auto& desc) { return lod::infer_ctc_align(desc); }, describe(x));
  });
  CHECK(lod::infer_ctc_align(described(lod::DataType::INT8, {15, 1}, 2)) == described(lod::DataType::INT8, {-1, 1}, 2));
  CHECK_THROWS_AS(lod::infer_ctc_align(described_list(15)), lod::InvalidLoD);
  CHECK_THROWS_WITH_AS(lod::infer_ctc_align(described(lod::DataType::INT8, {15, 2}, 2)),
                       doctest::Contains("ctc_align: rows of shape {2}, expected one id a row"), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_ctc_align(described(lod::DataType::FP32, {15}, 2)), lod::ShapeMismatch);
}
