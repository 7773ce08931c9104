// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Bytes from outside, from a string or a file, read once from front to back.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/io/system_file.hpp>

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// A known number of bytes, and how many of them have been read. Code that reads a count must check it against `left()`
/// before it allocates memory for what is counted.
///
/// From a file, large parts go straight to their destination, small ones through a buffer. After an error the input is
/// of no further use.
class Input {
 public:
  /// Reads the user's memory.
  explicit Input(std::string_view bytes) noexcept : window_(bytes), size_(bytes.size()) {}
  /// The bytes of a file, as many as it has now. Throws std::system_error, also for anything but a regular file.
  static Input open(const std::string& path) { return Input(open_regular_file(path), path); }

  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  /// How many bytes have been read.
  std::size_t position() const noexcept { return position_; }
  /// How many have not been read.
  std::size_t left() const noexcept { return size_ - position_; }

  /// Throws a ParseError about the byte that was read `ago` bytes ago; 0: about the next one.
  [[noreturn, gnu::cold, gnu::noinline]] void fail(std::initializer_list<Piece> words, std::size_t ago = 0) const {
    throw ParseError(text(words), position_ - ago);
  }
  /// Throws a ParseError unless `size` bytes are left for what is named.
  void expect(std::uint64_t size, const char* name) const {
    if (size > left()) fail({name, ": ", size, " bytes expected, ", left(), " are left"});
  }

  /// The next `size` bytes, which must be left. Valid until the next call.
  std::string_view peek(std::size_t size) {
    LOD_ASSERT(size <= left());
    if (size > window_.size()) fill(size);
    return window_.substr(0, size);
  }
  /// The same, and moves past them.
  std::string_view take(std::size_t size) {
    const std::string_view bytes = peek(size);
    window_.remove_prefix(size);
    position_ += size;
    return bytes;
  }
  /// Copies the next `size` bytes, which must be left, to `to`.
  void read(void* to, std::size_t size) {
    if (size == 0) return;
    const std::string_view first = take(!file_ || size <= buffer_size ? size : window_.size());
    if (!first.empty()) std::memcpy(to, first.data(), first.size());
    if (first.size() == size) return;
    read_file(static_cast<char*>(to) + first.size(), size - first.size());
    position_ += size - first.size();
  }
  /// A number in its memory representation. Throws a ParseError if the bytes end.
  template <class T>
  T number(const char* name) {
    expect(sizeof(T), name);
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

 private:
  static_assert(std::endian::native == std::endian::little, "files are little-endian; this machine is not");
  static constexpr std::size_t buffer_size = std::size_t{32} << 10;

  Input(OpenedFile opened, std::string path)
      : size_(opened.size), path_(std::move(path)), file_(std::move(opened.file)) {}

  /// Makes the window at least `size` bytes long. Without a file, it already holds everything that is left.
  void fill(std::size_t size) {
    const std::size_t kept = window_.size();
    const std::size_t filled = std::min(left(), std::max(size, buffer_size));
    if (kept > 0) std::memmove(buffer_.data(), window_.data(), kept);
    if (buffer_.size() < filled) buffer_.resize(filled);
    read_file(buffer_.data() + kept, filled - kept);
    window_ = std::string_view(buffer_).substr(0, filled);
  }
  void read_file(char* to, std::size_t size) {
    while (size > 0) {
      const ::ssize_t got = uninterrupted([&] { return ::read(file_.get(), to, size); });
      if (got == 0) fail({"the file became shorter while it was read"});
      if (got < 0) throw_file_error("read", path_);
      to += got;
      size -= static_cast<std::size_t>(got);
    }
  }

  std::string_view window_;  // the upcoming bytes that are in memory
  std::size_t position_ = 0;
  std::size_t size_;
  std::string buffer_;
  std::string path_;
  FileDescriptor file_;  // none when reading memory
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
