// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes the files that lodinfo_test.py looks at: lodinfo_files <folder>
#include <lod/any_tensor.hpp>
#include <lod/io/json.hpp>
#include <lod/io/npy.hpp>
#include <lod/lod.hpp>
#ifdef LODINFO_FILES_file
#  include <lod/io/file.hpp>
#endif
#ifdef LODINFO_FILES_proto
#  include <lod/io/paddle.hpp>
#endif
#ifdef LODINFO_FILES_npz
#  include <lod/io/npz.hpp>
#endif

#include <complex>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace {

/// The LoD of the design document: three articles of 3, 1 and 2 sentences.
lod::LoD articles() { return lod::LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}}); }

/// Values 0, 1, 2, ...
template <class T>
lod::LoDTensor<T> counting(lod::LoDTensor<T> x) {
  for (std::size_t i = 0; i < x.values().size(); ++i) x.values()[i] = static_cast<T>(static_cast<float>(i));
  return x;
}

struct Samples {
  lod::LoDTensor<std::int64_t> words = counting(lod::LoDTensor<std::int64_t>(articles(), {}));
  lod::LoDTensor<float> vectors = counting(lod::LoDTensor<float>(articles(), {2}));
  lod::LoDTensor<double> strange = counting(lod::LoDTensor<double>({6}));
  lod::LoDTensor<float> nothing{{0, 3}};
  lod::LoDTensor<float> gaps = counting(lod::LoDTensor<float>(lod::LoD::from_lengths({{0, 2, 0, 1}}), {}));
  lod::LoDTensor<std::uint64_t> large{{2}};
  lod::SelectedRows<float> gradient{{4, 0, 4}, 10, {2}};

  Samples() {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    strange.values()[1] = std::numeric_limits<double>::quiet_NaN();
    strange.values()[2] = infinity;
    strange.values()[3] = -infinity;
    large.values()[1] = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t i = 0; i < 6; ++i) gradient.value().values()[i] = static_cast<float>(i);
  }
};

#ifdef LODINFO_FILES_file
void make_lod_files(const std::string& folder, const Samples& samples) {
  lod::LoDTensor<bool> flags({3});
  flags.values()[1] = true;
  lod::LoDTensor<std::complex<float>> complex({2});
  complex.values()[1] = {3, -4};
  const std::vector<lod::LoDTensor<float>> steps{counting(lod::LoDTensor<float>({2, 3})),
                                                 counting(lod::LoDTensor<float>({1, 3}))};
  lod::AnyLoDTensor eighths(lod::DataType::FP8_E5M2, lod::LoD(), {}, lod::uninitialized, 3);
  for (std::byte& byte : eighths.mutable_bytes()) byte = std::byte{0};
  lod::save(folder + "/batch.lod", {{"words", samples.words},
                                    {"vectors", samples.vectors},
                                    {"strange", samples.strange},
                                    {"nothing", samples.nothing},
                                    {"gaps", samples.gaps},
                                    {"large", samples.large},
                                    {"gradient", samples.gradient},
                                    {"flags", flags},
                                    {"halves", counting(lod::LoDTensor<lod::float16>({2, 2}))},
                                    {"complex", complex},
                                    {"steps", steps},
                                    {"eighths", eighths}});
  // The same with a difference of each kind.
  Samples other;
  const auto moved = lod::LoD::from_lengths({{3, 1, 2}, {3, 3, 3, 1, 2, 3}});
  other.vectors.values()[6] = 6.5f;
  other.vectors.values()[29] = -1;
  other.large.values()[1] -= 1;
  other.gradient = lod::SelectedRows<float>({4, 1, 4}, 11, {2});
  other.gradient.value().fill(0);
  lod::save(folder + "/other.lod", {{"words", std::move(other.words).with_lod(moved)},
                                    {"vectors", other.vectors},
                                    {"strange", other.strange},
                                    {"gaps", lod::LoDTensor<float>(lod::LoD::from_lengths({{0, 2, 0, 1, 0}}), {})},
                                    {"large", other.large},
                                    {"gradient", other.gradient},
                                    {"flags", lod::LoDTensor<std::int8_t>({3})},
                                    {"halves", counting(lod::LoDTensor<lod::float16>({2, 3}))},
                                    {"complex", lod::LoDTensor<std::complex<float>>({2})},
                                    {"steps", std::vector{steps[0]}},
                                    {"eighths", eighths},
                                    {"added", samples.large}});
  lod::save(folder + "/hostile.lod", {{"red\x1b[31m\n", samples.large},
                                      {"turned\xe2\x80\xae", samples.large},
                                      {"na\xc3\xafve", samples.large},
                                      {"\xff", samples.large}});

  std::vector<std::int64_t> lengths(200);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::int64_t>(i * i % 97);
  lod::save(folder + "/long.lod", {{"x", counting(lod::LoDTensor<float>(lod::LoD::from_lengths({lengths}), {30}))}});

  const auto giant = lod::LoD::from_lengths({{(std::int64_t{1} << 40) - 5, 5}});
  lod::save(folder + "/no_elements.lod",
            {{"x", lod::LoDTensor<float>(articles(), {0})}, {"giant", lod::LoDTensor<float>(giant, {0})}});

  lod::FileWriter many(folder + "/many.lod");
  for (int i = 0; i < 150; ++i) many.add("a variable with a name that is long, " + std::to_string(i), samples.large);
  many.commit();
  lod::save(folder + "/none.lod", {});
}
#endif

#ifdef LODINFO_FILES_proto
void make_paddle_files(const std::string& folder, const Samples& samples) {
  lod::paddle::save_tensor(folder + "/one_variable", samples.words);
  lod::paddle::save_selected_rows(folder + "/one_gradient", samples.gradient);
  std::ofstream(folder + "/two_variables", std::ios::binary)
      << lod::paddle::encode_tensor(samples.words) + lod::paddle::encode_tensor(samples.large);

  // Two blocks, the second one inside the first.
  lod::ProgramDesc program;
  program.blocks.resize(2);
  program.blocks[1].idx = 1;
  program.blocks[1].parent_idx = 0;
  program.blocks[0].vars = {lod::VarDesc::lod_tensor("x", {lod::DataType::INT64, {-1, 1}}, 2),
                            lod::VarDesc::of_type("scopes", lod::VarType::STEP_SCOPES)};
  program.blocks[0].ops.push_back({.type = "while"});
  program.blocks[1].vars = {lod::VarDesc::lod_tensor("y", {lod::DataType::FP32, {2, 3}})};
  program.blocks[1].ops.assign(2, {.type = "mul"});
  lod::paddle::save_program(folder + "/nested.pdmodel", program);
  program.blocks[0].ops[0].inputs.push_back({"X", {"x"}});
  program.blocks[0].ops[0].attrs.push_back({.name = "sub_block", .type = lod::AttrType::BLOCK, .block_idx = 1});
  program.blocks[1].ops[1] = {.inputs = {{"X", {"y", "x"}}}, .outputs = {{"Out", {"a \"z\""}}}, .type = "sum"};
  program.blocks[1].vars[0].type.lod_tensor->tensor.dims[1] = 4;
  lod::paddle::save_program(folder + "/changed.pdmodel", program);
}
#endif

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::string folder = arguments[1];
  const Samples samples;
  lod::save_npy(folder + "/array.npy", samples.strange);
  std::ofstream(folder + "/object.json") << lod::to_json(samples.words, lod::JsonForm::OBJECT);
#ifdef LODINFO_FILES_npz
  lod::save_npz(folder + "/batch.npz", {{"words", samples.words}, {"gradient", samples.gradient}});
#endif
#ifdef LODINFO_FILES_file
  make_lod_files(folder, samples);
#endif
#ifdef LODINFO_FILES_proto
  make_paddle_files(folder, samples);
#endif
}
