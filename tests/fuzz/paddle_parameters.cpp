// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parameters of a program, all in one file.
#include "model.hpp"
#include "target.hpp"
#include <lod/any_tensor.hpp>
#include <lod/error.hpp>
#include <lod/io/paddle.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/program.hpp>
#include <lod/proto/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace paddle = lod::paddle;

namespace {

/// Each parameter takes 28 bytes of the file or more, and an entry of the map of about 250, which has a copy of the
/// name; the program's part: its variables are looked at by name, 80 bytes for each of 8.
constexpr lod_fuzz::Bound bound{.times = 32};

}  // namespace

std::vector<std::string> lod_fuzz::seeds() {
  lod::ProgramDesc program;
  program.blocks = {{.idx = 0, .parent_idx = -1}, {.idx = 1, .parent_idx = 0}};
  paddle::Parameters parameters;
  const auto add = [&](std::size_t block, const std::string& name, std::vector<std::int64_t> dims,
                       const lod::AnyLoDTensor& value) {
    program.blocks[block].vars.push_back(lod::VarDesc::lod_tensor(name, {value.data_type(), std::move(dims)}));
    program.blocks[block].vars.back().persistable = true;
    parameters.emplace(name, value);
  };
  add(0, "w", {-1, 2}, lod::LoDTensor<float>({3, 2}));
  add(1, "b", {}, lod::LoDTensor<std::int64_t>({1}));
  add(1, "table", {2}, lod::LoDTensor<bool>(lod::LoD::from_lengths({{2, 0}}), {}));
  program.blocks[0].vars.push_back(lod::VarDesc::lod_tensor("x", {lod::DataType::FP32, {-1}}));
  const std::string data = LOD_TEST_DATA "/paddle/custom_gap/custom_gap";
  const paddle::Model model = paddle::load_model(data);
  return {joined(lod::encode(program), paddle::encode_parameters(parameters, program)),
          joined(lod::encode(model.program), paddle::encode_parameters(model.parameters, model.program))};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [program_bytes, parameter_bytes] = lod_fuzz::parted(lod_fuzz::input(data, size));

  lod::ProgramDesc program;
  try {
    program = lod::decode<lod::ProgramDesc>(program_bytes);
  } catch (const lod::ParseError&) {
    return 0;  // see the target `programs`
  }
  const auto parameters = lod_fuzz::attempt<lod::ParseError>(
      size, bound, [&, bytes = parameter_bytes] { return paddle::decode_parameters(bytes, program); });
  if (!parameters) return 0;

  const std::vector<std::string> names = paddle::parameter_names(program);
  LOD_FUZZ_EXPECT(std::is_sorted(names.begin(), names.end()));
  LOD_FUZZ_EXPECT(names.size() == parameters->size());
  const std::string encoded = paddle::encode_parameters(*parameters, program);
  const paddle::Parameters again = paddle::decode_parameters(encoded, program);
  const paddle::Parameters by_name = paddle::decode_parameters(encoded, names);
  for (const std::string& name : names) {
    LOD_FUZZ_EXPECT(lod_fuzz::same(again.at(name), parameters->at(name)));
    LOD_FUZZ_EXPECT(lod_fuzz::same(by_name.at(name), parameters->at(name)));
  }
  return 0;
}
