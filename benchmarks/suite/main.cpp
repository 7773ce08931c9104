// SPDX-License-Identifier: Apache-2.0
/// @file
/// benchmark_suite: lists workloads, and runs one of them: makes its data, writes them down for programs in other
/// languages, measures the roofs, the contenders of this process, the roofs again. `tools/bench` is what people use.
#include "json.hpp"
#include "measure.hpp"
#include "roofs.hpp"
#include "workload.hpp"
#include <lod/executor.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/version.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace benchmarks;

constexpr const char* usage =
    "benchmark_suite --list [--form=short|long]\n"
    "benchmark_suite --roofs [--threads=N]\n"
    "benchmark_suite --workload=ID [--form=short|long] [--threads=N] [--inputs=FOLDER] [--out=FILE]\n"
    "\n"
    "ID is a line's \"id\" of --list. With --inputs the data are written to FOLDER as .npy; without --out the results\n"
    "go to standard output. tools/bench runs all of it and writes a report.\n";

struct Arguments {
  bool list = false, roofs = false, long_form = false;
  int threads = lod::CpuExecutor().threads();
  std::string workload, inputs, out;
};

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = values[i];
    const auto value = [&](std::string_view name, auto set) {
      if (!argument.starts_with(name)) return false;
      set(std::string(argument.substr(name.size())));
      return true;
    };
    if (argument == "--list") {
      arguments.list = true;
    } else if (argument == "--roofs") {
      arguments.roofs = true;
    } else if (argument == "--form=short" || argument == "--form=long") {
      arguments.long_form = argument.ends_with("long");
    } else if (!value("--threads=", [&](const std::string& text) { arguments.threads = std::stoi(text); }) &&
               !value("--workload=", [&](std::string text) { arguments.workload = std::move(text); }) &&
               !value("--inputs=", [&](std::string text) { arguments.inputs = std::move(text); }) &&
               !value("--out=", [&](std::string text) { arguments.out = std::move(text); })) {
      throw std::invalid_argument("unknown argument " + std::string(argument));
    }
  }
  if (arguments.list + arguments.roofs + !arguments.workload.empty() != 1 || arguments.threads < 1) {
    throw std::invalid_argument("one of --list, --roofs and --workload is needed");
  }
  return arguments;
}

// ---- JSON --------------------------------------------------------------------------------------------------------

const char* name_of(Roof roof) {
  switch (roof) {
    case Roof::READ:
      return "read";
    case Roof::COPY:
      return "copy";
    case Roof::STREAM_COPY:
      return "stream_copy";
    case Roof::GATHER:
      return "gather";
    case Roof::NONE:
      break;
  }
  return "none";
}

/// Without the closing brace.
std::string json(const Workload& workload) {
  return "{\"id\": " + quoted(workload.id()) + ", \"work\": " + quoted(workload.work) +
         ", \"op\": " + quoted(workload.op) + ", \"variant\": " + quoted(workload.variant) +
         ", \"lengths\": " + quoted(workload.lengths) + ", \"ids\": " + quoted(workload.ids) +
         ", \"row_size\": " + std::to_string(workload.row_size) + ", \"dtype\": " + quoted(workload.dtype) +
         ", \"size\": " + quoted(workload.size) + ", \"roof\": " + quoted(name_of(workload.roof));
}
std::string json(const Workload& workload, const Job& job, int threads) {
  return json(workload) + ", \"rows\": " + std::to_string(job.rows) +
         ", \"sequences\": " + std::to_string(job.sequences) + ", \"bytes\": " + std::to_string(job.bytes) +
         ", \"threads\": " + std::to_string(threads) + ", \"parameters\": " + job.parameters + "}";
}
std::string json(const Roofs& roofs) {
  const auto rates = [](const Rates& r, const std::string& suffix) {
    return "\"read" + suffix + "\": " + number(r.read) + ", \"copy" + suffix + "\": " + number(r.copy) +
           ", \"stream_copy" + suffix + "\": " + number(r.stream_copy) + ", \"gather" + suffix +
           "\": " + number(r.gather);
  };
  return "{" + rates(roofs.all, "") + ", " + rates(roofs.one, "_1") + "}";
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string context(int threads) {
  const std::string simd = xsimd::default_arch::name();
  return "{\"cpu\": " + quoted(processor()) + ", \"threads\": " + std::to_string(threads) +
         ", \"simd\": " + quoted(simd) + ", \"compiler\": " + quoted(LOD_BENCHMARKS_COMPILER) +
         ", \"flags\": " + quoted(LOD_BENCHMARKS_FLAGS) + ", \"blas\": \"\", \"version\": " +
         quoted(std::to_string(LOD_VERSION_MAJOR) + "." + std::to_string(LOD_VERSION_MINOR) + "." +
                std::to_string(LOD_VERSION_PATCH)) +
         "}";
}

std::string run(const Workload& workload, const Arguments& arguments) {
  const Job job = workload.make(workload, arguments.threads);
  if (!arguments.inputs.empty()) {
    for (const Input& input : job.inputs) input.write(arguments.inputs + "/" + input.name + ".npy");
  }
  const RoofMeter meter(arguments.threads);
  const Roofs before = meter.measure();
  const auto measured = measure(job.contenders, {.seconds = arguments.long_form ? 1 : 0.3});
  const Roofs after = meter.measure();

  std::string results;
  for (const Contender& contender : job.contenders) {
    contender.call();  // another's call may have used the same memory
    std::string seconds, sums = "\"checksum\": null, \"magnitude\": null";
    for (const double each : measured.at(contender.by)) seconds += (seconds.empty() ? "" : ", ") + number(each);
    if (contender.checksum) {
      const Checksum sum = contender.checksum();
      sums = "\"checksum\": " + number(sum.sum) + ", \"magnitude\": " + number(sum.magnitude);
    }
    results += (results.empty() ? "" : ",\n  ");
    results += "{\"id\": " + quoted(workload.id()) + ", \"by\": " + quoted(contender.by) +
               ", \"version\": " + quoted(contender.version) + ", \"threads\": " + std::to_string(arguments.threads) +
               ", \"seconds\": [" + seconds + "], " + sums + ", \"note\": " + quoted(contender.note) + "}";
  }
  return "{\"workload\": " + json(workload, job, arguments.threads) + ",\n \"results\": [\n  " + results +
         "],\n \"roofs_before\": " + json(before) + ",\n \"roofs_after\": " + json(after) +
         ",\n \"context\": " + context(arguments.threads) + "}\n";
}

void write(const std::string& text, const std::string& file) {
  if (file.empty()) {
    std::cout << text << std::flush;
    return;
  }
  std::ofstream out(file);
  if (!(out << text << std::flush)) throw std::runtime_error("cannot write " + file);
}

}  // namespace

int main(int count, char** values) {
  try {
    const Arguments arguments = parse(count, values);
    prepare_to_measure(values[0]);

    if (arguments.roofs) {
      write(json(RoofMeter(arguments.threads).measure()) + "\n", arguments.out);
      return 0;
    }
    const std::vector<Workload> workloads = all_workloads();
    if (arguments.list) {
      std::string lines;
      for (const Workload& workload : workloads) {
        if (arguments.long_form || workload.in_short_form) {
          lines += json(workload) + ", \"threads\": " + std::to_string(arguments.threads) + "}\n";
        }
      }
      write(lines, arguments.out);
      return 0;
    }
    const auto found = std::ranges::find(workloads, arguments.workload, &Workload::id);
    if (found == workloads.end()) throw std::invalid_argument("there is no workload " + arguments.workload);
    write(run(*found, arguments), arguments.out);
    return 0;
  } catch (const std::invalid_argument& error) {
    std::cerr << "benchmark_suite: " << error.what() << "\n" << usage;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "benchmark_suite: " << error.what() << "\n";
    return 1;
  }
}
