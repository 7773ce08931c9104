// SPDX-License-Identifier: Apache-2.0
#include "roofs.hpp"

#include "distributions.hpp"

#include <xsimd/xsimd.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <new>
#include <vector>

#ifdef __linux__
#  include <sys/mman.h>
#endif
#ifdef __SSE2__
#  include <emmintrin.h>
#endif

namespace benchmarks {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
constexpr std::int64_t array_bytes = 256 * mebibyte;
constexpr std::int64_t table_bytes = 512 * mebibyte;
constexpr std::int64_t row_numbers = 64;
constexpr std::int64_t picked_rows = 1 << 19;

using Vector = xsimd::batch<float>;
constexpr auto lanes = static_cast<std::int64_t>(Vector::size);

/// Aligned to huge pages, and on them where the system has some to give: the roof is the machine's, not that of pages
/// of 4 KiB.
struct Free {
  void operator()(float* memory) const { ::operator delete(memory, std::align_val_t(2 * mebibyte)); }
};
using Array = std::unique_ptr<float, Free>;
Array make_array(std::int64_t bytes) {
  Array array(static_cast<float*>(::operator new(static_cast<std::size_t>(bytes), std::align_val_t(2 * mebibyte))));
#ifdef MADV_HUGEPAGE
  madvise(array.get(), static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
#endif
  std::fill_n(array.get(), bytes / 4, 1.0F);
  return array;
}

/// Where results go that nobody reads: the compiler does not know that.
volatile float sink;

void read(const float* x, std::int64_t count) {
  Vector sums[8];
  for (auto& sum : sums) sum = Vector(0.0F);
  for (std::int64_t i = 0; i + 8 * lanes <= count; i += 8 * lanes) {
    for (std::int64_t v = 0; v < 8; ++v) {
      __builtin_prefetch(x + i + v * lanes + 2048);
      sums[v] += Vector::load_aligned(x + i + v * lanes);
    }
  }
  for (std::int64_t v = 1; v < 8; ++v) sums[0] += sums[v];
  sink = sums[0].get(0);
}

void copy(const float* x, std::int64_t count, float* y) {
  std::memcpy(y, x, static_cast<std::size_t>(count) * sizeof(float));
}

void stream_copy(const float* x, std::int64_t count, float* y) {
#if defined(__AVX__)
  for (std::int64_t i = 0; i < count; i += 16) {
    __builtin_prefetch(x + i + 1024);
    _mm256_stream_ps(y + i, _mm256_load_ps(x + i));
    _mm256_stream_ps(y + i + 8, _mm256_load_ps(x + i + 8));
  }
  _mm_sfence();
#elif defined(__SSE2__)
  for (std::int64_t i = 0; i < count; i += 4) {
    _mm_stream_ps(y + i, _mm_load_ps(x + i));
  }
  _mm_sfence();
#else
  copy(x, count, y);
#endif
}

void gather(const float* table, const std::int64_t* rows, std::int64_t count) {
  Vector sum(0.0F);
  for (std::int64_t i = 0; i < count; ++i) {
    const float* ahead = table + rows[std::min(i + 32, count - 1)] * row_numbers;
    for (std::int64_t line = 0; line < row_numbers; line += 16) __builtin_prefetch(ahead + line, 0, 2);
    for (std::int64_t at = 0; at < row_numbers; at += lanes)
      sum += Vector::load_aligned(table + rows[i] * row_numbers + at);
  }
  sink = sum.get(0);
}

/// Bytes a second of the best of several passes, which each thread takes a share of: body(begin, end).
template <class Body>
double best_rate(int threads, std::int64_t count, std::int64_t bytes, const Body& body) {
  double best = 0;
  for (int pass = 0; pass < 6; ++pass) {
    const auto start = std::chrono::steady_clock::now();
#ifdef _OPENMP
#  pragma omp parallel for num_threads(threads) schedule(static, 1)
#endif
    for (int thread = 0; thread < threads; ++thread) {
      const std::int64_t share = count / threads / 1024 * 1024;
      body(thread * share, thread + 1 == threads ? count : (thread + 1) * share);
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(bytes) / time.count());
  }
  return best;
}

}  // namespace

struct RoofMeter::Memory {
  Array x = make_array(array_bytes), y = make_array(array_bytes), table = make_array(table_bytes);
  std::vector<std::int64_t> rows = ids("uniform", picked_rows, table_bytes / 4 / row_numbers);
};

RoofMeter::RoofMeter(int threads) : threads_(threads), memory_(std::make_unique<Memory>()) {}
RoofMeter::~RoofMeter() = default;

Roofs RoofMeter::measure() const {
  float* const x = memory_->x.get();
  float* const y = memory_->y.get();
  const float* const table = memory_->table.get();
  const std::int64_t* const rows = memory_->rows.data();
  const std::int64_t numbers = array_bytes / 4;
  const auto with = [&](int threads) {
    Rates roof;
    roof.read = best_rate(threads, numbers, array_bytes,
                          [&](std::int64_t begin, std::int64_t end) { read(x + begin, end - begin); });
    roof.copy = best_rate(threads, numbers, 2 * array_bytes,
                          [&](std::int64_t begin, std::int64_t end) { copy(x + begin, end - begin, y + begin); });
    roof.stream_copy = best_rate(threads, numbers, 2 * array_bytes, [&](std::int64_t begin, std::int64_t end) {
      stream_copy(x + begin, end - begin, y + begin);
    });
    roof.gather = best_rate(threads, picked_rows, picked_rows * (row_numbers * 4 + 8),
                            [&](std::int64_t begin, std::int64_t end) { gather(table, rows + begin, end - begin); });
    return roof;
  };
  const Rates all = with(threads_);
  return {all, threads_ == 1 ? all : with(1)};
}

}  // namespace benchmarks
