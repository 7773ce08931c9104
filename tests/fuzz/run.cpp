// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs that run, with their parameters. Whatever their operators, attributes and shapes, and whatever their files
/// hold: a broken one ends in an error of the library, in bounded time and memory. The mutator knows programs, since
/// broken bytes seldom are one.
#include "model.hpp"
#include "support/operator_programs.hpp"
#include "support/operator_samples.hpp"
#include "support/operator_text.hpp"
#include "target.hpp"
#include <lod/io/paddle.hpp>
#include <lod/proto/program.hpp>
#include <lod/run.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory_resource>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

extern "C" __attribute__((weak)) std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

/// Memory of which there is little.
class LittleMemory final : public std::pmr::memory_resource {
 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (bytes > left_) throw std::bad_alloc();
    left_ -= bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    left_ += bytes;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::size_t left_ = std::size_t{1} << 20;
};

constexpr auto least = std::numeric_limits<std::int64_t>::min(), greatest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t odd_numbers[] = {
    0, 1, -1, 2, 3, 4, 5, 7, 12, -2, -100, 1000, 1 << 20, INT32_MAX, INT32_MIN, std::int64_t{1} << 40, greatest, least};

/// Small numbers, among which there may be an odd one.
template <class T>
void fill(std::span<T> values, std::minstd_rand* random) {
  std::int64_t number = 0;
  for (T& value : values) value = static_cast<T>(number++ % 4);
  if (!random || (*random)() % 8 > 0 || values.empty()) return;
  T& changed = values[(*random)() % values.size()];
  if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    const T odd[] = {
        -1, T(0.5), T(1e-30), T(1e30), Limits::max(), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()};
    changed = odd[(*random)() % std::size(odd)];
  } else {
    changed = static_cast<T>(odd_numbers[(*random)() % std::size(odd_numbers)]);
  }
}

/// A tensor as described; none if it would be large.
std::optional<lod::AnyLoDTensor> tensor_of(const lod::LoDTensorDesc& desc, std::pmr::memory_resource& memory,
                                           std::minstd_rand* random) {
  std::vector<std::int64_t> dims = desc.tensor.dims;
  if (dims.empty() || dims.size() > lod::Shape::max_rank) return std::nullopt;
  std::int64_t count = 1;
  for (std::int64_t& dim : dims) {
    if (dim < 0) dim = 5;
    if (dim > 64) return std::nullopt;
    count *= std::max<std::int64_t>(dim, 1);
    if (count > 1024) return std::nullopt;
  }
  const std::int64_t rows = dims[0];
  lod::LoD lod;
  if (desc.lod_level > 0) {
    std::vector<std::vector<std::int64_t>> lengths(static_cast<std::size_t>(std::min<std::int32_t>(desc.lod_level, 3)));
    lengths.back() = {std::min<std::int64_t>(rows, 2), 0, rows - std::min<std::int64_t>(rows, 2)};
    for (std::size_t level = 0; level + 1 < lengths.size(); ++level) lengths[level] = {1, 2};
    if (lengths.size() == 3) lengths[0] = {2};
    lod = lod::LoD::from_lengths(lengths);
  }
  const lod::Shape shape(dims), row_shape = shape.without_first();
  const auto filled = [&]<class T>(T) {
    lod::LoDTensor<T> made =
        lod.levels() > 0 ? lod::LoDTensor<T>(lod, row_shape, &memory) : lod::LoDTensor<T>(shape, &memory);
    fill(made.values(), random);
    return lod::AnyLoDTensor(std::move(made));
  };
  switch (desc.tensor.data_type) {
    case lod::DataType::FP32:
      return filled(float{});
    case lod::DataType::FP64:
      return filled(double{});
    case lod::DataType::INT32:
      return filled(std::int32_t{});
    case lod::DataType::INT64:
      return filled(std::int64_t{});
    case lod::DataType::BOOL:
      return filled(bool{});
    default:
      return std::nullopt;
  }
}

/// Calls f(), which may throw what the library documents of programs.
template <class F>
void survive(const F& f) {
  try {
    f();
  } catch (const std::invalid_argument&) {
  } catch (const std::out_of_range&) {
  } catch (const lod::LimitExceeded&) {
  } catch (const lod::EndOfData&) {
  } catch (const std::bad_alloc&) {
  }
}

/// The tensors of block 0 that are persistable, or those that are not.
std::map<std::string, lod::AnyLoDTensor> tensors_of(const lod::ProgramDesc& program, bool persistable,
                                                    std::pmr::memory_resource& memory,
                                                    std::minstd_rand* random = nullptr) {
  std::map<std::string, lod::AnyLoDTensor> tensors;
  for (const lod::VarDesc& var : program.blocks[0].vars) {
    if (var.type.type != lod::VarType::LOD_TENSOR || !var.type.lod_tensor || var.persistable != persistable) continue;
    auto value = tensor_of(*var.type.lod_tensor, memory, random);
    if (value) tensors.emplace(var.name, std::move(*value));
  }
  return tensors;
}

/// The parameters may be others than the program describes; what is fed follows from the seed.
void run(const lod::ProgramDesc& program, const lod::paddle::Parameters& parameters, std::size_t seed) {
  LittleMemory memory;
  lod::Scope scope;
  for (const auto& [name, value] : parameters) scope.var(name) = value;
  lod::Feed feed;
  std::minstd_rand random(static_cast<unsigned>(seed));
  for (auto& [name, value] : tensors_of(program, false, memory, &random)) feed.emplace(name, value);
  lod::PreparedProgram prepared(lod::CpuExecutor(1, &memory), program, scope, {},
                                {.steps = 10, .wait = std::chrono::microseconds(100)});
  prepared.run(feed);
  prepared.run(feed);
}

const std::vector<lod::OpDesc>& known_operators() {
  static const auto* const all = new std::vector<lod::OpDesc>(lod_test::sample_operators());
  return *all;
}

/// Breaks a program somewhere.
class Mutation {
 public:
  Mutation(lod::ProgramDesc& program, unsigned seed) : program_(program), random_(seed) {
    lod::BlockDesc& block = program.blocks[below(program.blocks.size())];
    switch (below(8)) {
      case 0:
        if (block.ops.size() < 8) {
          block.ops.insert(block.ops.begin() + static_cast<std::ptrdiff_t>(below(block.ops.size() + 1)),
                           known_operators()[below(known_operators().size())]);
        }
        break;
      case 1:
        if (!block.vars.empty()) change(block.vars[below(block.vars.size())]);
        break;
      case 2:
        if (!block.ops.empty())
          block.ops.erase(block.ops.begin() + static_cast<std::ptrdiff_t>(below(block.ops.size())));
        break;
      default:
        if (!block.ops.empty()) change(block.ops[below(block.ops.size())]);
    }
  }

 private:
  std::size_t below(std::size_t count) { return random_() % count; }
  std::int64_t number() { return odd_numbers[below(std::size(odd_numbers))]; }
  void change(lod::VarDesc& var) {
    if (!var.type.lod_tensor) return;
    lod::TensorDesc& tensor = var.type.lod_tensor->tensor;
    switch (below(4)) {
      case 0:
        var.type.lod_tensor->lod_level = static_cast<std::int32_t>(below(4));
        break;
      case 1: {
        constexpr lod::DataType types[] = {lod::DataType::BOOL, lod::DataType::INT32, lod::DataType::INT64,
                                           lod::DataType::FP32, lod::DataType::FP64};
        tensor.data_type = types[below(std::size(types))];
        break;
      }
      case 2:
        if (below(2) == 0) {
          tensor.dims.push_back(number());
        } else if (!tensor.dims.empty()) {
          tensor.dims.pop_back();
        }
        break;
      default:
        if (!tensor.dims.empty()) tensor.dims[below(tensor.dims.size())] = static_cast<std::int64_t>(below(7)) - 1;
    }
  }
  void change(lod::OpDesc& op) {
    if (below(2) == 0 && !op.attrs.empty()) return change(op.attrs[below(op.attrs.size())]);
    auto& vars = below(3) > 0 ? op.inputs : op.outputs;
    if (vars.empty()) return;
    auto& arguments = vars[below(vars.size())].arguments;
    const auto& known = program_.blocks[0].vars;
    if (known.empty()) return;
    const std::string& name = known[below(known.size())].name;
    if (arguments.empty() || below(8) == 0) {
      arguments.push_back(name);
    } else if (below(12) == 0) {
      arguments.pop_back();
    } else {
      arguments[below(arguments.size())] = name;
    }
  }
  void change(lod::OpDesc::Attr& attr) {
    if (attr.i) attr.i = static_cast<std::int32_t>(number());
    if (attr.l) attr.l = number();
    if (attr.f) attr.f = static_cast<float>(number());
    if (attr.b) attr.b = !*attr.b;
    if (attr.block_idx) attr.block_idx = static_cast<std::int32_t>(below(3));
    if (attr.s) attr.s = std::to_string(number());
    if (attr.type != lod::AttrType::INTS) return;
    if (below(4) == 0 || attr.ints.empty()) {
      attr.ints.push_back(static_cast<std::int32_t>(number()));
    } else if (below(4) == 0) {
      attr.ints.pop_back();
    } else if (below(4) == 0) {
      attr.type = lod::AttrType::LONGS;
      attr.longs.assign(attr.ints.begin(), attr.ints.end());
      attr.longs[below(attr.longs.size())] = number();
    } else {
      attr.ints[below(attr.ints.size())] = static_cast<std::int32_t>(number());
    }
  }

  lod::ProgramDesc& program_;
  std::minstd_rand random_;
};

/// What makes variables that cannot be fed.
constexpr std::pair<const char*, const char*> makers[] = {
    {"table", "lod_rank_table X=x -> Out=table level:i=0"},
    {"array", "write_to_array X=x I=i -> Out=array"},
    {"ids_array", "write_to_array X=bids I=i -> Out=ids_array"},
    {"scores_array", "write_to_array X=bscores I=i -> Out=scores_array"},
    {"channel", "channel_create -> Out=channel capacity:i=2"},
    {"reader", "channel_create -> Out=channel capacity:i=2"},
    {"reader",
     "create_py_reader blocking_queue=channel -> Out=reader shape_concat:I=-1,4 ranks:I=2 lod_levels:I=0 dtypes:I=5"},
    {"sparse", "lookup_table_grad W=w Ids=ids Out@GRAD=x -> W@GRAD=sparse is_sparse:b=1"}};

/// A program of each operator, and one of each with its gradient.
std::vector<lod::ProgramDesc> programs() {
  std::vector<lod::ProgramDesc> all;
  for (const lod::OpDesc& op : known_operators()) {
    std::vector<lod::OpDesc> ops;
    for (const auto& [name, line] : makers) {
      const auto reads = [&, what = name](const auto& var) { return var.arguments[0] == what; };
      if (std::any_of(op.inputs.begin(), op.inputs.end(), reads)) ops.push_back(lod_test::operator_of(line));
    }
    ops.push_back(op);
    all.push_back(lod_test::sample_program(ops));
    if (op.outputs.empty()) continue;
    ops.push_back(lod_test::operator_of("mean X=" + op.outputs[0].arguments[0] + " -> Out=loss"));
    lod::ProgramDesc trained = lod_test::sample_program(std::move(ops));
    trained.blocks[0].vars.push_back(lod::VarDesc::lod_tensor("loss", {lod::DataType::FP32, {1}}));
    lod::BackwardOptions options;
    for (const auto& var : op.inputs) {
      options.parameters.insert(options.parameters.end(), var.arguments.begin(), var.arguments.end());
    }
    try {
      lod::append_backward(trained, "loss", options);
      all.push_back(std::move(trained));
    } catch (const lod::InvalidProgram&) {  // it has none
    }
  }
  return all;
}

/// Two parameters change places in their file, so that each has the other's name.
void exchange(std::string& bytes, std::vector<std::string> names, unsigned seed) {
  if (names.empty()) return;
  auto values = lod::paddle::decode_parameters(bytes, names);
  std::swap(values.at(names[seed % names.size()]), values.at(names[seed / 16 % names.size()]));
  bytes = lod::paddle::encode_parameters(values, names);
}

}  // namespace

std::vector<std::string> lod_fuzz::seeds() {
  std::vector<std::string> all;
  for (const lod::ProgramDesc& program : programs()) {
    const lod::paddle::Parameters parameters = tensors_of(program, true, *std::pmr::new_delete_resource());
    all.push_back(joined(lod::encode(program), lod::paddle::encode_parameters(parameters, program)));
  }
  return all;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % 8 == 0) return LLVMFuzzerMutate(data, size, most);
  const auto [program_bytes, parameters] = lod_fuzz::parted(lod_fuzz::input(data, size));
  try {
    auto program = lod::decode<lod::ProgramDesc>(program_bytes);
    if (!program.blocks.empty()) {
      std::string changed(parameters);
      if (seed % 8 == 1) {
        exchange(changed, lod::paddle::parameter_names(program), seed / 8);
      } else {
        for (unsigned i = 0; i <= seed / 8 % 3; ++i) Mutation(program, seed + i);
      }
      const std::string bytes = lod_fuzz::joined(lod::encode(program), changed);
      if (bytes.size() <= most) {
        std::copy(bytes.begin(), bytes.end(), data);
        return bytes.size();
      }
    }
  } catch (const lod::ParseError&) {
  }
  return LLVMFuzzerMutate(data, size, most);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const lod_fuzz::EncodedModel model = lod_fuzz::parted(lod_fuzz::input(data, size));
  lod::ProgramDesc program;
  lod::paddle::Parameters parameters;
  try {
    program = lod::decode<lod::ProgramDesc>(model.program);
    parameters = lod::paddle::decode_parameters(model.parameters, lod::paddle::parameter_names(program));
  } catch (const lod::ParseError&) {
    return 0;
  }
  std::size_t count = 0;
  for (const lod::BlockDesc& block : program.blocks) count += block.ops.size();
  if (count > 32) return 0;
  survive([&] {
    lod::ProgramDesc described = program;
    lod::infer_shapes(described);
  });
  survive([&] {
    lod::validate(program);
    if (!program.blocks[0].vars.empty()) static_cast<void>(lod::prune(program, {program.blocks[0].vars[0].name}));
    run(program, parameters, std::hash<std::string_view>()(model.program));
  });
  return 0;
}
