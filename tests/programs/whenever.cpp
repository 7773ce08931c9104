// SPDX-License-Identifier: Apache-2.0
// What holds for all operators, whenever they run: whatever the control word of the calling thread is, when memory runs
// out, and however many rows without elements, or operators, there are. A sample of each operator runs.
#include "programs/one_operator.hpp"
#include "support/callers_control.hpp"
#include "support/count_allocations.hpp"
#include "support/grain.hpp"
#include "support/operator_programs.hpp"
#include "support/operator_samples.hpp"
#include "support/random_lod.hpp"
#include "support/time_limit.hpp"
#include <lod/run.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using namespace lod_test;

namespace {

using Values = std::map<std::string, AnyLoDTensor>;

/// Numbers whose sums are rounded, small ids.
AnyLoDTensor sample_tensor(Engine& engine, const lod::LoDTensorDesc& desc) {
  std::vector<std::int64_t> dims = desc.tensor.dims;
  for (std::int64_t& dim : dims) dim = dim < 0 ? 5 : dim;
  lod::LoD lod;
  if (desc.lod_level == 1) lod = lod::LoD::from_lengths({{2, 0, 3}});
  if (desc.lod_level == 2) lod = lod::LoD::from_lengths({{1, 2}, {2, 0, 3}});
  return lod::detail::with_element_type(desc.tensor.data_type, [&](auto element) {
    using T = typename decltype(element)::type;
    lod::LoDTensor<T> x = lod.levels() > 0 ? lod::LoDTensor<T>(lod, lod::Shape(dims).without_first())
                                           : lod::LoDTensor<T>(lod::Shape(dims));
    std::int64_t number = 0;
    for (T& value : x.values()) {
      if constexpr (std::floating_point<T>) {
        value = static_cast<T>(static_cast<double>(random_number(engine, 100, 900)) / 1001);
      } else if constexpr (std::integral<T>) {
        value = static_cast<T>(number++ % 3);
      }
    }
    return AnyLoDTensor(std::move(x));
  });
}

/// A program of one operator, and the values of its variables.
struct Sample {
  explicit Sample(lod::OpDesc op, lod::DataType floating = lod::DataType::FP32)
      : type(op.type), program(sample_program({op})) {
    Engine engine(first_seed());
    for (lod::VarDesc& var : program.blocks[0].vars) {
      if (var.type.type != lod::VarType::LOD_TENSOR) continue;
      if (var.type.lod_tensor && var.type.lod_tensor->tensor.data_type == lod::DataType::FP32) {
        var.type.lod_tensor->tensor.data_type = floating;
      }
      if (var.type.lod_tensor) values.emplace(var.name, sample_tensor(engine, *var.type.lod_tensor));
      for (const auto& output : op.outputs) {
        for (const std::string& name : output.arguments) {
          if (name == var.name) outputs.insert(name);
        }
      }
    }
    for (const auto& input : op.inputs) {
      for (const std::string& name : input.arguments) inputs.insert(name);
    }
  }

  /// The values of the variables that are not persistable.
  Values fed() const {
    Values some;
    for (const lod::VarDesc& var : program.blocks[0].vars) {
      if (!var.persistable && values.contains(var.name)) some.emplace(var.name, values.at(var.name));
    }
    return some;
  }
  std::vector<std::string> fetched() const { return {outputs.begin(), outputs.end()}; }

  std::string type;
  lod::ProgramDesc program;
  Values values;
  std::set<std::string> inputs, outputs;
};

/// The bits of a tensor, with its shape and levels.
std::string bits_of(const AnyLoDTensor& x) {
  std::string bits = to_string(x.data_type()) + to_string(x.shape());
  for (int level = 0; level < x.levels(); ++level) {
    for (const std::int64_t offset : x.lod().offsets(level)) bits += " " + std::to_string(offset);
  }
  return bits.append(reinterpret_cast<const char*>(x.bytes().data()), x.bytes().size());
}
std::vector<std::string> bits_of(const std::vector<AnyLoDTensor>& tensors) {
  std::vector<std::string> all;
  for (const AnyLoDTensor& x : tensors) all.push_back(bits_of(x));
  return all;
}
/// The same of the variables with these names, those that are there.
std::vector<std::string> bits_of(const lod::Scope& scope, const std::set<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    const lod::Variable* const variable = scope.find(name);
    if (variable && variable->holds<AnyLoDTensor>()) all.push_back(bits_of(variable->get<AnyLoDTensor>()));
  }
  return all;
}

/// Calls run(sample) for each operator that takes its sample; all others must be refused in words.
void for_each_sample(const std::function<void(Sample&)>& run, lod::DataType floating = lod::DataType::FP32) {
  int ran = 0;
  for (const lod::OpDesc& op : sample_operators()) {
    CAPTURE(op.type);
    Sample sample(op, floating);
    try {
      run(sample);
      ++ran;
    } catch (const std::logic_error&) {  // samples of operators that need what others have made
    }
  }
  CHECK(ran > 200);
}

}  // namespace

TEST_CASE("operators: results have the same bits for any control word of the caller, and any threads") {
  const auto check = [](Sample& sample) {
    std::vector<std::string> expected;
    for_each_control([&](int rounding, bool flushes) {
      for (const int threads : {1, 2}) {
        if (lod_test::slow && threads == 1 && !expected.empty()) continue;
        CAPTURE(threads);
        lod::Scope scope;
        for (const lod::VarDesc& var : sample.program.blocks[0].vars) {
          if (var.persistable && sample.values.contains(var.name)) scope.var(var.name) = sample.values.at(var.name);
        }
        std::vector<AnyLoDTensor> out;
        {
          const CallersControl control(rounding, flushes);
          const unsigned before = control_word();
          out = lod::run(lod::CpuExecutor(threads), sample.program, scope,
                         {.feed = sample.fed(),
                          .fetch = sample.fetched(),
                          .limits = {.steps = 10, .wait = std::chrono::microseconds(100)}});
          CHECK(control_word() == before);
        }
        const std::vector<std::string> results = bits_of(out);
        if (expected.empty()) expected = results;
        CHECK(results == expected);
      }
    });
  };
  // Some optimizers compute with long double where numbers are of double.
  for (const lod::DataType floating : {lod::DataType::FP32, lod::DataType::FP64}) for_each_sample(check, floating);
}

TEST_CASE("operators: those that users add see the caller's control word, in blocks and on all threads too") {
  static std::atomic<unsigned> seen = 0;
  lod::operators().add("test_control_word", {.prepare = [](const lod::OperatorArguments&) {
                         return [](lod::OperatorCall<>&) { seen = control_word(); };
                       }});
  const lod::ProgramDesc program = program_of({op("test_control_word", {}, {})});
  for_each_control([&](int rounding, bool flushes) {
    const CallersControl control(rounding, flushes);
    lod::Scope scope;
    seen = 0;
    lod::run(program, scope);
    CHECK(seen == control_word());
  });
  // In the block of a loop, which the library's own operator runs.
  lod::ProgramDesc loop =
      sample_program({operator_of("while X=i Condition=going -> Out=i StepScopes=scopes sub_block:B=1")});
  loop.blocks[1].ops.push_back(op("test_control_word", {}, {}));
  lod::LoDTensor<bool> going({1});
  going.fill(true);
  for_each_control([&](int rounding, bool flushes) {
    const CallersControl control(rounding, flushes);
    lod::Scope scope;
    seen = 0;
    lod::run(loop, scope, {.feed = {{"i", lod::LoDTensor<std::int64_t>({1})}, {"going", going}}, .fetch = {"i"}});
    CHECK(seen == control_word());
  });
}

TEST_CASE(
    "operators: where memory runs out, at any point, what they update is as it was, and a further run is the first") {
  if (!counts_allocations) return;
  for_each_sample([](Sample& sample) {
    for (lod::VarDesc& var : sample.program.blocks[0].vars) {
      if (sample.values.contains(var.name)) var.persistable = true;
    }
    const auto prepare = [&](lod::Scope& scope, bool is_shared) {
      for (const auto& [name, value] : sample.values) {
        auto& x = scope.var(name).get<AnyLoDTensor>();
        x = value;
        if (!is_shared) static_cast<void>(x.mutable_bytes());
      }
      return std::make_unique<lod::PreparedProgram<>>(
          lod::CpuExecutor(2), sample.program, scope, sample.fetched(),
          lod::RunLimits{.steps = 10, .wait = std::chrono::microseconds(100)}, true);
    };
    std::set<std::string> all = sample.inputs;
    all.insert(sample.outputs.begin(), sample.outputs.end());
    lod::Scope scope_of_expected;
    const std::vector<std::string> expected = bits_of(prepare(scope_of_expected, false)->run());
    for (const bool is_shared : {false, true}) {
      for (std::int64_t after = 0;; ++after) {
        CAPTURE(is_shared);
        CAPTURE(after);
        REQUIRE(after < 1000);
        lod::Scope scope;
        const auto program = prepare(scope, is_shared);
        const auto before = bits_of(scope, sample.inputs);
        bool failed = false;
        {
          const FailingAllocations failing(after);
          try {
            program->run();
          } catch (const std::bad_alloc&) {
            failed = true;
          }
        }
        if (!failed) break;
        CHECK(bits_of(scope, sample.inputs) == before);
        CHECK(bits_of(program->run()) == expected);
        CHECK(bits_of(scope, all) == bits_of(scope_of_expected, all));
      }
    }
  });
}

TEST_CASE("operators, gradients: of huge numbers of rows, lines or matrices without elements return at once") {
  const TimeLimit limit;
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  // Where in a shape there is nothing; the first dimension is huge, and one more may be large.
  for (const std::size_t empty : {0U, 1U, 2U, 3U}) {
    CAPTURE(empty);
    for (lod::OpDesc op : sample_operators()) {
      CAPTURE(op.type);
      const auto axis = std::ranges::find_if(
          op.attrs, [](const lod::OpDesc::Attr& attr) { return attr.name == "axis" || attr.name == "dim"; });
      for (int along = -1; along < (axis == op.attrs.end() ? 0 : 3); ++along) {
        CAPTURE(along);
        if (axis != op.attrs.end() && axis->i) axis->i = along;
        if (axis != op.attrs.end() && axis->l) axis->l = along;
        Sample sample(op);
        lod::Scope scope;
        lod::Feed feed;
        for (lod::VarDesc& var : sample.program.blocks[0].vars) {
          const auto described = std::exchange(var.type.lod_tensor, std::nullopt);
          if (!described) continue;
          std::vector<std::int64_t> dims = described->tensor.dims;
          for (std::int64_t& dim : dims) dim = dim < 0 ? huge : dim;
          if (dims.size() > 1) {
            if (!var.persistable) dims[0] = huge;
            if (dims.size() > 2 && empty == 3) dims[2] = 1 << 20;
            dims[std::min(empty < 3 ? empty : 1U, dims.size() - 1)] = 0;
          }
          lod::LoD lod;
          const std::int64_t rows = dims[0];
          if (described->lod_level == 1) lod = lod::LoD::from_lengths({{rows / 2, 0, rows - rows / 2}});
          if (described->lod_level == 2) lod = lod::LoD::from_lengths({{1, 2}, {rows / 2, 0, rows - rows / 2}});
          if (dims.size() == 1 && rows > 100) continue;
          AnyLoDTensor x(described->tensor.data_type, lod, lod::Shape(dims).without_first(), lod::uninitialized, rows);
          std::ranges::fill(x.mutable_bytes(), std::byte{0});
          var.persistable ? static_cast<void>(scope.var(var.name) = x) : static_cast<void>(feed.emplace(var.name, x));
        }
        // Larger results end in an error.
        const auto run = [&](const std::vector<std::string>& fetch) {
          return lod::run(lod::CpuExecutor(2), sample.program, scope,
                          {.feed = feed,
                           .fetch = fetch,
                           .limits = {.steps = 10, .bytes = 1 << 22, .wait = std::chrono::microseconds(100)},
                           .keep_values = true});
        };
        try {
          const std::vector<AnyLoDTensor> results = run(sample.fetched());
          const auto known = lod::operators().find(op.type);
          if (!known->gradient) continue;
          auto& block = sample.program.blocks[0];
          std::size_t i = 0;
          for (const std::string& name : sample.fetched()) feed.insert_or_assign(name + "@GRAD", results[i++]);
          std::set<std::string> wanted;
          const lod::GradientArguments::Names constants;
          for (const lod::OpDesc& gradient : known->gradient(lod::GradientArguments(op, constants))) {
            for (const auto& output : gradient.outputs) wanted.insert(output.arguments.begin(), output.arguments.end());
            block.ops.push_back(gradient);
          }
          wanted.erase(std::string(lod::empty_variable_name));
          std::set<std::string> others = wanted;
          for (const auto& one : feed) others.insert(one.first);
          for (const std::string& name : others) {
            if (!block.find_var(name)) block.vars.push_back(tensor_var(name));
          }
          run({wanted.begin(), wanted.end()});
        } catch (const std::logic_error&) {
        } catch (const std::bad_alloc&) {
        } catch (const lod::LimitExceeded&) {
        }
      }
    }
  }
}

TEST_CASE("programs: to prepare them, and to append gradients, takes time by the number of their operators") {
  const auto chain = [](int count) {
    std::vector<lod::OpDesc> ops;
    for (int i = 0; i < count; ++i) {
      ops.push_back(op("elementwise_add", {{"X", {i == 0 ? "x" : "v" + std::to_string(i - 1)}}, {"Y", {"w"}}},
                       {{"Out", {"v" + std::to_string(i)}}}));
    }
    ops.push_back(op("mean", {{"X", {ops.back().outputs[0].arguments[0]}}}, {{"Out", {"loss"}}}));
    lod::ProgramDesc program;
    lod::BlockDesc& block = program.blocks.emplace_back();
    block.vars = {tensor_var("w", true), tensor_var("x"), tensor_var("loss")};
    for (int i = 0; i < count; ++i) block.vars.push_back(tensor_var("v" + std::to_string(i)));
    block.ops = std::move(ops);
    return program;
  };
  const auto time_of = [&](int count) {
    lod::Scope scope;
    scope.var("w") = plain<float>({1}, {1});
    lod::ProgramDesc program = chain(count);
    const std::clock_t begin = std::clock();
    const lod::PreparedProgram<> prepared(lod::CpuExecutor(1), program, scope);
    lod::append_backward(program, "loss", {.parameters = {"w"}});
    return static_cast<double>(std::clock() - begin);
  };
  // Four times as many, of which each pair would be 16 times as many.
  double least = 1000;
  for (int attempt = 0; attempt < 5 && least > 8; ++attempt) least = std::min(least, time_of(8000) / time_of(2000));
  CHECK(least < 10);
}

TEST_CASE("programs: errors have texts of little more than 2000 bytes, however long names are") {
  static const std::string name = "begin" + std::string(1000000, 'x') + "end";
  lod::operators().add("test_invalid_argument", {.prepare = [](const lod::OperatorArguments&) {
                         return [](lod::OperatorCall<>&) { throw std::invalid_argument("not so"); };
                       }});
  lod::operators().add("test_attribute", {.prepare = [](const lod::OperatorArguments& given) -> lod::RunOperator<> {
                         static_cast<void>(given.desc().attr<float>(name));
                         return {};
                       }});
  lod::ProgramDesc twice = program_of({op("scale", {{"X", {name}}}, {{"Out", {"y"}}})});
  twice.blocks[0].vars.push_back(twice.blocks[0].vars[0]);
  const auto runs = [](const lod::ProgramDesc& program) {
    return [program] {
      lod::Scope scope;
      lod::run(program, scope);
    };
  };
  const std::function<void()> calls[] = {runs(program_of({op(name, {}, {})})),
                                         runs(program_of({op("scale", {{"X", {name}}}, {{"Out", {"y"}}})})),
                                         runs(program_of({op("scale", {{"X", {name}}}, {{"Out", {"y"}}})}, {name})),
                                         runs(program_of({op("mul", {{name, {"x"}}}, {{"Out", {name}}})})),
                                         runs(program_of({op("test_invalid_argument", {}, {{"Out", {name}}})})),
                                         runs(program_of({op("test_attribute", {}, {})})),
                                         runs(twice),
                                         [] {
                                           lod::Scope scope;
                                           lod::run(program_of({}), scope, {.feed = {{name, plain<float>({1}, {1})}}});
                                         },
                                         [] {
                                           lod::Scope scope;
                                           lod::run(program_of({}), scope, {.fetch = {name}});
                                         },
                                         [] { lod::operators().add(name, {}); },
                                         [] { throw lod::LimitExceeded(name); },
                                         [] { throw lod::EndOfData(name); },
                                         [] { throw lod::InvalidProgram(name); }};
  std::size_t number = 0;
  for (const auto& call : calls) {
    CAPTURE(number);
    ++number;
    std::string text;
    try {
      call();
    } catch (const std::exception& error) {
      text = error.what();
    }
    CHECK(!text.empty());
    CHECK(text.size() < 2100);
  }
}
