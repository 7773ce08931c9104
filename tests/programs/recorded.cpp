// SPDX-License-Identifier: Apache-2.0
// Programs whose results PaddlePaddle has recorded: operators on sequences and their gradients, loops and branches, and
// models in ten steps of training, by version 2.6.2; models that the layers of version 1.8.5 made. paddle_record.py
// says how the files are written.
#include "one_operator.hpp"
#include "support/operator_text.hpp"
#include <lod/any_tensor.hpp>
#include <lod/data_type.hpp>
#include <lod/desc.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/program.hpp>
#include <lod/proto/program.hpp>
#include <lod/run.hpp>
#include <lod/scope.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using lod::AnyLoDTensor;

struct Tensor {
  std::string name, type;
  AnyLoDTensor value;
  bool has_levels = true;  ///< whether its levels are to be compared
};
struct Case {
  std::string name = {};
  lod::ProgramDesc program = {};
  std::vector<Tensor> fed = {}, parameters = {}, fetched = {};
  std::string loss = {}, optimizer = {};
  float rate = 0;
  std::vector<double> losses = {};
};

/// Whether a program updates its parameters: it then was recorded as a whole.
bool trains_itself(const Case& one) { return one.optimizer == "itself"; }

/// Calls f(T()) for the type of that name.
template <class F>
auto with_type(const std::string& name, const F& f) {
  if (name == "float32") return f(float{});
  if (name == "float64") return f(double{});
  if (name == "int32") return f(std::int32_t{});
  if (name == "int64") return f(std::int64_t{});
  if (name == "bool") return f(bool{});
  throw std::invalid_argument("no type: " + name);
}

Tensor tensor_of(std::istringstream& words) {
  std::string name, type, dims, levels;
  words >> name >> type >> dims >> levels;
  const auto integer = [](const std::string& digits) -> std::int64_t { return std::stoll(digits); };
  const lod::Shape shape(lod_test::list_of(dims, integer));
  std::vector<std::vector<std::int64_t>> lengths;
  std::istringstream each_level(levels == "-" || levels == "?" ? "" : levels);
  for (std::string level; std::getline(each_level, level, '/');) lengths.push_back(lod_test::list_of(level, integer));
  return {name, type,
          with_type(type,
                    [&]<class T>(T) {
                      const auto lod = lengths.empty() ? lod::LoD() : lod::LoD::from_lengths(lengths);
                      auto made =
                          lengths.empty() ? lod::LoDTensor<T>(shape) : lod::LoDTensor<T>(lod, shape.without_first());
                      for (T& value : made.values()) {
                        std::string number;
                        REQUIRE(static_cast<bool>(words >> number));
                        value = static_cast<T>(std::stod(number));
                      }
                      return AnyLoDTensor(std::move(made));
                    }),
          levels != "?"};
}

/// Declares what the operators name and no block has: tensors of the outermost one.
void declare(lod::ProgramDesc& program) {
  for (std::size_t number = 0; number < program.blocks.size(); ++number) {
    for (const lod::OpDesc& op : program.blocks[number].ops) {
      for (const auto* vars : {&op.inputs, &op.outputs}) {
        for (const auto& var : *vars) {
          for (const std::string& name : var.arguments) {
            if (program.find_var(name, static_cast<std::int32_t>(number))) continue;
            program.blocks[0].vars.push_back(lod_test::tensor_var(name));
          }
        }
      }
    }
  }
}
void describe(lod::ProgramDesc& program, const std::vector<Tensor>& tensors, bool are_parameters) {
  for (lod::VarDesc& var : program.blocks[0].vars) {
    for (const Tensor& one : tensors) {
      if (one.name != var.name) continue;
      var.type.lod_tensor = lod_test::described(one.value, true);
      if (are_parameters) var.persistable = var.is_parameter = true;
    }
  }
}

std::vector<Case> cases_of(const std::string& file) {
  std::ifstream lines(LOD_TEST_RECORDED "/" + file);
  REQUIRE(lines.is_open());
  std::vector<Case> cases;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "case") {
      cases.emplace_back().name = line.substr(kind.size() + 1);
      cases.back().program.blocks.resize(1);
      continue;
    }
    if (cases.empty()) continue;  // what the file begins with
    Case& last = cases.back();
    lod::BlockDesc& block = last.program.blocks.back();
    if (kind == "block") {
      const auto idx = static_cast<std::int32_t>(last.program.blocks.size());
      lod::BlockDesc& inner = last.program.blocks.emplace_back();
      inner.idx = idx;
      std::int32_t parent = 0, forward = 0;
      words >> parent >> forward;
      inner.parent_idx = parent;
      inner.forward_block_idx = forward;
    } else if (kind == "var") {
      std::string type;
      words >> type;
      for (std::string name; words >> name;) {
        for (std::int32_t number = 0; number <= lod::VarType::SPARSE_CSR; ++number) {
          if (to_string(static_cast<lod::VarType::Type>(number)) != type) continue;
          block.vars.push_back(lod::VarDesc::of_type(name, static_cast<lod::VarType::Type>(number)));
        }
      }
    } else if (kind == "op") {
      block.ops.push_back(lod_test::operator_of(line.substr(kind.size() + 1)));
    } else if (kind == "train") {
      words >> last.loss >> last.optimizer >> last.rate;
      for (double loss = 0; words >> loss;) last.losses.push_back(loss);
    } else {
      (kind == "feed" ? last.fed : kind == "fetch" ? last.fetched : last.parameters).push_back(tensor_of(words));
    }
  }
  for (Case& each : cases) {
    declare(each.program);
    describe(each.program, each.fed, false);
    describe(each.program, each.parameters, true);
  }
  return cases;
}

void check_same(const AnyLoDTensor& found, const Tensor& expected) {
  INFO(expected.name);
  REQUIRE(found.data_type() == expected.value.data_type());
  REQUIRE(found.shape() == expected.value.shape());
  if (expected.has_levels) CHECK(found.lod() == expected.value.lod());
  with_type(expected.type, [&]<class T>(T) {
    const auto view = found.view<T>(), other = expected.value.view<T>();
    double worst = 0;
    for (std::size_t i = 0; i < view.values().size(); ++i) {
      const auto a = static_cast<double>(view.values()[i]), b = static_cast<double>(other.values()[i]);
      worst = std::max(worst, std::abs(a - b) / (1 + std::abs(b)));
    }
    CHECK(worst < 1e-4);
  });
}

lod::Feed fed(const Case& one) {
  lod::Feed feed;
  for (const Tensor& tensor : one.fed) feed.emplace(tensor.name, tensor.value);
  return feed;
}

void check_results(const std::string& file) {
  for (const Case& one : cases_of(file)) {
    INFO(one.name);
    lod::Scope scope;
    lod::RunOptions options{.feed = fed(one)};
    for (const Tensor& tensor : one.fetched) options.fetch.push_back(tensor.name);
    const std::vector<AnyLoDTensor> results = lod::run(one.program, scope, options);
    for (std::size_t i = 0; i < results.size(); ++i) check_same(results[i], one.fetched[i]);
  }
}

}  // namespace

TEST_CASE("recorded: operators on sequences and their gradients give what they give in PaddlePaddle") {
  check_results("operators.txt");
}

TEST_CASE("recorded: loops, branches, arrays and a beam search give what they give in PaddlePaddle") {
  check_results("control.txt");
}

namespace {

using Results = std::vector<AnyLoDTensor>;

/// Whether two runs have the same results, to the last bit.
void check_identical(const Results& found, const Results& expected, const char* how) {
  INFO(how);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].shape() == expected[i].shape());
    CHECK(found[i].lod() == expected[i].lod());
    CHECK(std::ranges::equal(found[i].bytes(), expected[i].bytes()));
  }
}
/// The first sequence, or row, of a tensor alone.
AnyLoDTensor first_of(const AnyLoDTensor& x) {
  return x.visit([](const auto& view) {
    using T = typename std::remove_cvref_t<decltype(view)>::value_type;
    return AnyLoDTensor(
        lod::LoDTensor<std::remove_const_t<T>>(view.between(0, std::min<std::int64_t>(view.size(), 1))));
  });
}

/// Runs a program in each way that must not change its results.
void check_ways(const lod::ProgramDesc& program, const lod::Feed& feed, const std::vector<std::string>& fetch,
                const std::vector<Tensor>& parameters, const lod::ProgramDesc& startup) {
  const auto begin = [&](lod::Scope& scope) {
    lod::run(startup, scope);
    for (const Tensor& tensor : parameters) scope.var(tensor.name) = tensor.value;
  };
  const auto results_of = [&](const lod::ProgramDesc& one, const lod::RunLimits& limits, bool keep_values, int threads,
                              lod::Trace* trace) {
    lod::Scope scope;
    begin(scope);
    lod::Feed needed = feed;  // a part of a program may not have all that is fed
    std::erase_if(needed, [&](const auto& fed) { return !one.find_var(fed.first); });
    return Results(
        lod::PreparedProgram(lod::CpuExecutor(threads), one, scope, fetch, limits, keep_values).run(needed, trace));
  };
  const Results expected = results_of(program, {}, false, 1, nullptr);
  lod::Trace trace;
  check_identical(results_of(program, {.steps = 1000, .bytes = 1 << 24}, true, 2, &trace), expected, "kept and traced");
  check_identical(results_of(program, {.bytes = 1 << 24}, false, 2, nullptr), expected, "limited");

  auto other = lod::decode<lod::ProgramDesc>(lod::encode(program));
  check_identical(results_of(other, {}, true, 1, nullptr), expected, "saved and loaded");
  lod::infer_shapes(other);
  check_identical(results_of(lod::prune(other, fetch), {}, false, 2, nullptr), expected, "described and pruned");

  // Two programs at the same time, each fed other sequences in between, which it may refuse, and run twice.
  Results twice[2];
  std::vector<std::thread> threads;
  for (Results& results : twice) {
    threads.emplace_back([&] {
      lod::Scope scope;
      begin(scope);
      lod::PreparedProgram prepared(lod::CpuExecutor(2), program, scope, fetch);
      lod::Feed less;
      for (const auto& [name, value] : feed) less.emplace(name, first_of(value));
      try {
        prepared.run(less);
      } catch (const std::exception&) {
      }
      begin(scope);
      results = prepared.run(feed);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Results& results : twice) check_identical(results, expected, "after others, in threads");
}

}  // namespace

TEST_CASE("recorded: results do not depend on how a program is run") {
  for (const char* const file : {"operators.txt", "control.txt", "training.txt", "layers.txt"}) {
    for (Case& one : cases_of(file)) {
      INFO(one.name);
      lod::ProgramDesc startup;
      startup.blocks.resize(1);
      std::vector<std::string> fetch;
      for (const Tensor& tensor : one.fetched) fetch.push_back(tensor.name);
      if (!one.loss.empty()) {
        if (!trains_itself(one)) {
          lod::infer_shapes(one.program);
          lod::minimize(one.program, startup, one.loss, lod::Adagrad{one.rate});
        }
        fetch = {one.loss};
        for (const Tensor& tensor : one.parameters) fetch.push_back(tensor.name);
      }
      check_ways(one.program, fed(one), fetch, one.parameters, startup);
    }
  }
}

namespace {

/// Trains a program from its first parameters, and compares the losses.
void check_losses(const Case& one, lod::Scope& scope) {
  INFO(one.name);
  for (const Tensor& tensor : one.parameters) scope.var(tensor.name) = tensor.value;
  lod::PreparedProgram prepared(lod::default_executor<lod::Cpu>(), one.program, scope, {one.loss});
  const lod::Feed feed = fed(one);
  REQUIRE(one.losses.size() == 10);
  for (const double loss : one.losses) {
    CHECK(prepared.run(feed)[0].view<float>().data()[0] == doctest::Approx(loss).epsilon(1e-4));
  }
}

}  // namespace

TEST_CASE("recorded: models have PaddlePaddle's losses in ten steps of training") {
  for (Case& one : cases_of("training.txt")) {
    lod::ProgramDesc startup;
    lod::infer_shapes(one.program);
    const lod::Optimizer optimizer =
        one.optimizer == "SGD" ? lod::Optimizer(lod::SGD{one.rate}) : lod::Optimizer(lod::Adagrad{one.rate});
    lod::minimize(one.program, startup, one.loss, optimizer);
    lod::Scope scope;
    lod::run(startup, scope);
    check_losses(one, scope);
  }
}

TEST_CASE("recorded: programs of PaddlePaddle 1's layers have its losses in ten steps of their own training") {
  for (const Case& one : cases_of("layers.txt")) {
    lod::Scope scope;
    check_losses(one, scope);
  }
}
