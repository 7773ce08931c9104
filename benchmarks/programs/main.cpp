// SPDX-License-Identifier: Apache-2.0
/// @file
/// Times programs of operators:
///   benchmark_programs overhead                    what the interpreter adds to an operator
///   benchmark_programs lac PARAMETERS THREADS      the network of examples/lac, for tools/bench-lac: reads jobs from
///     standard input, a line of RUNS SENTENCES LENGTH... ID..., and answers each with a line of the tags, and one of
///     the milliseconds of each run
///   benchmark_programs model FOLDER THREADS [dnnl] a program that PaddlePaddle wrote, on the tensors in its folder
///     feed, for images.py, by oneDNN or without it: reads numbers of runs, and answers each with a line of their
///     milliseconds
///   benchmark_programs train FOLDER LOSS THREADS   a program that trains, as written by
///     tests/programs/paddle_training_test.py, for training.py: answers in the same way, and with the last loss
#include "examples/lac/analyser.hpp"
#include <lod/io/paddle.hpp>
#include <lod/program.hpp>
#include <lod/run.hpp>
#ifdef LOD_BENCHMARK_DNNL
#  include <lod/dnnl.hpp>
#endif

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

template <class F>
double milliseconds(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// The microseconds of one operator in a chain of many on one number, the least of some runs.
double microseconds_of(const std::string& type, int count) {
  lod::ProgramDesc program;
  lod::BlockDesc& block = program.blocks.emplace_back();
  const auto add_var = [&](int i) {
    block.vars.push_back({.name = "x" + std::to_string(i), .type = {.type = lod::VarType::LOD_TENSOR}});
    return block.vars.back().name;
  };
  add_var(0);
  for (int i = 0; i < count; ++i) {
    const std::string x = block.vars.back().name;
    block.ops.push_back({.inputs = {{.parameter = "X", .arguments = {x}}},
                         .outputs = {{.parameter = "Out", .arguments = {add_var(i + 1)}}},
                         .type = type});
  }
  lod::Scope scope;
  lod::PreparedProgram<> prepared(lod::CpuExecutor(1), program, scope, {block.vars.back().name});
  const lod::Feed feed = {{"x0", lod::LoDTensor<float>::from_values(lod::LoD(), {1}, std::vector<float>{1})}};
  double least = milliseconds([&] { prepared.run(feed); });
  for (int i = 0; i < 2000; ++i) least = std::min(least, milliseconds([&] { prepared.run(feed); }));
  return least * 1000 / count;
}

int overhead() {
  lod::operators().add("nothing",
                       {.prepare = [](const lod::OperatorArguments&) { return [](lod::OperatorCall<>&) {}; }});
  for (const char* const type : {"nothing", "assign", "relu", "scale"}) {
    std::cout << microseconds_of(type, 200) << " us an operator: " << type << " of one number\n";
  }
  return 0;
}

int lac_jobs(const std::string& parameters, int threads) {
  lac::Analyser analyser(parameters, threads);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream job(line);
    int runs = 0;
    std::size_t sentences = 0;
    job >> runs >> sentences;
    std::vector<std::int64_t> lengths(sentences), ids;
    for (std::int64_t& length : lengths) job >> length;
    for (std::int64_t id = 0; job >> id;) ids.push_back(id);
    const auto words = lod::LoDTensor<std::int64_t>::from_values(lod::LoD::from_lengths({lengths}), {1}, ids);
    for (const std::int64_t tag : analyser.run(words)) std::cout << tag << ' ';
    std::cout << '\n';
    for (int i = 0; i < runs; ++i) std::cout << milliseconds([&] { analyser.run(words); }) << ' ';
    std::cout << std::endl;
  }
  return 0;
}

/// The tensors of a folder, by the names of their files.
lod::Feed tensors_in(const std::filesystem::path& folder) {
  lod::Feed tensors;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    tensors.emplace(file.path().filename().string(), lod::paddle::load_tensor(file.path().string()));
  }
  return tensors;
}

int training_jobs(const std::filesystem::path& folder, const std::string& loss, int threads) {
  lod::Scope scope;
  lod::run(lod::paddle::load_program((folder / "startup").string()), scope);
  for (auto& [name, value] : tensors_in(folder / "parameters")) scope.var(name).get<lod::AnyLoDTensor>() = value;
  const lod::Feed feed = tensors_in(folder / "feed");
  lod::PreparedProgram prepared(lod::CpuExecutor(threads), lod::paddle::load_program((folder / "program").string()),
                                scope, {loss});
  for (int runs = 0; std::cin >> runs;) {
    float last = 0;
    for (int i = 0; i < runs; ++i) {
      std::cout << milliseconds([&] { last = prepared.run(feed)[0].view<float>().data()[0]; }) << ' ';
    }
    std::cout << last << std::endl;
  }
  return 0;
}

int model_jobs(const std::filesystem::path& folder, int threads, bool is_by_dnnl) {
  if (is_by_dnnl) {
#ifdef LOD_BENCHMARK_DNNL
    lod::use_dnnl();
#else
    throw std::runtime_error("built without oneDNN");
#endif
  }
  lod::Scope scope;
  for (auto& [name, value] : tensors_in(folder / "feed")) scope.var(name).get<lod::AnyLoDTensor>() = value;
  lod::PreparedProgram prepared(lod::CpuExecutor(threads), lod::paddle::load_program((folder / "__model__").string()),
                                scope);
  for (int runs = 0; std::cin >> runs;) {
    for (int i = 0; i < runs; ++i) std::cout << milliseconds([&] { prepared.run(); }) << ' ';
    std::cout << std::endl;
  }
  return 0;
}

}  // namespace

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + 1, values + count);
  try {
    if (arguments.size() == 1 && arguments[0] == "overhead") return overhead();
    if (arguments.size() == 3 && arguments[0] == "lac") return lac_jobs(arguments[1], std::stoi(arguments[2]));
    if (arguments.size() == 4 && arguments[0] == "train") {
      return training_jobs(arguments[1], arguments[2], std::stoi(arguments[3]));
    }
    const bool is_by_dnnl = arguments.size() == 4 && arguments[3] == "dnnl";
    if ((arguments.size() == 3 || is_by_dnnl) && arguments[0] == "model") {
      return model_jobs(arguments[1], std::stoi(arguments[2]), is_by_dnnl);
    }
    std::cerr << "usage: benchmark_programs overhead | lac PARAMETERS THREADS | model FOLDER THREADS [dnnl] |"
                 " train FOLDER LOSS THREADS\n";
  } catch (const std::exception& error) {
    std::cerr << "benchmark_programs: " << error.what() << '\n';
  }
  return 2;
}
