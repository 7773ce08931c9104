// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs of the operators in operator_samples.hpp, with all the variables that these name.
#pragma once

#include "support/operator_text.hpp"
#include <lod/desc.hpp>
#include <lod/program.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace lod_test {

/// Block 0 with these operators, and block 1, which counts up to three.
inline lod::ProgramDesc sample_program(std::vector<lod::OpDesc> ops) {
  using lod::DataType;
  lod::ProgramDesc program;
  program.blocks.resize(2);
  lod::BlockDesc &root = program.blocks[0], &body = program.blocks[1];
  const auto add = [&](const char* name, DataType type, std::vector<std::int64_t> dims, int levels = 0,
                       bool persistable = false) {
    root.vars.push_back(lod::VarDesc::lod_tensor(name, {type, std::move(dims)}, levels));
    if (persistable) root.vars.back().persistable = root.vars.back().is_parameter = true;
  };
  add("x", DataType::FP32, {-1, 4}, 1);
  add("z", DataType::FP32, {5, 4});
  add("x1", DataType::FP32, {-1, 1}, 1);
  add("x12", DataType::FP32, {-1, 12}, 1);
  add("x16", DataType::FP32, {-1, 16}, 1);
  add("nested", DataType::FP64, {-1, 2}, 2);
  add("s4", DataType::FP32, {3, 4});
  add("image", DataType::FP32, {2, 3, 4});
  add("ids", DataType::INT64, {-1, 1}, 1);
  add("i", DataType::INT64, {1});
  add("o", DataType::INT64, {3, 1});
  add("l", DataType::INT64, {3});
  add("flags", DataType::BOOL, {3, 1});
  add("going", DataType::BOOL, {1});
  add("one", DataType::FP32, {1});
  for (const char* const name : {"z1", "z2", "z3", "z4"}) add(name, DataType::FP32, {5, 4});
  for (const char* const name : {"one1", "one2"}) add(name, DataType::FP32, {1});
  add("one3", DataType::FP32, {1, 3});
  add("one31", DataType::FP32, {3, 1});
  add("l2", DataType::INT64, {2});
  add("z12", DataType::FP32, {5, 12});
  add("z16", DataType::FP32, {5, 16});
  add("ids32", DataType::INT32, {-1, 1}, 1);
  add("bids", DataType::INT64, {-1, 1}, 2);
  add("bscores", DataType::FP32, {-1, 1}, 2);
  add("kids", DataType::INT64, {-1, 3}, 2);
  add("kscores", DataType::FP32, {-1, 3}, 2);
  add("o5", DataType::INT64, {5, 1});
  add("o32", DataType::INT32, {3, 1});
  add("s2", DataType::FP32, {3, 2});
  add("stats", DataType::INT64, {1, 4});
  add("pixels", DataType::FP32, {2, 2, 4, 3});
  root.vars.push_back(lod::VarDesc::selected_rows("sparse", {DataType::FP32, {4, 4}}));
  for (const char* const name : {"y", "n", "k", "s"}) {
    root.vars.push_back({.name = name, .type = {.type = lod::VarType::LOD_TENSOR}});
  }
  add("w", DataType::FP32, {4, 4}, 0, true);
  add("w6", DataType::FP32, {6, 4}, 0, true);
  add("w12", DataType::FP32, {4, 12}, 0, true);
  add("w12t", DataType::FP32, {12, 4}, 0, true);
  add("w16", DataType::FP32, {4, 16}, 0, true);
  add("b", DataType::FP32, {4}, 0, true);
  add("b3", DataType::FP32, {3}, 0, true);
  add("w44", DataType::FP32, {3, 4, 4}, 0, true);
  add("b6", DataType::FP32, {6}, 0, true);
  add("filter", DataType::FP32, {3, 2, 2, 2}, 0, true);
  add("filter1", DataType::FP32, {4, 1, 2, 2}, 0, true);
  add("b12", DataType::FP32, {1, 12}, 0, true);
  add("b28", DataType::FP32, {1, 28}, 0, true);
  for (const char* const name : {"array", "ids_array", "scores_array"}) {
    root.vars.push_back(lod::VarDesc::of_type(name, lod::VarType::LOD_TENSOR_ARRAY));
  }
  root.vars.push_back(lod::VarDesc::of_type("channel", lod::VarType::CHANNEL));
  root.vars.push_back(lod::VarDesc::of_type("reader", lod::VarType::READER));
  root.vars.push_back(lod::VarDesc::of_type("table", lod::VarType::LOD_RANK_TABLE));
  root.vars.push_back(lod::VarDesc::of_type("scopes", lod::VarType::STEP_SCOPES));
  root.ops = std::move(ops);
  body.idx = 1;
  body.parent_idx = 0;
  body.vars = {lod::VarDesc::lod_tensor("three", {DataType::INT64, {1}})};
  body.ops = {{.outputs = {{"Out", {"three"}}}, .type = "fill_constant"},
              {.inputs = {{"X", {"i"}}}, .outputs = {{"Out", {"i"}}}, .type = "increment"},
              {.inputs = {{"X", {"i"}}, {"Y", {"three"}}}, .outputs = {{"Out", {"going"}}}, .type = "less_than"}};
  for (const char* const word : {"shape:I=1", "dtype:i=3", "value:f=3"}) body.ops[0].attrs.push_back(attr_of(word));
  return program;
}

}  // namespace lod_test
