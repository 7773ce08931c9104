// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators on dense tensors, on one thread, beside libraries that compute the same: products of matrices beside a
/// BLAS, broadcasting and sums along axes beside xtensor, batch_norm beside oneDNN. Prints a table in Markdown, the
/// least of many calls in microseconds. The other libraries are to use one thread, too:
///   OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 benchmark_libraries
#include <lod/blas.hpp>
#include <lod/dnnl.hpp>
#include <lod/run.hpp>
#include <lod/xtensor.hpp>

#include <xtensor/xmath.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using Attrs = std::vector<lod::OpDesc::Attr>;
using Names = std::vector<std::pair<std::string, std::string>>;  ///< parameters and the variables for them

double microseconds(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  double least = 1e9;
  call();
  for (const auto end = Clock::now() + std::chrono::milliseconds(400); Clock::now() < end;) {
    const auto start = Clock::now();
    call();
    least = std::min(least, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return least;
}

lod::LoDTensor<float> numbers(const lod::Shape& shape) {
  static std::mt19937 engine(1);
  std::uniform_real_distribution<float> draw(0.5F, 2);
  lod::LoDTensor<float> x(shape);
  for (float& one : x.values()) one = draw(engine);
  return x;
}

/// What an operator takes, prepared once, on one thread.
double operator_microseconds(const std::string& type, const Names& inputs, const Names& outputs, const Attrs& attrs,
                             const lod::Feed& feed) {
  lod::ProgramDesc program;
  lod::BlockDesc& block = program.blocks.emplace_back();
  lod::OpDesc op{.type = type, .attrs = attrs};
  for (const bool is_input : {true, false}) {
    for (const auto& [parameter, name] : is_input ? inputs : outputs) {
      (is_input ? op.inputs : op.outputs).push_back({.parameter = parameter, .arguments = {name}});
      if (!block.find_var(name)) block.vars.push_back({.name = name, .type = {.type = lod::VarType::LOD_TENSOR}});
    }
  }
  block.ops.push_back(op);
  lod::Scope scope;
  lod::PreparedProgram<> prepared(lod::CpuExecutor(1), program, scope, {outputs.front().second});
  return microseconds([&] { prepared.run(feed); });
}

void row(const std::string& what, double ours, const char* other, double theirs) {
  std::printf("| %s | %.1f | %s %.1f | %.2f |\n", what.c_str(), ours, other, theirs, theirs / ours);
}

void product(std::int64_t m, std::int64_t k, std::int64_t n) {
  const auto x = numbers({m, k}), y = numbers({k, n});
  auto z = numbers({m, n});
  const double ours = operator_microseconds("mul", {{"X", "x"}, {"Y", "y"}}, {{"Out", "z"}}, {}, {{"x", x}, {"y", y}});
  const double theirs = microseconds([&] {
    lod::operators_by_blas::Products::multiply(lod::CpuExecutor(1), false, false, m, n, k, 1, x.data(), k, y.data(), n,
                                               0, z.data(), n);
  });
  row("mul {" + std::to_string(m) + ", " + std::to_string(k) + "} {" + std::to_string(k) + ", " + std::to_string(n) +
          "}",
      ours, "BLAS", theirs);
}

/// `stretched` is the shape of y with the dimensions of 1 that `axis` stands for.
void broadcast(const lod::Shape& x_shape, const lod::Shape& y_shape, std::int32_t axis, const lod::Shape& stretched) {
  const auto x = numbers(x_shape), y = numbers(y_shape);
  auto z = numbers(x_shape);
  const double ours =
      operator_microseconds("elementwise_mul", {{"X", "x"}, {"Y", "y"}}, {{"Out", "z"}},
                            {{.name = "axis", .type = lod::AttrType::INT, .i = axis}}, {{"x", x}, {"y", y}});
  const auto sizes = [](const lod::Shape& shape) { return std::vector<std::size_t>(shape.begin(), shape.end()); };
  const auto a = xt::adapt(x.data(), x.values().size(), xt::no_ownership(), sizes(x_shape));
  const auto b = xt::adapt(y.data(), y.values().size(), xt::no_ownership(), sizes(stretched));
  auto c = xt::adapt(z.data(), z.values().size(), xt::no_ownership(), sizes(x_shape));
  const double theirs = microseconds([&] { xt::noalias(c) = a * b; });
  row("elementwise_mul " + to_string(x_shape) + " " + to_string(stretched), ours, "xtensor", theirs);
}

void sum(const lod::Shape& shape, const std::vector<std::int32_t>& axes) {
  const auto x = numbers(shape);
  const double ours = operator_microseconds("reduce_sum", {{"X", "x"}}, {{"Out", "z"}},
                                            {{.name = "dim", .type = lod::AttrType::INTS, .ints = axes}}, {{"x", x}});
  const auto a =
      xt::adapt(x.data(), x.values().size(), xt::no_ownership(), std::vector<std::size_t>(shape.begin(), shape.end()));
  const std::vector<std::size_t> along(axes.begin(), axes.end());
  const double theirs = microseconds([&] { const xt::xarray<double> sums = xt::sum<double>(a, along); });
  std::string names;
  for (const std::int32_t axis : axes) names += " " + std::to_string(axis);
  row("reduce_sum " + to_string(shape) + " along" + names, ours, "xtensor", theirs);
}

void batch_norm(const lod::Shape& shape, bool is_test) {
  using Memory = dnnl::memory;
  const std::int64_t channels = shape[1];
  const auto x = numbers(shape), scale = numbers({channels}), bias = numbers({channels}), mean = numbers({channels});
  const double ours = operator_microseconds(
      "batch_norm", {{"X", "x"}, {"Scale", "scale"}, {"Bias", "bias"}, {"Mean", "mean"}, {"Variance", "variance"}},
      {{"Y", "y"}, {"MeanOut", "mean"}, {"VarianceOut", "variance"}, {"SavedMean", "m"}, {"SavedVariance", "v"}},
      {{.name = "is_test", .type = lod::AttrType::BOOLEAN, .b = is_test}},
      {{"x", x}, {"scale", scale}, {"bias", bias}, {"mean", mean}, {"variance", mean}});
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const Memory::desc images({shape[0], channels, shape[2], shape[3]}, Memory::data_type::f32, Memory::format_tag::nchw);
  const dnnl::batch_normalization_forward::primitive_desc described(
      {is_test ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training, images, 1e-5F,
       dnnl::normalization_flags::use_scale_shift |
           (is_test ? dnnl::normalization_flags::use_global_stats : dnnl::normalization_flags::none)},
      engine);
  const dnnl::batch_normalization_forward primitive(described);
  std::vector<float> y(x.values().size()), slopes(static_cast<std::size_t>(2 * channels), 1);
  std::vector<float> means(slopes), variances(slopes);
  const Memory from(images, engine, const_cast<float*>(x.data())), to(images, engine, y.data());
  const Memory line(described.weights_desc(), engine, slopes.data());
  const Memory found_mean(described.mean_desc(), engine, means.data());
  const Memory found_variance(described.variance_desc(), engine, variances.data());
  const double theirs = microseconds([&] {
    primitive.execute(stream, {{DNNL_ARG_SRC, from},
                               {DNNL_ARG_DST, to},
                               {DNNL_ARG_SCALE_SHIFT, line},
                               {DNNL_ARG_MEAN, found_mean},
                               {DNNL_ARG_VARIANCE, found_variance}});
    stream.wait();
  });
  row("batch_norm " + to_string(shape) + (is_test ? ", by given moments" : ""), ours, "oneDNN", theirs);
}

}  // namespace

int main() {
  std::printf("| operator | here, us | us | times |\n|---|---|---|---|\n");
  product(64, 512, 512);
  product(1024, 1024, 1024);
  product(16, 128, 128);
  product(4096, 64, 64);
  product(1, 1024, 1024);
  product(64, 256, 10000);
  broadcast({1024, 512}, {1024, 512}, -1, {1024, 512});
  broadcast({1024, 512}, {512}, -1, {512});
  broadcast({1024, 512}, {1024, 1}, -1, {1024, 1});
  broadcast({32, 64, 28, 28}, {64}, 1, {64, 1, 1});
  broadcast({65536, 4}, {65536, 1}, -1, {65536, 1});
  sum({1024, 512}, {0});
  sum({1024, 512}, {1});
  sum({1024, 512}, {0, 1});
  sum({32, 64, 28, 28}, {0, 2, 3});
  sum({32, 64, 28, 28}, {1});
  for (const bool is_test : {true, false}) {
    batch_norm({32, 64, 28, 28}, is_test);
    batch_norm({1, 64, 56, 56}, is_test);
    batch_norm({128, 512, 1, 1}, is_test);
  }
}
