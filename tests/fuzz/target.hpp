// SPDX-License-Identifier: Apache-2.0
/// @file
/// What all targets of the fuzzers have in common. A target is a file with `LLVMFuzzerTestOneInput`, which reads the
/// bytes given by a reader of the library and ends the program where that does what its documentation excludes, and
/// with `seeds`, which gives bytes that are right. It is linked with libFuzzer, and with replay.cpp, which needs none.
///
/// Every target holds its reader to this:
/// - it throws nothing but the errors that its documentation names, and a ParseError within the bytes;
/// - while it reads it never holds more memory than a multiple of the bytes, which the target states, and a little;
/// - what it has read can be written, and read again, and is then the same.
#pragma once

#include "expect.hpp"
#include "memory.hpp"
#include <lod/any_tensor.hpp>
#include <lod/error.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace lod_fuzz {

/// Inputs that the target's reader takes, or nearly.
std::vector<std::string> seeds();

/// The input of a target as text.
inline std::string_view input(const std::uint8_t* data, std::size_t size) noexcept {
  return {reinterpret_cast<const char*>(data), size};
}

/// The most memory that a reader may hold: `times` the bytes that it reads, `plus` for texts of errors and the like.
struct Bound {
  std::size_t times;
  std::size_t plus = std::size_t{8} << 10;
  /// Whether the position of a ParseError is one in the bytes; not so where it counts bytes after unpacking.
  bool positions = true;
};

/// How near readers came to their bounds, for who sets them.
inline double largest_share_of_bound = 0;

/// What read() gives; nothing where it throws one of the Errors. Any other exception goes through, and ends the
/// program. `size` is that of the bytes that it reads.
template <class... Errors, class Read>
auto attempt(std::size_t size, const Bound& bound, const Read& read) {
  std::optional<decltype(read())> result;
  const PeakMemory peak;
  try {
    result.emplace(read());
  } catch (const std::exception& error) {
    if (!(... || dynamic_cast<const Errors*>(&error))) throw;
    const auto* const parse_error = dynamic_cast<const lod::ParseError*>(&error);
    LOD_FUZZ_EXPECT(!parse_error || !bound.positions || parse_error->position() <= size);
  }
  const std::size_t most = bound.times * size + bound.plus;
  largest_share_of_bound =
      std::max(largest_share_of_bound, static_cast<double>(peak.bytes()) / static_cast<double>(most));
  LOD_FUZZ_EXPECT(peak.bytes() <= most);
  return result;
}

/// Whether two tensors are the same to the last bit.
inline bool same(const lod::AnyLoDTensor& a, const lod::AnyLoDTensor& b) {
  return a.data_type() == b.data_type() && a.lod() == b.lod() && a.shape() == b.shape() &&
         std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}
inline bool same(const lod::AnySelectedRows& a, const lod::AnySelectedRows& b) {
  return a.rows() == b.rows() && a.height() == b.height() && same(a.value(), b.value());
}

/// Bytes as a regular file that no folder knows.
class UnnamedFile {
 public:
  explicit UnnamedFile(std::string_view bytes) : file_(::memfd_create("input", MFD_CLOEXEC)) {
    LOD_FUZZ_EXPECT(file_ >= 0);
    LOD_FUZZ_EXPECT(::write(file_, bytes.data(), bytes.size()) == static_cast<::ssize_t>(bytes.size()));
  }
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;
  ~UnnamedFile() { ::close(file_); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

/// Bytes as a list of decisions, for targets whose reader reads no bytes. When they are used up, all else is 0.
class Choices {
 public:
  explicit Choices(std::string_view bytes) noexcept : rest_(bytes) {}

  bool left() const noexcept { return !rest_.empty(); }
  std::uint8_t byte() noexcept {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  /// One of 0 to count - 1.
  int below(int count) noexcept { return byte() % count; }
  /// Small most often, sometimes negative, sometimes anything.
  std::int64_t number() noexcept {
    const int value = byte();
    return value < 0xC0 ? value : value < 0xF0 ? value - 0xF0 : anything();
  }
  std::int64_t anything() noexcept {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= std::uint64_t{byte()} << (8 * i);
    return static_cast<std::int64_t>(value);
  }
  /// So many bytes, fewer if there are no more.
  std::string_view bytes(std::size_t count) noexcept {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view rest_;
};

}  // namespace lod_fuzz
