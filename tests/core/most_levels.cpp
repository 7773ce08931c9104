// SPDX-License-Identifier: Apache-2.0
// A LoD has so many levels at most: every way to make one, and that what goes from level to level gets along with them.
#include <lod/cpu.hpp>
#include <lod/infer.hpp>
#include <lod/io/text.hpp>
#include <lod/lod_index.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/ops.hpp>
#include <lod/variable.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::max_levels;

namespace {

using Levels = std::vector<std::vector<std::int64_t>>;

constexpr std::size_t most = max_levels;
const std::vector<std::size_t> too_many = {most + 1, most + 2, 1000, 40000};

/// One sequence of one, of one, and so on: `levels` of these offsets.
Levels offsets_of(std::size_t levels) { return Levels(levels, {0, 1}); }

template <class Make>
void check_refused(std::size_t levels, const Make& make) {
  CAPTURE(levels);
  const std::string expected = std::to_string(levels) + " levels, expected " + std::to_string(max_levels) + " at most";
  CHECK_THROWS_WITH_AS(make(), doctest::Contains(expected.c_str()), lod::InvalidLoD);
}

}  // namespace

TEST_CASE("LoD: of max_levels levels is one, by every way to make it; of more is refused by all") {
  const auto spans_of = [](const Levels& levels) {
    std::vector<std::span<const std::int64_t>> spans;
    for (const auto& level : levels) spans.emplace_back(level);
    return spans;
  };
  const Levels fit = offsets_of(most);
  const LoD deepest = LoD::from_offsets(fit);
  CHECK(deepest.levels() == max_levels);
  CHECK(LoD::from_lengths(Levels(most, {1})) == deepest);
  CHECK(LoD::from_absolute_offsets(fit) == deepest);
  const auto kept = std::make_shared<Levels>(fit);
  CHECK(LoD::wrap(spans_of(*kept), kept) == deepest);
  CHECK(deepest.slice_levels(0, max_levels - 1).append_level({0, 1}) == deepest);

  check_refused(most + 1, [&] { return deepest.append_level({0, 1}); });
  for (const std::size_t levels : too_many) {
    const Levels offsets = offsets_of(levels), lengths(levels, {1});
    const auto spans = spans_of(offsets);
    check_refused(levels, [&] { return LoD::from_offsets(offsets); });
    check_refused(levels, [&] { return LoD::from_offsets({spans.data(), spans.size()}); });
    check_refused(levels, [&] { return LoD::from_lengths(lengths); });
    check_refused(levels, [&] { return LoD::from_absolute_offsets(offsets); });
    check_refused(levels, [&] { return LoD::wrap(spans, 0); });
  }
}

TEST_CASE("LoD: of max_levels levels is printed, drawn, sliced and compared") {
  LoDTensor<int> x(LoD::from_offsets(offsets_of(most)), {});
  x.data()[0] = 7;
  std::ostringstream text;
  text << x << x.view() << x.lod();
  CHECK(text.str().find(std::string(most + 1, '[') + "7") != std::string::npos);
  CHECK(draw(x).find('|') != std::string::npos);
  CHECK(draw(x.lod_view()).find('1') != std::string::npos);
  const std::vector<std::int64_t> branch(most, 0);
  CHECK(x.slice(branch).levels() == 1);
  CHECK(x.lod_view().lod() == LoD::from_absolute_offsets(x.absolute_lod()));
}

TEST_CASE("Operations: what adds a level refuses one too many, and leaves the output as it was") {
  LoDTensor<float> x(LoD::from_offsets(offsets_of(most)), {2});
  LoDTensor<float> y = LoDTensor<float>::from_values(LoD::from_lengths({{1}}), {}, {5});
  const lod::RankTable table(LoD::from_lengths({{1}}));
  const auto refused = [&](const auto& call) {
    CHECK_THROWS_AS(call(), lod::InvalidLoD);
    CHECK(y.lod() == LoD::from_lengths({{1}}));
    CHECK(y.values()[0] == 5);
  };
  const lod::CpuExecutor executor(1);
  refused([&] { lod::insert_level_into(executor, x, 0, LoD::from_lengths({{1}}), y); });
  refused([&] { lod::insert_level_into(executor, x, -1, LoD::from_lengths({{1}}), y); });
  const std::vector<std::int64_t> cut = {0, 1};
  refused([&] { lod::lod_append_into(executor, x, cut, y); });
  lod::TensorArray<float> steps(std::vector<LoDTensor<float>>{x});
  refused([&] { lod::array_to_lod_tensor_into(executor, steps, table, y); });
  refused([&] {
    return lod::map_sequences(executor, LoDTensor<float>(LoD::from_lengths({{1}}), {2}),
                              [&](const auto&) { return x; });
  });
}

TEST_CASE("Descriptions: of more levels than a LoD has, they are kept as data, and no tensor is inferred from them") {
  lod::LoDTensorDesc desc{{lod::DataType::FP32, {1}}, max_levels};
  CHECK(lod::infer_sequence_reverse(desc).lod_level == max_levels);
  CHECK_THROWS_AS(lod::infer_lod_append(desc, {{lod::DataType::INT64, {2}}}), lod::InvalidLoD);
  desc.lod_level = max_levels + 1;
  CHECK_THROWS_AS(lod::infer_sequence_reverse(desc), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::Variable::create(lod::VarDesc::lod_tensor("x", desc.tensor, desc.lod_level)),
                  lod::ShapeMismatch);
}
