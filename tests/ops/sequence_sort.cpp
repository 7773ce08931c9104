// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/close.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::SortOptions;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {

/// Whether row a of x comes before row b of the same sequence.
template <class T>
bool comes_first(const T* x, std::int64_t a, std::int64_t b, bool descending) {
  const T first = x[a], second = x[b];
  if (first == second || (first != first && second != second)) return a < b;
  if (first != first || second != second) return first == first;  // NaN comes last
  return descending ? first > second : first < second;
}

/// The rows of x in the order that is expected.
template <lod::LoDTensorLike X>
Numbers reference_argsort(const X& x, const SortOptions& options) {
  const auto view = x.view();
  Numbers index(static_cast<std::size_t>(view.rows()));
  std::iota(index.begin(), index.end(), 0);
  const auto offsets = view.lod_view().absolute_offsets(options.level);
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const auto begin = index.begin() + (offsets[i] - offsets[0]), end = index.begin() + (offsets[i + 1] - offsets[0]);
    std::sort(begin, end,
              [&](std::int64_t a, std::int64_t b) { return comes_first(view.data(), a, b, options.descending); });
  }
  return index;
}
/// The same for one long sequence, for which that takes long: what sequence_argsort finds, which is the order expected
/// if all rows are there and each comes before the next.
template <class T>
Numbers checked_argsort(const LoDTensor<T>& x, const SortOptions& options) {
  const auto index = lod::sequence_argsort(lod::CpuExecutor(1), x, options);
  std::vector<bool> there(static_cast<std::size_t>(x.rows()));
  bool in_order = true;
  for (std::int64_t k = 0; k < x.rows(); ++k) {
    there.at(static_cast<std::size_t>(index.data()[k])) = true;
    in_order = in_order && (k == 0 || comes_first(x.data(), index.data()[k - 1], index.data()[k], options.descending));
  }
  CHECK(in_order);
  CHECK(std::find(there.begin(), there.end(), false) == there.end());
  return {index.values().begin(), index.values().end()};
}

/// The bits of the numbers are those that stood there.
template <lod::LoDTensorLike X, lod::LoDTensorLike Y>
bool is_gathered(const X& x, const Y& y, const Numbers& index) {
  const auto from = x.view();
  const auto to = y.view();
  bool same = static_cast<std::size_t>(to.rows()) == index.size();
  for (std::size_t k = 0; same && k < index.size(); ++k) {
    same = std::memcmp(to.data() + k, from.data() + index[k], sizeof(to.data()[k])) == 0;
  }
  return same;
}

/// `expected` is what reference_argsort(x, options) gives, which takes longer than what it checks.
template <class Executor, lod::LoDTensorLike X>
void check_sort(const Executor& executor, const X& x, const SortOptions& options, const Numbers& expected) {
  INFO("level ", options.level, ", descending ", options.descending, ", rows ", x.rows());
  const auto y = lod::sequence_sort(executor, x, options);
  CHECK(y.lod() == x.view().lod());
  CHECK(y.row_shape() == x.row_shape());
  CHECK(is_gathered(x, y, expected));
  const auto index = lod::sequence_argsort(executor, x, options);
  CHECK(index.levels() == 0);
  CHECK(index.row_shape() == x.row_shape());
  CHECK(std::equal(expected.begin(), expected.end(), index.values().begin(), index.values().end()));
  typename std::remove_const_t<decltype(y)> both;
  LoDTensor<std::int64_t> also;
  lod::sequence_sort_into(executor, x, options, both, also);
  CHECK(same_bits(both, y));
  CHECK(same_bits(also, index));
}

/// `sorted` is what reference_argsort(x, ...) gives for the order that descends.
template <class Executor, lod::LoDTensorLike X>
void check_topk(const Executor& executor, const X& x, std::int64_t k, int level, const Numbers& sorted) {
  INFO("level ", level, ", k ", k, ", rows ", x.rows());
  const auto lod = x.view().lod_view();
  const auto offsets = lod.absolute_offsets(level);
  Numbers expected, lengths;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    lengths.push_back(std::min(k, offsets[i + 1] - offsets[i]));
    const auto first = sorted.begin() + (offsets[i] - offsets[0]);
    expected.insert(expected.end(), first, first + lengths.back());
  }
  const auto top = lod::sequence_topk(executor, x, k, {.level = level});
  Lengths all = x.view().lod().lengths();
  all.resize(static_cast<std::size_t>(level) + 1);
  all.back() = lengths;
  CHECK(top.values.lod() == LoD::from_lengths(all));
  CHECK(top.values.row_shape() == x.row_shape());
  CHECK(top.index.levels() == 0);
  CHECK(std::equal(expected.begin(), expected.end(), top.index.values().begin(), top.index.values().end()));
  CHECK(is_gathered(x, top.values, expected));
}

/// Numbers of which many are equal, and some integers the least or the greatest; of floating-point numbers, one in
/// `strange_one_in` is a zero, infinite or a NaN.
template <class T>
void fill_with_equal_numbers(Engine& engine, std::int64_t strange_one_in, LoDTensor<T>& x) {
  for (T& number : x.values()) {
    number = static_cast<T>(random_number(engine, std::is_unsigned_v<T> ? 0 : -60, 60));
    if constexpr (!std::integral<T>) {
      constexpr double strange[] = {-0., 0., infinity, -infinity, std::numeric_limits<double>::quiet_NaN()};
      if (random_number(engine, 1, strange_one_in) == 1) number = static_cast<T>(strange[random_number(engine, 0, 4)]);
    } else if (random_number(engine, 0, 9) == 0) {
      number = random_number(engine, 0, 1) == 0 ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
    }
  }
}

/// Sorts x by a level both ways, and takes the first k of it for each of `ks`, on each of `executors`.
template <lod::LoDTensorLike X, class ForEachExecutor>
void check_both_ways(const X& x, int level, const std::vector<std::int64_t>& ks, const ForEachExecutor& executors) {
  const SortOptions up{.level = level}, down{.descending = true, .level = level};
  const Numbers ascending = reference_argsort(x, up), descending = reference_argsort(x, down);
  executors([&](const auto& executor) {
    check_sort(executor, x, up, ascending);
    check_sort(executor, x, down, descending);
    for (const std::int64_t k : ks) check_topk(executor, x, k, level, descending);
  });
}
template <lod::LoDTensorLike X>
void check_on_every_executor(const X& x, const std::vector<std::int64_t>& ks) {
  check_both_ways(x, 0, ks, [](const auto& check) { for_each_executor(check); });
}
template <lod::LoDTensorLike X>
void check_on_two_threads(const X& x, int level, const std::vector<std::int64_t>& ks) {
  check_both_ways(x, level, ks, [](const auto& check) { check(lod::CpuExecutor(2)); });
}

}  // namespace

TEST_CASE("sequence_sort, sequence_argsort: up, down, equal numbers in their order") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{3, 1, 2}, {}, {5, 7, 5}});
  const auto numbers = [](const auto& y) { return Numbers(y.values().begin(), y.values().end()); };
  CHECK(numbers(lod::sequence_sort(x)) == Numbers{1, 2, 3, 5, 5, 7});
  CHECK(numbers(lod::sequence_argsort(x)) == Numbers{1, 2, 0, 3, 5, 4});
  CHECK(numbers(lod::sequence_sort(x, {.descending = true})) == Numbers{3, 2, 1, 7, 5, 5});
  CHECK(numbers(lod::sequence_argsort(x, {.descending = true})) == Numbers{0, 2, 1, 4, 3, 5});
  const auto top = lod::sequence_topk(x, 2);
  CHECK(top.values.lod() == LoD::from_lengths({{2, 0, 2}}));
  CHECK(numbers(top.values) == Numbers{3, 2, 7, 5});
  CHECK(numbers(top.index) == Numbers{0, 2, 4, 3});
}

TEST_CASE("sequence_sort: NaN last either way, infinities, zeros of both signs in their order") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float least = std::numeric_limits<float>::denorm_min();
  const std::vector<float> one = {0.F, nan, -1, -0.F, infinity, 2, -nan, -infinity, 0.F, -0.F, least, -least};
  for_each_type(FloatingTypes(), [&]<class T>(std::type_identity<T>) {
    LoDTensor<T> x(LoD::from_lengths({{12, 0, 12 * 100}}), {});
    for (std::size_t i = 0; i < x.values().size(); ++i) x.data()[i] = static_cast<T>(one[i % one.size()]);
    check_on_two_threads(x, 0, {1, 3, 10, 11, 12});
  });
}

TEST_CASE("sequence_sort, sequence_topk: agree with the standard library for slices of every type, depth and level") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(5, 1, 5, [](Engine& engine, const Lengths& lengths) {
      const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {1});
      const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
      for (int level = 0; level < x.levels(); ++level) check_on_two_threads(slice, level, {0, 1, 3, 40});
    });
  });
}

TEST_CASE("sequence_sort, sequence_topk: lengths at which the kernel takes another path, numbers of all magnitudes") {
  const auto check = []<class T>(std::type_identity<T>) {
    Engine engine(6);
    // The longest sequence has up to three parts, which threads sort.
    const std::int64_t longest = sizeof(T) == 4 ? 2 * grain + 9001 : grain + 1;
    LoDTensor<T> x(LoD::from_lengths({{1, 31, 33, 100, 127, 128, 257, 1000, 3001, 0, 8192, 8193, grain, longest, 2}}),
                   {});
    for (T& number : x.values()) {
      if constexpr (std::integral<T>) {
        number = static_cast<T>(engine());
      } else {
        number = static_cast<T>(std::ldexp(std::uniform_real_distribution<double>(-1, 1)(engine),
                                           static_cast<int>(random_number(engine, -20, 15))));
      }
    }
    check_on_every_executor(x, slow ? Numbers{9000} : Numbers{1, 5, 9000});
  };
  for_each_type(Types<bool, std::uint32_t, std::uint64_t, float, double>(), check);
}

TEST_CASE("sequence_sort, sequence_topk: sequences of every length up to those sorted by radix, most numbers equal") {
  std::vector<std::int64_t> lengths(140);
  std::iota(lengths.begin(), lengths.end(), 0);
  for_each_type(Types<bool, std::int32_t, std::int64_t, float, double>(), [&]<class T>(std::type_identity<T>) {
    Engine engine(7);
    LoDTensor<T> x(LoD::from_lengths({lengths}), {});
    // Also the greatest and the least key that there are.
    constexpr T numbers[] = {0, 1, std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest()};
    for (T& number : x.values()) number = numbers[random_number(engine, 0, 3)];
    check_on_every_executor(x, {1, 8, 70});
  });
}

TEST_CASE("sequence_sort, sequence_topk: sequences of more rows than entries of 64 bits can count") {
  constexpr std::int64_t rows = (std::int64_t{1} << 20) + 1;
  for_each_type(Types<float, std::int64_t>(), [&]<class T>(std::type_identity<T>) {
    if (slow && sizeof(T) == 8) return;
    Engine engine(9);
    LoDTensor<T> x(LoD::from_lengths({{rows}}), {});
    for (T& number : x.values()) number = static_cast<T>(random_number(engine, -100000, 100000));
    // Greater than all others in the upper half of the key.
    x.data()[5] = std::numeric_limits<T>::max();
    check_sort(lod::CpuExecutor(1), x, {}, checked_argsort(x, {}));
    const Numbers descending = checked_argsort(x, {.descending = true});
    for (const std::int64_t k : {std::int64_t{3}, rows / 2 + 2000})
      check_topk(lod::CpuExecutor(1), x, k, 0, descending);
  });
}

TEST_CASE("sequence_sort, sequence_topk: many short sequences, long ones and strange numbers between them") {
  for_each_type(Types<bool, std::int8_t, std::int32_t, std::uint32_t, std::int64_t, unsigned long, unsigned long long,
                      lod::float16, lod::bfloat16, float, double>(),
                [&]<class T>(std::type_identity<T>) {
                  Engine engine(8);
                  // From batches of the shortest to those of all lengths up to the longest that is short, and beyond.
                  const auto greatest_lengths =
                      slow ? std::vector<std::int64_t>{4, 9, 17, 32, 65, 256, 300}
                           : std::vector<std::int64_t>{1,  3,  4,  5,  7,   8,   9,   16,  17, 24,
                                                       32, 40, 64, 65, 100, 129, 256, 300, 512};
                  for (const std::int64_t longest : greatest_lengths) {
                    INFO("up to ", longest, " rows");
                    std::vector<std::int64_t> lengths(slow ? 50 : longest > 40 ? 70 : 150);
                    // The longer ones stand together, so that many are taken at a time, and some with few others.
                    for (std::int64_t& length : lengths)
                      length = random_number(engine, longest > 40 ? longest / 3 : 0, longest);
                    if (longest > 40) std::fill_n(lengths.begin() + 30, 5, 3);
                    lengths.front() = longest;
                    LoDTensor<T> x(LoD::from_lengths({lengths}), {});
                    fill_with_equal_numbers(engine, longest > 40 ? 2000 : 100, x);
                    check_on_every_executor(x.between(1, x.size()), slow ? Numbers{9} : Numbers{1, 8, 9, 50});
                  }
                });
}

TEST_CASE("sequence_sort, sequence_topk: sequences of all lengths between each other") {
  const Numbers short_ones = {0, 1, 3, 8, 9, 16, 17, 32}, tall = {33, 64, 65, 100, 255, 256, 257, 511, 512},
                long_ones = {513, 700};
  for_each_type(Types<std::int8_t, std::int32_t, std::int64_t, unsigned long long, lod::bfloat16, float, double>(),
                [&]<class T>(std::type_identity<T>) {
                  Engine engine(9);
                  // From nearly all short to nearly all tall, and up to more than are put in order at a time.
                  for (const std::int64_t percent : slow ? Numbers{20} : Numbers{1, 6, 20, 50, 95}) {
                    INFO(percent, " % of more than 32 rows");
                    Numbers lengths(slow ? 120 : 600);
                    for (std::int64_t& length : lengths) {
                      const std::int64_t draw = random_number(engine, 0, 99);
                      const Numbers& some = draw == 0 ? long_ones : draw <= percent ? tall : short_ones;
                      length = some[static_cast<std::size_t>(random_number(engine, 0, std::ssize(some) - 1))];
                    }
                    LoDTensor<T> x(LoD::from_lengths({lengths}), {});
                    fill_with_equal_numbers(engine, 500, x);
                    check_on_two_threads(x.between(1, x.size() - 1), 0, slow ? Numbers{3} : Numbers{1, 8, 9, 600});
                  }
                });
}

TEST_CASE("sequence_sort, sequence_topk: batches without sequences, of empty ones only") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}}) {
    check_on_every_executor(LoDTensor<float>(LoD::from_lengths(lengths), {}), {3});
  }
}

TEST_CASE("sequence_sort_grad, sequence_topk_grad: agree with differences") {
  for_each_random_lod(4, 1, 3, [](Engine& engine, const Lengths& lengths) {
    auto x = real_numbers<double>(engine, LoD::from_lengths(lengths), {});
    for (int level = 0; level < x.levels(); ++level) {
      INFO("level ", level);
      const SortOptions options{.descending = random_number(engine, 0, 1) == 1, .level = level};
      check_gradient(
          engine, x, [&](const auto& at) { return lod::sequence_sort(at, options); },
          [&](const auto& dy) { return lod::sequence_sort_grad(dy, lod::sequence_argsort(x, options), options); });
      for (const std::int64_t k : {1, 3}) {
        check_gradient(
            engine, x, [&](const auto& at) { return lod::sequence_topk(at, k, {.level = level}).values; },
            [&](const auto& dy) {
              const auto top = lod::sequence_topk(x, k, {.level = level});
              return lod::sequence_topk_grad(dy, top.index, x.lod(), k, {.level = level});
            });
      }
    }
  });
}

TEST_CASE("sequence_topk_grad: of equal rows the first gets the gradient") {
  const auto x = LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{1, 4, 4, 4}, {}, {2}});
  const auto top = lod::sequence_topk(x, 2);
  const auto dy = LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{10, -20}, {}, {30}});
  const auto dx = lod::sequence_topk_grad(dy, top.index, x.lod(), 2);
  CHECK(same_bits(dx, LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{0, 10, -20, 0}, {}, {30}})));
}

TEST_CASE("sequence_sort, sequence_topk: bad arguments throw and change nothing") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {}), wide(x.lod(), {2}), plain({3});
  LoDTensor<float> y({1, 2});
  LoDTensor<std::int64_t> index({1, 2});
  const lod::CpuExecutor executor(1);
  const auto refuses = [&]<class Error>(std::type_identity<Error>, const LoDTensor<float>& input, int level,
                                        const char* text) {
    INFO(text);
    check_throws<Error>([&] { lod::sequence_sort_into(executor, input, {.level = level}, y); }, text, y);
    check_throws<Error>([&] { lod::sequence_sort_into(executor, input, {.level = level}, y, index); }, text, y);
    check_throws<Error>([&] { lod::sequence_argsort_into(executor, input, {.level = level}, index); }, text, index);
    check_throws<Error>([&] { lod::sequence_topk_into(executor, input, 1, {.level = level}, y, index); }, text, y);
  };
  refuses(std::type_identity<lod::InvalidLoD>(), plain, 0, ": the tensor has no level, expected at least one");
  refuses(std::type_identity<lod::OutOfRange>(), x, 1, "level 1 of a LoD with 1 levels");
  refuses(std::type_identity<lod::ShapeMismatch>(), wide, 0, ": rows of shape {2}, expected one number a row");
  check_throws<lod::OutOfRange>([&] { lod::sequence_topk_into(executor, x, -1, y, index); },
                                "sequence_topk: k is -1, expected 0 or more", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_sort_into(executor, x, {}, y, index.view()); },
                                   ": a view of shape {1, 2}", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_topk_into(executor, x, 1, y, index.view()); },
                                   ": a view of shape {1, 2}", y);

  const auto rows = [](const Numbers& numbers) { return LoDTensor<std::int64_t>::from_nested(numbers); };
  const auto sort_grad = [&](const LoDTensor<float>& dy, const Numbers& numbers) {
    return [&, numbers] { lod::sequence_sort_grad_into(executor, dy, rows(numbers), y); };
  };
  check_throws<lod::InvalidLoD>(sort_grad(plain, {0, 1, 2}), "sequence_sort_grad: dy: the tensor has no level", y);
  check_throws<lod::ShapeMismatch>(sort_grad(wide, {0, 1, 2}), "sequence_sort_grad: rows of shape {2}", y);
  check_throws<lod::ShapeMismatch>(sort_grad(x, {0, 1}), "sequence_sort_grad: index: 2 numbers, expected 3", y);
  check_throws<lod::OutOfRange>(sort_grad(x, {0, 2, 2}),
                                "sequence_sort_grad: index 2 of sequence 0, expected a row from 0 to 1", y);
  const auto topk_grad = [&](const LoDTensor<float>& dy, const Numbers& numbers, std::int64_t k) {
    return [&, numbers, k] { lod::sequence_topk_grad_into(executor, dy, rows(numbers), x.lod(), k, {}, y); };
  };
  check_throws<lod::OutOfRange>(topk_grad(x, {0, 1, 2}, -1), "sequence_topk_grad: k is -1, expected 0 or more", y);
  check_throws<lod::ShapeMismatch>(topk_grad(x, {0, 1, 2}, 1), "sequence_topk_grad: dy: 3 rows, expected 2", y);
  check_throws<lod::OutOfRange>(topk_grad(x, {0, 1, 1}, 2),
                                "sequence_topk_grad: index 1 of sequence 1, expected a row from 2 to 2", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_topk_grad_into(executor, x, rows({0}), LoD(), 1, {}, y); },
                                "sequence_topk_grad: lod: the tensor has no level", y);
}

TEST_CASE("sequence_sort, sequence_topk_grad: options may be left out") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{3, 1, 2}, {}, {7, 5}});
  for_each_executor([&](const auto& executor) {
    LoDTensor<int> y, dx;
    LoDTensor<std::int64_t> index;
    lod::sequence_sort_into(executor, x, y, index);
    CHECK(same_bits(y, lod::sequence_sort(x)));
    CHECK(same_bits(index, lod::sequence_argsort(x)));
    lod::sequence_sort_into(executor, x, lod::SortOptions{.descending = true}, y);
    CHECK(y.data()[0] == 3);
    const auto top = lod::sequence_topk(x, 2);
    lod::sequence_topk_grad_into(executor, top.values, top.index, x.lod(), 2, dx);
    CHECK(same_bits(dx, lod::sequence_topk_grad(top.values, top.index, x.lod(), 2)));
  });
}

TEST_CASE("sequence_sort, sequence_topk: views as outputs") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{3, 1, 2}, {7, 5}});
  LoDTensor<int> y(x.lod(), {}), top(LoD::from_lengths({{2, 2}}), {}), other(LoD::from_lengths({{2, 3}}), {});
  LoDTensor<std::int64_t> index({5});
  const lod::CpuExecutor executor(1);
  lod::sequence_sort_into(executor, x.between(1, 2), y.between(1, 2));
  CHECK(y.data()[3] == 5);
  CHECK(y.data()[0] == 0);
  lod::sequence_topk_into(executor, x, 2, top.view(), index.between(0, 4));
  CHECK(top.data()[0] == 3);
  CHECK(index.data()[2] == 3);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_sort_into(executor, x, other.view()); },
                                   ": a view of shape {5} with 1 levels", other);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_topk_into(executor, x, 2, other.view(), index); },
                                   ": a view of shape {5} with 1 levels", other);
}

TEST_CASE("infer_sequence_sort: allows what the operations give, and refuses what they do") {
  for_each_random_batch<float>(1, {1}, [](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const lod::SortOptions options{.level = level};
      const auto y = lod::sequence_sort(x, options);
      const auto index = lod::sequence_argsort(x, options);
      check_inference(
          y, [&](const auto& desc) { return lod::infer_sequence_sort(desc, options); }, describe(x));
      check_inference(
          index, [&](const auto& desc) { return lod::infer_sequence_argsort(desc, options); }, describe(x));
      check_inferred(lod::sequence_sort_grad(y, index, options), describe(x));
      for (const std::int64_t k : {0, 2}) {
        const auto top = lod::sequence_topk(x, k, {.level = level});
        for (const auto& desc : {describe(x), blank(describe(x))}) {
          const auto inferred = lod::infer_sequence_topk(desc, k, {.level = level});
          check_inferred(top.values, inferred.values);
          check_inferred(top.index, inferred.index);
        }
      }
    }
  });
  const auto x = described(lod::DataType::INT32, {15, 1}, 2);
  CHECK(lod::infer_sequence_sort(x) == x);
  CHECK(lod::infer_sequence_argsort(x) == described(lod::DataType::INT64, {15, 1}, 0));
  CHECK(lod::infer_sequence_topk(x, 2, {.level = 0}).values == described(lod::DataType::INT32, {-1, 1}, 1));
  CHECK(lod::infer_sequence_topk(x, 0).index == described(lod::DataType::INT64, {0, 1}, 0));
  CHECK_THROWS_AS(lod::infer_sequence_sort(described(lod::DataType::FP32, {15}, 0)), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_argsort(x, {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_sequence_topk(x, -1), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_topk(described(lod::DataType::FP32, {15, 3, 2}, 1), 1),
                       doctest::Contains("sequence_topk: rows of shape {3, 2}, expected one number a row"),
                       lod::ShapeMismatch);
}
