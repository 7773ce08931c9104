// SPDX-License-Identifier: Apache-2.0
// Numbers among the options of operations that the type of the elements cannot hold.
#include <lod/cpu.hpp>
#include <lod/lod.hpp>
#include <lod/ops.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using lod::Scalar;

/// What is tried of every type.
const std::vector<Scalar> tried = {0,
                                   1,
                                   -1,
                                   2,
                                   127,
                                   128,
                                   -128,
                                   -129,
                                   255,
                                   256,
                                   300,
                                   32767,
                                   32768,
                                   -32769,
                                   65504,
                                   65536,
                                   0.5,
                                   -0.0,
                                   -1.0,
                                   255.0,
                                   256.0,
                                   2147483647,
                                   2147483648,
                                   -2147483649,
                                   std::numeric_limits<std::int64_t>::max(),
                                   std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::uint64_t>::max(),
                                   0x1p63,
                                   0x1p64,
                                   -0x1p63,
                                   -0x1.0000000000001p63,
                                   0x1.fffffffffffffp62,
                                   65519.0,
                                   65520.0,
                                   3.4e38,
                                   3.5e38,
                                   -3.5e38,
                                   1e300,
                                   1e-300,
                                   0.1,
                                   std::numeric_limits<double>::infinity(),
                                   -std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::quiet_NaN()};

/// Whether a T holds the number, in the words of the documentation.
template <class T>
bool holds(Scalar number) {
  const double real = number.to<double>();
  if constexpr (std::is_integral_v<T>) {
    if (number.is_integer()) {
      __extension__ typedef __int128 Int128;
      const Int128 exact = real < 0 ? Int128{number.to<std::int64_t>()} : Int128{number.to<std::uint64_t>()};
      return exact >= Int128{std::numeric_limits<T>::min()} && exact <= Int128{std::numeric_limits<T>::max()};
    }
    if (!std::isfinite(real) || std::trunc(real) != real) return false;
    const auto exact = static_cast<long double>(real);
    return exact >= static_cast<long double>(std::numeric_limits<T>::min()) &&
           exact <= static_cast<long double>(std::numeric_limits<T>::max());
  } else {
    return !std::isfinite(real) || std::isfinite(static_cast<double>(static_cast<T>(real)));
  }
}

template <class T>
bool same(T a, T b) {
  return a == b || (a != a && b != b);
}

/// `call` with the number as an option writes it to the outputs, or throws and leaves `untouched` as they were.
template <class T, class Call, class Written>
void check(const char* what, const Call& call, const Written& written) {
  for (const Scalar number : tried) {
    CAPTURE(what);
    CAPTURE(to_string(number));
    if (holds<T>(number)) {
      CHECK_NOTHROW(call(number));
      CHECK(same(written(), number.to<T>()));
    } else {
      const T before = written();
      CHECK_THROWS_WITH_AS(call(number), doctest::Contains((std::string(what) + " " + to_string(number)).c_str()),
                           lod::OutOfRange);
      CHECK(same(written(), before));
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("pad_value: what elements cannot hold is refused, before anything is changed", T, bool, std::int8_t,
                   std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t,
                   lod::float16, lod::bfloat16, float, double) {
  const lod::CpuExecutor executor(1);
  const auto index = lod::LoD::from_lengths({{0, 2}});
  lod::LoDTensor<T> x(index, {1});
  lod::LoDTensor<T> y(index, {1});
  lod::LoDTensor<std::int64_t> places(index, {1});
  const auto first = [&] { return y.data()[0]; };
  for (const lod::PoolType type : {lod::PoolType::SUM, lod::PoolType::MAX, lod::PoolType::LAST}) {
    check<T>(
        "sequence_pool: pad_value",
        [&](Scalar number) { lod::sequence_pool_into(executor, x, type, {.pad_value = number}, y); }, first);
  }
  check<T>(
      "sequence_first_step: pad_value",
      [&](Scalar number) { lod::sequence_first_step_into(executor, x, {.pad_value = number}, y); }, first);
  check<T>(
      "sequence_max_pool: pad_value",
      [&](Scalar number) { lod::sequence_max_pool_into(executor, x, {.pad_value = number}, y, places); }, first);
  check<T>(
      "sequence_pad: pad_value",
      [&](Scalar number) { lod::sequence_pad_into(executor, x, {.pad_value = number}, y, places); }, first);
  if constexpr (std::is_integral_v<T>) {
    lod::LoDTensor<T> windows(lod::LoD::from_lengths({{0, 2}}), {3});
    check<T>(
        "sequence_enumerate: pad_value",
        [&](Scalar number) { lod::sequence_enumerate_into(executor, x, 3, {.pad_value = number}, windows); },
        [&] { return windows.data()[5]; });
  }
  // One type of each kind will do: what there is for each takes seconds to compile.
  if constexpr (std::is_same_v<T, std::int8_t> || std::is_same_v<T, std::uint64_t> || std::is_same_v<T, lod::float16> ||
                std::is_same_v<T, double>) {
    const lod::LoDTensor<T> table({3, 1});
    const lod::LoDTensor<std::int64_t> ids(index, {1});
    check<T>(
        "embedding_pool: pad_value",
        [&](Scalar number) {
          lod::embedding_pool_into(executor, table, ids, lod::PoolType::SUM, {.pad_value = number}, y);
        },
        first);
    check<T>(
        "embedding_min_pool: pad_value",
        [&](Scalar number) { lod::embedding_min_pool_into(executor, table, ids, {.pad_value = number}, y, places); },
        first);
  }
}

TEST_CASE_TEMPLATE("scale: a factor that values cannot hold is refused", T, std::int8_t, std::uint16_t, std::int32_t,
                   std::int64_t, std::uint64_t, lod::float16, float, double) {
  lod::SelectedRows<T> g({0}, 4, {1});
  g.value().data()[0] = T(1);
  lod::SelectedRows<T> out({0}, 4, {1});
  check<T>(
      "scale: factor", [&](Scalar number) { lod::scale_into(lod::CpuExecutor(1), g, number, out); },
      [&] { return out.value().data()[0]; });
}

TEST_CASE("sequence_attention: a scale and a softcap that scores cannot hold are refused") {
  const auto index = lod::LoD::from_lengths({{2}});
  const lod::LoDTensor<float> x(index, {2});
  const auto attend = [&](const auto& of, double scale, double softcap) {
    return lod::sequence_attention(of, of, of, {.scale = scale, .softcap = softcap}).y;
  };
  CHECK_THROWS_WITH_AS(attend(x, 1e300, 0),
                       "sequence_attention: scale 1e+300 is beyond float [-3.4028234663852886e+38, "
                       "3.4028234663852886e+38]",
                       lod::OutOfRange);
  CHECK_THROWS_AS(attend(x, -1e300, 0), lod::OutOfRange);
  CHECK_THROWS_AS(attend(x, 1, 1e39), lod::OutOfRange);
  CHECK_NOTHROW(attend(lod::LoDTensor<double>(index, {2}), 1e300, 1e300));
  // Scores of 16-bit numbers are floats.
  CHECK_NOTHROW(attend(lod::LoDTensor<lod::float16>(index, {2}), 1e30, 1e30));
}

TEST_CASE("pad_value: the text says what there is") {
  const lod::LoDTensor<std::int8_t> x(lod::LoD::from_lengths({{0, 2}}), {1});
  CHECK_THROWS_WITH_AS(static_cast<void>(lod::sequence_pool(x, lod::PoolType::SUM, {.pad_value = 300})),
                       "sequence_pool: pad_value 300 is beyond int8 [-128, 127]", lod::OutOfRange);
  CHECK_THROWS_WITH_AS(static_cast<void>(lod::sequence_pool(x, lod::PoolType::SUM, {.pad_value = 0.5})),
                       "sequence_pool: pad_value 0.5 is none of int8 [-128, 127]", lod::OutOfRange);
  const lod::LoDTensor<bool> flags(lod::LoD::from_lengths({{0, 2}}), {1});
  CHECK_THROWS_WITH_AS(static_cast<void>(lod::sequence_pool(flags, lod::PoolType::SUM, {.pad_value = 2})),
                       "sequence_pool: pad_value 2 is beyond bool [0, 1]", lod::OutOfRange);
}

TEST_CASE("clip: a bound beyond the range of the values binds none of them") {
  lod::SelectedRows<lod::float16> g({0, 1}, 4, {1});
  g.value().data()[0] = lod::float16(60000.0f);
  g.value().data()[1] = -std::numeric_limits<lod::float16>::infinity();
  const auto cut = lod::clip(g, -1e300, 1e300);
  CHECK(cut.value().data()[0] == lod::float16(60000.0f));
  CHECK(cut.value().data()[1] == -std::numeric_limits<lod::float16>::max());
}
