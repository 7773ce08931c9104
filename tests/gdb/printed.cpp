// SPDX-License-Identifier: Apache-2.0
// What gdb prints of each type. printers.sh stops in `stop_here`, prints in `main` what stands after `print`, and
// expects what stands after `=`; a line without either of the two belongs to the one before.
#include <lod/core/any_tensor.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/program.hpp>

#include <cstdint>
#include <numeric>
#include <vector>

// Nothing reads the variables but gdb.
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"

namespace {

// A device whose memory gdb cannot read.
struct Elsewhere {};

[[gnu::noinline]] void stop_here(const lod::LoDTensor<float>& argument) {
  // print argument
  // = lod::LoDTensor<float>, 15 rows, lengths {{3, 2, 4}, {1}, {2, 3}} = {<0, 0> = {0, 1, 2}, <0, 1> = {3, 4},
  //   <0, 2> = {5, 6, 7, 8}, <1, 0> = {9}, <2, 0> = {10, 11}, <2, 1> = {12, 13, 14}}
  asm volatile("" : : "r"(&argument) : "memory");
}

template <class Tensor>
Tensor counted(lod::LoD lod, const lod::Shape& row_shape) {
  Tensor x(std::move(lod), row_shape);
  float next = 0;
  for (auto& value : x.values()) value = typename Tensor::value_type(next++);
  return x;
}

}  // namespace

int main() {
  const lod::LoD articles = lod::LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}});
  // print articles
  // = lod::LoD, 15 rows, lengths {{3, 2, 4}, {1}, {2, 3}} = {level 0 = {0, 3, 4, 6},
  //   level 1 = {0, 3, 5, 9, 10, 12, 15}}
  const lod::LoD no_levels;
  // print no_levels
  // = lod::LoD, no levels
  const lod::LoD no_sequences = lod::LoD::from_lengths({{}, {}});
  // print no_sequences
  // = lod::LoD, 0 rows, lengths {} = {level 0 = {0}, level 1 = {0}}
  const lod::LoD empty_sequences = lod::LoD::from_lengths({{0, 3, 0}, {0, 1, 0}});
  // print empty_sequences
  // = lod::LoD, 1 row, lengths {{}, {0, 1, 0}, {}} = {level 0 = {0, 0, 3, 3}, level 1 = {0, 0, 1, 1}}
  const lod::LoDView second_part = articles.view().between(1, 3);
  // print second_part
  // = lod::LoDView, 6 rows from row 9, lengths {{1}, {2, 3}} = {level 0 = {3, 4, 6}, level 1 = {9, 10, 12, 15}}
  const lod::LoDView rows_alone = lod::LoDView::plain(3, 7);
  // print rows_alone
  // = lod::LoDView, 4 rows from row 3, no levels

  auto words = counted<lod::LoDTensor<float>>(articles, {});
  auto pairs = counted<lod::LoDTensor<std::int64_t>>(empty_sequences, {2});
  // print pairs
  // = lod::LoDTensor<long>, 1 row of {2}, lengths {{}, {0, 1, 0}, {}} = {<1, 0> = {}, <1, 1> = {{0, 1}}, <1, 2> = {}}
  const lod::LoDTensor<double> no_rows(no_sequences, {3});
  // print no_rows
  // = lod::LoDTensor<double>, 0 rows of {3}, lengths {}
  const lod::LoDTensor<double> untouched;
  // print untouched
  // = lod::LoDTensor<double>, 0 rows
  auto images = counted<lod::LoDTensor<int>>(lod::LoD::from_lengths({{2, 1}}), {2, 2});
  // print images
  // = lod::LoDTensor<int>, 3 rows of {2, 2}, lengths {2, 1} = {<0> = {{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}},
  //   <1> = {{{8, 9}, {10, 11}}}}
  lod::LoDTensor<std::int16_t> plain(lod::Shape{3, 2});
  std::iota(plain.values().begin(), plain.values().end(), std::int16_t{-2});
  // print plain
  // = lod::LoDTensor<short>, 3 rows of {2} = {{-2, -1}, {0, 1}, {2, 3}}
  const lod::LoDTensor<float> rows_of_nothing(lod::LoD::from_lengths({{1, 1}}), {0});
  // print rows_of_nothing
  // = lod::LoDTensor<float>, 2 rows of {0}, lengths {1, 1} = {<0> = {}, <1> = {}}
  auto halves = counted<lod::LoDTensor<lod::float16>>(lod::LoD::from_lengths({{2, 1}}), {});
  halves.values()[1] = lod::float16(-0.5f);
  // print halves
  // = lod::LoDTensor<lod::float16>, 3 rows, lengths {2, 1} = {<0> = {0, -0.5}, <1> = {2}}
  const lod::bfloat16 third = lod::bfloat16(1.0f / 3);
  // print third
  // = 0.333984375

  const auto sentence = words.slice({0, 1});
  // print sentence
  // = lod::LoDTensorView<float>, 2 rows from row 3, lengths {2} = {<0> = {3, 4}}
  const auto article = words[2];
  // print article
  // = lod::LoDTensorView<float>, 5 rows from row 10, lengths {2, 3} = {<0> = {10, 11}, <1> = {12, 13, 14}}
  const auto row = words[2][1][1];
  // print row
  // = lod::LoDTensorView<float>, 1 row from row 13 = {13}
  const auto last_articles = words.between(1, 3);
  // print last_articles
  // = lod::LoDTensorView<float>, 6 rows from row 9, lengths {{1}, {2, 3}} = {<0, 0> = {9}, <1, 0> = {10, 11},
  //   <1, 1> = {12, 13, 14}}
  const lod::Shape row_shape;
  const lod::LoDTensorView<const float, Elsewhere> far_away(reinterpret_cast<const float*>(16), second_part, &row_shape,
                                                            1);
  // print far_away
  // = lod::LoDTensorView<float const, (anonymous namespace)::Elsewhere>, 6 rows from row 9, lengths {{1}, {2, 3}},
  //   values on another device

  // As many numbers as gdb is told to print, and no more bytes than it may fetch.
  auto giant = counted<lod::LoDTensor<double>>(lod::LoD::from_lengths({{100000, 1}}), {});
  // print -elements 3 -- giant
  // = lod::LoDTensor<double>, 100001 rows, lengths {100000, 1} = {<0>, its beginning = {0, 1, 2...}, <1> = {100000}}
  auto many = counted<lod::LoDTensor<int>>(lod::LoD::from_lengths({std::vector<std::int64_t>(1000, 1)}), {});
  // print -elements 3 -- many
  // = lod::LoDTensor<int>, 1000 rows, lengths {1, 1, 1, ...} = {<0> = {0}, <1> = {1}, <2> = {2}...}
  lod::LoDTensor<double> wide(lod::Shape{2, 20000});
  // print -elements 3 -- wide
  // = lod::LoDTensor<double>, 2 rows of {20000} = {[0], its beginning = {0 <repeats 8192 times>},
  //   [1], its beginning = {0 <repeats 8192 times>}}

  lod::SelectedRows<float> gradient({7, 2}, 9, {2});
  gradient.value().fill(1.5f);
  // print gradient
  // = lod::SelectedRows<float>, 2 rows of {2}, of a height of 9 = {[7] = {1.5, 1.5}, [2] = {1.5, 1.5}}
  const lod::AnyLoDTensor any = pairs;
  // print any
  // = lod::AnyLoDTensor of INT64, 1 row of {2}, lengths {{}, {0, 1, 0}, {}} = {<1, 0> = {}, <1, 1> = {{0, 1}},
  //   <1, 2> = {}}
  const lod::AnyLoDTensor any_halves = halves;
  // print any_halves
  // = lod::AnyLoDTensor of FP16, 3 rows, lengths {2, 1} = {<0> = {0, -0.5}, <1> = {2}}

  lod::VarDesc described{.name = "words",
                         .type = {.lod_tensor = lod::LoDTensorDesc{{lod::DataType::INT64, {-1, 1}}, 2}}};
  described.stop_gradient = true;
  // print described
  // = words: LOD_TENSOR INT64 {-1, 1}, 2 levels, stop_gradient
  // print described.persistable
  // = absent, which reads as false
  const lod::TensorDesc scalar;
  // print scalar
  // = FP32 {}
  lod::ProgramDesc program;
  program.blocks.emplace_back();
  program.blocks[0].vars.push_back(described);
  lod::OpDesc sum;
  sum.type = "sum";
  sum.inputs.push_back({"X", {"words", "more"}});
  sum.outputs.push_back({"Out", {"all"}});
  sum.attrs.emplace_back();
  program.blocks[0].ops.push_back(sum);
  // print program
  // = program, 1 block = {blocks[0] = block 0, 1 variable, 1 operator = {
  //   vars[0] = words: LOD_TENSOR INT64 {-1, 1}, 2 levels, stop_gradient,
  //   ops[0] = sum(X: {words, more}) -> Out: all, 1 attribute}}
  stop_here(words);
}
