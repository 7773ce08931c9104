// SPDX-License-Identifier: Apache-2.0
// Operations in the destructor of a static object, and in a thread that still runs when main has returned. Ends with
// status 0 where nothing goes wrong.
#include <lod/lod.hpp>

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>

namespace {

/// By the default executor, for so many rows.
void work(std::int64_t rows) {
  const lod::LoDTensor<float> x(lod::LoD::from_lengths({{rows, 0, 7}}), {2});
  const auto sums = lod::sequence_pool(x, lod::PoolType::SUM);
  const auto mapped = lod::map_sequences(sums, [](const auto& row) { return row; });
  if (mapped.rows() != 3) {
    std::puts("wrong results at the end");
    _exit(1);
  }
}

constexpr std::int64_t many_rows = 300000;  // for several threads

struct AtEnd {
  ~AtEnd() {
    for (int i = 0; i < 20; ++i) work(many_rows);
  }
};
// Made before anything of the library's is, so destroyed after it.
const AtEnd at_end;

std::atomic<bool> started = false;

}  // namespace

int main() {
  std::thread([] {
    for (;;) {
      work(many_rows);
      started = true;
    }
  }).detach();
  while (!started) std::this_thread::yield();
}
