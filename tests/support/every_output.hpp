// SPDX-License-Identifier: Apache-2.0
/// @file
/// Every operation that writes to outputs of the caller's, with arguments for it: what holds of all of them is tested
/// over this list, which is made of the samples of the catalogue.
#pragma once

#include <lod/lod.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace lod_test {

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using lod::RankTable;
using lod::SelectedRows;

/// How much is promised where memory runs out.
enum class Failure {
  CHANGES_NOTHING,
  CONTENTS_LOST,  ///< outputs keep their levels, shape and memory, but not what is in it
  BY_ELEMENTS     ///< elements of arrays that were written keep their new contents
};

/// Numbers for arguments: small ones, which are not all different.
template <class T>
LoDTensor<T> numbered(LoDTensor<T> x, int from = 1) {
  std::int64_t next = from;
  for (T& number : x.values()) number = static_cast<T>(next++ % 5 + 1);
  return x;
}

/// What operations take and give. All are float, or int64 where the operation takes ids; ids and lengths are int64, the
/// parents of beams int32.
using Value = std::variant<LoDTensor<float>, LoDTensor<std::int64_t>, LoDTensor<std::int32_t>, SelectedRows<float>,
                           std::vector<LoDTensor<float>>, std::vector<SelectedRows<float>>, lod::TimeMajor<float>,
                           lod::TensorArray<float>, lod::LstmWeights<float>, lod::GruWeights<float>,
                           lod::LstmLayers<float>, lod::GruLayers<float>>;
using Values = std::vector<Value>;

/// An operation in one of its forms, arguments for it, and empty outputs.
struct OperationWithOutputs {
  std::string name;
  Failure failure;
  Values arguments, outputs;
  /// An argument may be an output, too.
  std::function<void(const lod::CpuExecutor&, std::span<const Value* const>, std::span<Value* const>)> run;
};
std::vector<OperationWithOutputs> operations_with_outputs();

/// For OperationWithOutputs::run.
inline std::vector<const Value*> arguments(const Values& values) {
  std::vector<const Value*> all;
  for (const Value& value : values) all.push_back(&value);
  return all;
}
inline std::vector<Value*> outputs(Values& values) {
  std::vector<Value*> all;
  for (Value& value : values) all.push_back(&value);
  return all;
}

/// What the operation gives.
inline Values results(const OperationWithOutputs& operation, const lod::CpuExecutor& executor) {
  Values outs = operation.outputs;
  operation.run(executor, arguments(operation.arguments), outputs(outs));
  return outs;
}

}  // namespace lod_test
