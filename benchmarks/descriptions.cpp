// SPDX-License-Identifier: Apache-2.0
/// @file
/// A typical VarDesc, and a program of 17 kB that PaddlePaddle wrote, to bytes and back: this library's structs against
/// the message classes that protoc makes. What libprotobuf encodes must first be built as a message, so that is part of
/// its time; so is ours, where a struct is built. "Reused" means that the same struct or message, and the same string,
/// serve every round.
#include <lod/proto.hpp>
#include <lod/proto/program.hpp>

#include <benchmark/benchmark.h>
#include <program_desc.pb.h>
#include <var_desc.pb.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

constexpr std::string_view name = "embedding_0.tmp_0";

lod::VarDesc build() {
  lod::VarDesc v = lod::VarDesc::lod_tensor(std::string(name), {lod::DataType::FP32, {-1, 640, 480}}, 2);
  v.persistable = true;
  return v;
}

void build(lod::schema::VarDesc& message) {
  message.set_name(name.data(), name.size());
  message.set_persistable(true);
  lod::schema::VarType& type = *message.mutable_type();
  type.set_type(lod::schema::VarType::LOD_TENSOR);
  type.mutable_lod_tensor()->set_lod_level(2);
  lod::schema::TensorDesc& tensor = *type.mutable_lod_tensor()->mutable_tensor();
  tensor.set_data_type(lod::schema::VarType::FP32);
  for (std::int64_t dim : {-1, 640, 480}) tensor.add_dims(dim);
}

const std::string bytes = lod::encode(build());

void encode_lod(benchmark::State& state) {
  const lod::VarDesc v = build();
  for (auto _ : state) {
    std::string out = lod::encode(v);
    benchmark::DoNotOptimize(out.data());
  }
}

void encode_lod_reused(benchmark::State& state) {
  const lod::VarDesc v = build();
  std::string out;
  for (auto _ : state) {
    out.clear();
    lod::encode(v, out);
    benchmark::DoNotOptimize(out.data());
  }
}

void build_and_encode_lod(benchmark::State& state) {
  for (auto _ : state) {
    const std::string out = lod::encode(build());
    benchmark::DoNotOptimize(out.data());
  }
}

void build_and_encode_libprotobuf(benchmark::State& state) {
  for (auto _ : state) {
    lod::schema::VarDesc message;
    build(message);
    const std::string out = message.SerializeAsString();
    benchmark::DoNotOptimize(out.data());
  }
}

void build_and_encode_libprotobuf_reused(benchmark::State& state) {
  lod::schema::VarDesc message;
  std::string out;
  for (auto _ : state) {
    message.Clear();
    build(message);
    message.SerializeToString(&out);
    benchmark::DoNotOptimize(out.data());
  }
}

/// For comparison only: a message that somebody else has built.
void encode_only_libprotobuf_reused(benchmark::State& state) {
  lod::schema::VarDesc message;
  build(message);
  std::string out;
  for (auto _ : state) {
    message.SerializeToString(&out);
    benchmark::DoNotOptimize(out.data());
  }
}

void decode_lod(benchmark::State& state) {
  for (auto _ : state) {
    lod::VarDesc v = lod::decode<lod::VarDesc>(bytes);
    benchmark::DoNotOptimize(v);
  }
}

void decode_lod_reused(benchmark::State& state) {
  lod::VarDesc v;
  for (auto _ : state) {
    lod::decode(bytes, v);
    benchmark::DoNotOptimize(v);
  }
}

void decode_libprotobuf(benchmark::State& state) {
  for (auto _ : state) {
    lod::schema::VarDesc message;
    message.ParseFromString(bytes);
    benchmark::DoNotOptimize(message);
  }
}

void decode_libprotobuf_reused(benchmark::State& state) {
  lod::schema::VarDesc message;
  for (auto _ : state) {
    message.ParseFromString(bytes);
    benchmark::DoNotOptimize(message);
  }
}

/// The bytes of the program.
const std::string& program_bytes() {
  static const std::string of_file = [] {
    std::ifstream file(LOD_TEST_DATA "/paddle/custom_gap/custom_gap.pdmodel", std::ios::binary);
    if (!file) throw std::runtime_error("there is no custom_gap.pdmodel in " LOD_TEST_DATA "/paddle/custom_gap");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  return of_file;
}

void encode_program_lod(benchmark::State& state) {
  const auto program = lod::decode<lod::ProgramDesc>(program_bytes());
  for (auto _ : state) {
    std::string out = lod::encode(program);
    benchmark::DoNotOptimize(out.data());
  }
}

/// For comparison only: a message that somebody else has built.
void encode_program_only_libprotobuf(benchmark::State& state) {
  lod::schema::ProgramDesc message;
  message.ParseFromString(program_bytes());
  for (auto _ : state) {
    const std::string out = message.SerializeAsString();
    benchmark::DoNotOptimize(out.data());
  }
}

void decode_program_lod(benchmark::State& state) {
  const std::string& program = program_bytes();
  for (auto _ : state) {
    auto decoded = lod::decode<lod::ProgramDesc>(program);
    benchmark::DoNotOptimize(decoded);
  }
}

void decode_program_libprotobuf(benchmark::State& state) {
  const std::string& program = program_bytes();
  for (auto _ : state) {
    lod::schema::ProgramDesc message;
    message.ParseFromString(program);
    benchmark::DoNotOptimize(message);
  }
}

BENCHMARK(encode_lod_reused);
BENCHMARK(build_and_encode_libprotobuf_reused);
BENCHMARK(encode_only_libprotobuf_reused);
BENCHMARK(encode_lod);
BENCHMARK(build_and_encode_lod);
BENCHMARK(build_and_encode_libprotobuf);
BENCHMARK(decode_lod_reused);
BENCHMARK(decode_libprotobuf_reused);
BENCHMARK(decode_lod);
BENCHMARK(decode_libprotobuf);
BENCHMARK(encode_program_lod);
BENCHMARK(encode_program_only_libprotobuf);
BENCHMARK(decode_program_lod);
BENCHMARK(decode_program_libprotobuf);

}  // namespace

BENCHMARK_MAIN();
