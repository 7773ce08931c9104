// SPDX-License-Identifier: Apache-2.0
/// @file
/// The doorway to libzip: archives of named members, read from files and from memory, written to a byte sink.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/buffer.hpp>
#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/io/atomic_file.hpp>
#include <lod/io/system_file.hpp>

#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Why libzip failed, as an exception: std::bad_alloc, std::system_error if the file at `path` could not be read,
/// otherwise a ParseError. Its text begins with `place`, which readers of a file put its path before; that of the
/// system already has the path, and the system's word for the error once.
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_zip_error(zip_error_t* error, const std::string& place,
                                                                   std::size_t position, const std::string& path) {
  const int code = zip_error_code_zip(error), system_code = zip_error_code_system(error);
  const bool is_of_system = zip_error_system_type(error) == ZIP_ET_SYS && system_code != 0;
  const std::string what = text({place, ": ", zip_error_strerror(error)});
  zip_error_fini(error);
  if (code == ZIP_ER_MEMORY) throw std::bad_alloc();
  if (is_of_system) {
    throw std::system_error(system_code, std::generic_category(), readable(text({"read '", path, "': ", place})));
  }
  throw ParseError(what, position);
}

struct CloseZip {
  void operator()(zip_t* archive) const noexcept { zip_discard(archive); }
  void operator()(zip_file_t* member) const noexcept { zip_fclose(member); }
  void operator()(zip_source_t* source) const noexcept { zip_source_free(source); }
};
using Zip = std::unique_ptr<zip_t, CloseZip>;
using ZipSource = std::unique_ptr<zip_source_t, CloseZip>;

/// Opens the archive of a source, which may be null; `error` then says why. Throws as above.
inline Zip open_zip(zip_source_t* created, zip_error_t* error, const std::string& path) {
  ZipSource source(created);
  zip_stat_t status;
  if (source && zip_source_stat(source.get(), &status) == 0 && (status.valid & ZIP_STAT_SIZE) && status.size == 0) {
    throw ParseError("npz: no archive, but nothing", 0);  // which libzip would accept as an empty archive
  }
  Zip archive(source ? zip_open_from_source(source.get(), ZIP_RDONLY, error) : nullptr);
  if (!archive) throw_zip_error(error, "npz", 0, path);
  static_cast<void>(source.release());  // now owned by the archive
  return archive;
}
/// The archive in memory, which must outlive it.
inline Zip open_zip(std::string_view bytes) {
  zip_error_t error;
  zip_error_init(&error);
  return open_zip(zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error), &error, {});
}
/// The archive in a file. Throws std::system_error if it cannot be opened, also for anything but a regular file.
inline Zip open_zip_file(const std::string& path) {
  OpenedFile opened = open_regular_file(path);
  std::FILE* const file = ::fdopen(opened.file.get(), "rb");
  if (!file) throw_file_error("open", path);
  opened.file.release();  // now owned by the stream
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_filep_create(file, 0, -1, &error);
  if (!source) std::fclose(file);
  return open_zip(source, &error, path);
}

/// The bytes of one member as they are unpacked, for readers of .npy. They are counted from 0. The size that the
/// archive states is not trusted.
class ZipMember {
 public:
  /// `name` begins the text of errors, and `path` is that of the archive, if it is in a file; it is an error if the
  /// values exceed `max_bytes`.
  ZipMember(zip_t* archive, zip_uint64_t index, const std::string& name, std::uint64_t max_bytes, std::string path)
      : place_(text({"npz: '", name, "'"})),
        path_(std::move(path)),
        max_bytes_(max_bytes),
        file_(zip_fopen_index(archive, index, 0)) {
    if (!file_) throw_zip_error(zip_get_error(archive), place_, 0, path_);
  }

  [[noreturn, gnu::cold, gnu::noinline]] void fail(std::initializer_list<Piece> words, std::size_t ago = 0) const {
    throw ParseError(text({place_, ": ", text(words)}), position_ - ago);
  }
  /// Reads `size` bytes, for `take`. Throws a ParseError unless there are as many.
  void expect(std::size_t size, const char* name) {
    window_.resize(size);
    const std::size_t found = read(reinterpret_cast<std::byte*>(window_.data()), size);
    if (found < size) fail({name, ": ", size, " bytes expected, ", found, " are left"});
  }
  /// The bytes that were expected last: `size` of them.
  std::string_view take(std::size_t size) {
    LOD_ASSERT(size == window_.size());
    position_ += size;
    return window_;
  }

  /// The last `size` bytes, in a tensor that allocate() makes. Memory is taken as bytes arrive, at most eight times as
  /// much: a few bytes that promise many, or claim to unpack to many, cost nothing.
  template <class Allocate>
  AnyLoDTensor values(std::uint64_t size, const Allocate& allocate) {
    if (size > max_bytes_) fail({size, " bytes of values, expected ", max_bytes_, " at most"});
    Buffer<std::byte> first = read_first(size);
    AnyLoDTensor tensor = allocate();
    const std::span<std::byte> bytes = tensor.mutable_bytes();
    const auto known = static_cast<std::size_t>(first.size());
    if (known > 0) std::memcpy(bytes.data(), first.data(), known);
    first = Buffer<std::byte>();
    const std::size_t found = known + read(bytes.data() + known, bytes.size() - known);
    if (found < size) fail_short(size, found);
    position_ += bytes.size();
    std::byte beyond;
    if (read(&beyond, 1) > 0) fail({"there are bytes after the values"});
    return tensor;
  }

 private:
  /// Reads an eighth of the bytes if they are many, otherwise nothing, before memory is taken for all of them.
  Buffer<std::byte> read_first(std::uint64_t size) {
    constexpr std::uint64_t few = std::uint64_t{1} << 20;
    Buffer<std::byte> first;
    while (size > few && static_cast<std::uint64_t>(first.size()) < size / 8) {
      const auto known = static_cast<std::size_t>(first.size());
      const std::size_t more = std::max(known, static_cast<std::size_t>(few));
      Buffer<std::byte> larger(static_cast<std::int64_t>(known + more), Cpu::default_resource());
      if (known > 0) std::memcpy(larger.data(), first.data(), known);
      const std::size_t found = read(larger.data() + known, more);
      if (found < more) fail_short(size, known + found);
      first = std::move(larger);
    }
    return first;
  }
  [[noreturn]] void fail_short(std::uint64_t size, std::size_t found) {
    position_ += found;
    fail({"the values: ", size, " bytes expected, ", found, " are left"});
  }
  /// Returns fewer bytes only at the end. Throws for bytes that cannot be unpacked, and, at their end, if they do not
  /// match the archive's checksum.
  std::size_t read(std::byte* to, std::size_t size) {
    std::size_t found = 0;
    while (found < size) {
      const zip_int64_t count = zip_fread(file_.get(), to + found, size - found);
      if (count < 0) throw_zip_error(zip_file_get_error(file_.get()), place_, position_, path_);
      if (count == 0) break;
      found += static_cast<std::size_t>(count);
    }
    return found;
  }

  std::string place_;
  std::string path_;
  std::uint64_t max_bytes_;
  std::unique_ptr<zip_file_t, CloseZip> file_;
  std::string window_;
  std::size_t position_ = 0;
};

/// Reads the values for read_npy.
template <class Allocate>
AnyLoDTensor read_npy_values(ZipMember& member, std::uint64_t size, const Allocate& allocate) {
  return member.values(size, allocate);
}

/// The destination of an archive.
class ZipSink {
 public:
  virtual ~ZipSink() = default;
  virtual void append(const void* bytes, std::size_t size) = 0;
  /// Overwrites existing bytes. Called after each member, whose sizes and checksum precede it.
  virtual void overwrite(std::uint64_t offset, const void* bytes, std::size_t size) = 0;
  /// The beginning of errors.
  virtual std::string place() const { return "npz"; }

  /// A new archive, to be written here by zip_close.
  Zip open() {
    zip_error_t error;
    zip_error_init(&error);
    ZipSource source(zip_source_function_create(&ZipSink::callback, this, &error));
    Zip archive(source ? zip_open_from_source(source.get(), ZIP_CREATE | ZIP_TRUNCATE, &error) : nullptr);
    if (!archive) throw_zip_error(&error, place(), 0, {});
    static_cast<void>(source.release());  // now owned by the archive
    return archive;
  }
  /// Rethrows what appending or overwriting threw: exceptions cannot pass through libzip.
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  /// Called by libzip for every request to a source.
  static zip_int64_t callback(void* sink, void* data, zip_uint64_t size, zip_source_cmd_t command) {
    return static_cast<ZipSink*>(sink)->answer(data, size, command);
  }
  zip_int64_t answer(void* data, zip_uint64_t size, zip_source_cmd_t command) noexcept {
    switch (command) {
      case ZIP_SOURCE_SUPPORTS:
        // libzip opens nothing that it could not also read.
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
                                              ZIP_SOURCE_BEGIN_WRITE, ZIP_SOURCE_COMMIT_WRITE,
                                              ZIP_SOURCE_ROLLBACK_WRITE, ZIP_SOURCE_SEEK_WRITE, ZIP_SOURCE_TELL_WRITE,
                                              ZIP_SOURCE_WRITE, ZIP_SOURCE_REMOVE, ZIP_SOURCE_SUPPORTS, -1);
      case ZIP_SOURCE_STAT: {
        auto* const status = static_cast<zip_stat_t*>(data);
        zip_stat_init(status);
        status->valid = ZIP_STAT_SIZE;
        status->size = 0;
        return sizeof(*status);
      }
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_, data, size);
      case ZIP_SOURCE_WRITE:
        return write(data, size);
      case ZIP_SOURCE_TELL_WRITE:
        return static_cast<zip_int64_t>(at_);
      case ZIP_SOURCE_SEEK_WRITE: {
        const zip_int64_t to = zip_source_seek_compute_offset(at_, end_, data, size, &error_);
        if (to < 0) return -1;
        at_ = static_cast<std::uint64_t>(to);
        return 0;
      }
      default:
        return 0;  // nothing to do: neither for reading, nor before and after writing
    }
  }
  zip_int64_t write(const void* bytes, zip_uint64_t size) noexcept {
    try {
      const auto over = static_cast<std::size_t>(std::min<std::uint64_t>(size, end_ - at_));
      if (over > 0) overwrite(at_, bytes, over);
      if (size > over) append(static_cast<const std::byte*>(bytes) + over, static_cast<std::size_t>(size) - over);
    } catch (...) {
      exception_ = std::current_exception();
      zip_error_set(&error_, ZIP_ER_WRITE, 0);
      return -1;
    }
    at_ += size;
    end_ = std::max(end_, at_);
    return static_cast<zip_int64_t>(size);
  }

  zip_error_t error_ = {};
  std::exception_ptr exception_;
  std::uint64_t at_ = 0;
  std::uint64_t end_ = 0;
};

/// An archive as a string.
class ZipString final : public ZipSink {
 public:
  void append(const void* bytes, std::size_t size) override { bytes_.append(static_cast<const char*>(bytes), size); }
  void overwrite(std::uint64_t offset, const void* bytes, std::size_t size) override {
    bytes_.replace(static_cast<std::size_t>(offset), size, static_cast<const char*>(bytes), size);
  }
  std::string take() noexcept { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// An archive as a file, which appears when it is committed.
class ZipFile final : public ZipSink {
 public:
  explicit ZipFile(const std::string& path) : file_(path) {}
  void append(const void* bytes, std::size_t size) override { file_.write(bytes, size); }
  void overwrite(std::uint64_t offset, const void* bytes, std::size_t size) override {
    file_.overwrite(offset, bytes, size);
  }
  std::string place() const override { return text({"'", file_.path(), "': npz"}); }
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
