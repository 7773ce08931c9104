// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the memory of this machine gives, measured: the ceilings that operations are held against.
#pragma once

#include <cstdint>
#include <memory>

namespace benchmarks {

/// Bytes a second. A copy counts what it reads and what it writes.
struct Rates {
  double read = 0;
  double copy = 0;         ///< memcpy, or plain stores
  double stream_copy = 0;  ///< stores that go by the caches
  double gather = 0;       ///< random rows of 256 bytes of a table of 512 MiB, added up
};
struct Roofs {
  Rates all;  ///< by all threads asked for
  Rates one;  ///< by one
};

/// Keeps the memory that roofs are measured on from call to call.
class RoofMeter {
 public:
  explicit RoofMeter(int threads);
  RoofMeter(const RoofMeter&) = delete;
  RoofMeter& operator=(const RoofMeter&) = delete;
  ~RoofMeter();

  /// The best of several passes each.
  Roofs measure() const;

 private:
  struct Memory;
  int threads_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace benchmarks
