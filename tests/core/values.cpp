// SPDX-License-Identifier: Apache-2.0
// What values keep: assigned, moved or swapped to themselves they are as before; and texts of errors, and of tensors in
// streams, are as long and as written as they should be, whatever comes from outside.
#include "support/callers_control.hpp"
#include "support/same_bits.hpp"
#include <lod/any_tensor.hpp>
#include <lod/core/buffer.hpp>
#include <lod/core/shape.hpp>
#include <lod/executor.hpp>
#include <lod/io/json.hpp>
#include <lod/io/text.hpp>
#include <lod/lod_index.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/ops/tensor_array.hpp>
#include <lod/ops/time_major.hpp>
#include <lod/rank_table.hpp>
#include <lod/selected_rows.hpp>
#include <lod/variable.hpp>

#include <doctest/doctest.h>

#include <complex>
#include <cstdint>
#include <iomanip>
#include <locale>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::SelectedRows;
using lod_test::same_bits;

namespace {

/// is_as_before(x) holds for x, and still does after it has been assigned, moved and swapped to itself.
template <class X, class IsAsBefore>
void check_self_assignment(X x, const IsAsBefore& is_as_before) {
  X* const itself = &x;  // not named, or compilers warn
  REQUIRE(is_as_before(x));
  x = *itself;
  CHECK(is_as_before(x));
  x = std::move(*itself);
  CHECK(is_as_before(x));
  std::swap(x, *itself);
  CHECK(is_as_before(x));
}

LoDTensor<float> counted_tensor() {
  return LoDTensor<float>::from_values(LoD::from_lengths({{2, 1}, {1, 0, 2}}), {2}, {1, 2, 3, 4, 5, 6});
}

/// Digits in threes, a comma for a point, and other words for bools.
struct Punctuation : std::numpunct<char> {
  char do_thousands_sep() const override { return '.'; }
  char do_decimal_point() const override { return ','; }
  std::string do_grouping() const override { return "\3"; }
  std::string do_truename() const override { return "wahr"; }
};

template <class X>
std::string text_in_classic_locale(const X& x) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << x;
  return text.str();
}

}  // namespace

TEST_CASE("Values: assigned, moved or swapped to themselves are as before") {
  const LoDTensor<float> x = counted_tensor();
  const SelectedRows<float> g({4, 0, 4}, 9, LoDTensor<float>::from_values(LoD(), {}, {1, 2, 3}));
  const auto is_g = [](const auto& y) {
    return y.rows() == std::vector<std::int64_t>{4, 0, 4} && y.height() == 9 && y.value().rows() == 3;
  };
  check_self_assignment(x, [&](const auto& y) { return same_bits(x, y); });
  check_self_assignment(x.lod(), [&](const LoD& y) { return y == x.lod(); });
  check_self_assignment(x.view(), [&](const auto& y) { return same_bits(x.view(), y); });
  check_self_assignment(x.shape(), [&](const lod::Shape& y) { return y == x.shape(); });
  check_self_assignment(g, [&](const auto& y) { return is_g(y) && same_bits(g.value(), y.value()); });
  check_self_assignment(lod::AnySelectedRows(g), is_g);
  check_self_assignment(lod::AnyLoDTensor(x), [&](const auto& y) { return same_bits(y.template as<float>(), x); });
  check_self_assignment(lod::Buffer<int>(3, lod::Cpu::default_resource()), [](const auto& y) { return y.size() == 3; });
  check_self_assignment(lod::CpuExecutor(3), [](const auto& y) { return y.threads() == 3; });
  const lod::RankTable table(x.lod(), {.level = 1});
  check_self_assignment(table, [&](const lod::RankTable& y) {
    return y.lod() == x.lod() && y.level() == 1 && y.size() == 3 && y.steps() == 2 && y[0] == table[0];
  });
  lod::TensorArray<float> array({x, x});
  array.like() = LoDTensor<float>(lod::Shape{0, 5});
  check_self_assignment(array, [&](const auto& y) {
    return y.size() == 2 && same_bits(y[1], x) && y.like().row_shape() == lod::Shape{5};
  });
  check_self_assignment(lod::Variable(x, "x"),
                        [&](const lod::Variable& y) { return same_bits(y.get<lod::AnyLoDTensor>().as<float>(), x); });
  check_self_assignment(lod::Variable(lod::Vocabulary{{"a", 1}}, "v"),
                        [](const lod::Variable& y) { return y.get<lod::Vocabulary>().size() == 1; });
}

TEST_CASE("Errors: have texts of little more than 2000 bytes, whatever they are about, with both ends of it") {
  const std::string name = "begin" + std::string(1000000, 'x') + "end";
  const std::vector<std::int64_t> branch(100000, 3);
  const auto text_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  const auto check_text = [](const std::string& text, const char* begin, const char* end) {
    CHECK(text.size() < 2100);
    CHECK(text.find(begin) != std::string::npos);
    CHECK(text.find(" bytes) ...") != std::string::npos);
    CHECK(text.ends_with(end));
  };
  const LoDTensor<float> x = counted_tensor();
  check_text(text_of([&] { static_cast<void>(x.view().slice(branch)); }), "branch <3, 3", "there are 2 levels");
  check_text(text_of([&] { throw lod::InvalidLoD(name); }), "begin", "end");
  check_text(text_of([&] { throw lod::ShapeMismatch(name); }), "begin", "end");
  check_text(text_of([&] { throw lod::OutOfRange(name); }), "begin", "end");
  check_text(text_of([&] { throw lod::ParseError(name, 7); }), "begin", "end (at byte 7)");
  check_text(text_of([&] { throw lod::ParseError(name, 7).inside(name, 10); }), "begin", "end (at byte 17)");
  CHECK(lod::ParseError(name, 7).inside(name, 10).position() == 17);
  const std::string letters = [] {
    std::string all;
    for (int i = 0; i < 1500; ++i) all += "\u00e4";  // two bytes
    return all;
  }();
  for (const char* const before : {"", "x"}) {
    const std::string text = lod::InvalidLoD(before + letters).what();
    const std::size_t gap = text.find(" ... (");
    REQUIRE(gap != std::string::npos);
    CHECK(text.substr(gap - 2, 2) == "\u00e4");
    CHECK(text.substr(text.find(") ... ") + 6, 2) == "\u00e4");
  }
}

TEST_CASE("operator<<: writes the same in every locale and base, and leaves the stream as it was") {
  const auto numbers = LoDTensor<std::int64_t>::from_values(LoD::from_lengths({{1, 1}}), {}, {1234567, -1000});
  const auto reals = LoDTensor<double>::from_values(LoD(), {}, {1234567.5, 0.25});
  const auto complex = LoDTensor<std::complex<float>>::from_values(LoD(), {}, {{1000.5F, -2000}});
  const auto halves = LoDTensor<lod::float16>::from_values(LoD(), {}, {lod::float16(1234)});
  const auto bytes = LoDTensor<std::uint8_t>::from_values(LoD(), {}, {255});
  const auto bools = LoDTensor<bool>::from_values(LoD(), {}, {true});
  const SelectedRows<float> rows({1000, 1234}, 5000, {1});
  const auto check = [](const auto& x) {
    const std::string expected = text_in_classic_locale(x);
    std::ostringstream out;
    out.imbue(std::locale(std::locale::classic(), new Punctuation));
    out << std::hex << std::showbase << std::showpos << std::boolalpha << std::setfill('*');
    const auto flags = out.flags();
    out << x;
    CHECK(out.str() == expected);
    CHECK(out.flags() == flags);
    CHECK(out.fill() == '*');
    CHECK(out.precision() == 6);
    out.str("");
    out << std::setw(static_cast<int>(expected.size()) + 3) << x;
    CHECK((out.str() == "***" + expected || out.str() == expected + "***"));
    CHECK(out.width() == 0);
  };
  check(numbers);
  check(numbers.view());
  check(numbers.lod());
  check(numbers.lod_view());
  check(numbers.shape());
  check(reals);
  check(complex);
  check(halves);
  check(bytes);
  check(bools);
  check(rows);
  std::ostringstream out;
  out << std::setprecision(9) << reals << std::fixed << std::setprecision(1) << reals;
  CHECK(out.str().find("[1234567.5, 0.25]") != std::string::npos);
  CHECK(out.str().find("[1234567.5, 0.2]") != std::string::npos);
}

TEST_CASE("operator<<: writes the same numbers for any control word of the caller") {
  const auto reals = LoDTensor<double>::from_values(LoD(), {}, {0.1, 5e-324, 1e23, -1e-310});
  const auto floats = LoDTensor<float>::from_values(LoD(), {}, {0.3F, 1e-45F, -1e-40F});
  const auto halves = LoDTensor<lod::float16>::from_values(LoD(), {}, {lod::float16(6e-8F), lod::float16(0.1F)});
  SelectedRows<float> rows({1}, 3, {1});
  rows.value().data()[0] = 1e-45F;
  const auto check = [](const auto& x) {
    const std::string expected = text_in_classic_locale(x);
    lod_test::for_each_control([&](int rounding, bool flushes) {
      const lod_test::CallersControl control(rounding, flushes);
      const unsigned before = lod_test::control_word();
      CHECK(text_in_classic_locale(x) == expected);
      CHECK(lod_test::control_word() == before);
    });
  };
  check(reals);
  check(reals.view());
  check(floats);
  check(halves);
  check(rows);
}
