// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// The contents of an open file of the library's format and their places: the footer, checked.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/target.hpp>
#include <lod/io/checksum.hpp>
#include <lod/io/file_format.hpp>
#include <lod/io/mapped_file.hpp>
#include <lod/io/proto/desc.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// The contents of a file's footer: its variables by name, checked.
///
/// Everything is checked on construction, before anything larger than the footer is allocated: where each buffer is,
/// that its size fits the shape, that it is aligned and overlaps no other. The contents of the buffers are not checked.
/// Writers construct one too, before their file replaces another.
class FileContents {
 public:
  /// The footer begins at byte `begin` of the file. Throws ParseError.
  FileContents(std::string path, std::string footer, std::size_t begin)
      : path_(std::move(path)), footer_(std::move(footer)), begin_(begin) {
    list_variables();
  }
  FileContents(const FileContents&) = delete;
  FileContents& operator=(const FileContents&) = delete;

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    all.reserve(entries_.size());
    for (const Entry& entry : entries_) all.push_back(entry.name);
    return all;
  }
  bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }
  /// Throws OutOfRange.
  proto::file::Variable variable(std::string_view name) const;

  /// "'<path>': variable '<name>'", the beginning of all errors.
  std::string place(std::string_view variable) const {
    return text({"'", path_, "': variable '", std::string(variable), "'"});
  }
  /// Throws a ParseError about a variable.
  [[noreturn, gnu::cold, gnu::noinline]] void fail(std::string_view variable, std::initializer_list<Piece> what,
                                                   std::size_t position) const {
    throw ParseError(text({place(variable), ": ", text(what)}), position);
  }

 private:
  struct Entry {
    std::string name;
    std::string_view record;  // the encoded proto::file::Variable, a part of the footer
  };

  /// The position in the file at which a part of the footer begins.
  std::size_t position_of(std::string_view part) const noexcept {
    return begin_ + static_cast<std::size_t>(part.data() - footer_.data());
  }
  void list_variables();
  const Entry* find(std::string_view name) const noexcept;
  template <class M>
  M decode(std::string_view bytes, std::initializer_list<Piece> what) const {
    try {
      return lod::decode<M>(bytes);
    } catch (const ParseError& error) {
      throw error.inside(text({"'", path_, "': ", text(what)}), position_of(bytes));
    }
  }
  std::uint64_t check(const proto::file::Variable& variable, std::string_view record, std::uint64_t end) const;

  std::string path_;
  std::string footer_;
  std::size_t begin_;                   // of the footer, where the buffers end
  std::vector<Entry> entries_;          // as in the file
  std::vector<std::uint32_t> by_name_;  // their indices, ordered by name
};

/// An open file and its variables, kept alive by tensors on the mapping. The footer is copied, so that it stays true of
/// the mapping whatever happens to the file.
class FileIndex final : public Shared {
 public:
  /// Throws std::system_error, ParseError.
  static Reference<const FileIndex> open(std::string path) {
    return Reference<const FileIndex>::adopt(new FileIndex(std::move(path)));
  }
  static void destroy(const Shared* shared) noexcept { delete static_cast<const FileIndex*>(shared); }

  const FileContents& contents() const noexcept { return contents_; }

  /// A buffer in place.
  std::span<const std::byte> bytes(const proto::file::Buffer& buffer) const noexcept {
    return file_.bytes().subspan(buffer.begin, buffer.size);
  }
  /// Reads a buffer in parts; the part from byte `done` on goes to the memory `to(done)`. Throws ParseError if the
  /// checksum differs.
  template <class To>
  void read(const std::string& variable, const proto::file::Buffer& buffer, const BufferName& name,
            const To& to) const {
    Checksum checksum;
    for (std::size_t done = 0; done < buffer.size; done += file_chunk) {
      const std::size_t size = std::min<std::size_t>(buffer.size - done, file_chunk);
      std::byte* const part = to(done);
      file_.read(buffer.begin + done, part, size);
      checksum.add(part, size);
    }
    if (checksum.value() != buffer.checksum) {
      contents_.fail(variable, {name.text(), ": the checksum is ", checksum.value(), ", expected ", buffer.checksum},
                     buffer.begin);
    }
  }

 private:
  explicit FileIndex(std::string path)
      : Shared(&FileIndex::destroy), file_(std::move(path)), contents_(read_contents()) {}

  [[noreturn, gnu::cold, gnu::noinline]] void fail_file(std::initializer_list<Piece> what, std::size_t position) const {
    throw ParseError(text({"'", file_.path(), "': ", text(what)}), position);
  }
  FileContents read_contents() const;

  MappedFile file_;
  FileContents contents_;
};

/// Copies the footer if preamble, trailer and checksum are correct.
inline FileContents FileIndex::read_contents() const {
  const std::size_t size = file_.bytes().size();
  constexpr std::size_t least = sizeof(FilePreamble) + sizeof(FileTrailer);
  if (size < least) fail_file({size, " bytes, expected ", least, " at least"}, size);

  const FilePreamble expected;
  FilePreamble preamble;
  file_.read(0, &preamble, sizeof(preamble));
  if (std::memcmp(preamble.magic, expected.magic, sizeof(preamble.magic)) != 0) {
    fail_file({"not a file of this format: it begins with other bytes"}, 0);
  }
  if (preamble.version != expected.version) {
    fail_file({"version ", preamble.version, " of the format, expected ", expected.version}, sizeof(preamble.magic));
  }
  FileTrailer trailer;
  const std::size_t trailer_begin = size - sizeof(trailer);
  file_.read(trailer_begin, &trailer, sizeof(trailer));
  if (std::memcmp(trailer.magic, expected.magic, sizeof(trailer.magic)) != 0) {
    fail_file({"the end is missing, or something follows it"}, size - sizeof(trailer.magic));
  }
  const std::size_t most = std::min(size - least, proto::detail::max_size);
  if (trailer.footer_size > most) {
    fail_file({"a footer of ", trailer.footer_size, " bytes, expected ", most, " at most"}, trailer_begin);
  }
  const std::size_t begin = trailer_begin - trailer.footer_size;
  std::string footer(trailer.footer_size, '\0');
  file_.read(begin, footer.data(), footer.size());
  const std::uint64_t checksum = footer_checksum(preamble, footer);
  if (checksum != trailer.checksum) {
    fail_file({"the checksum of the footer is ", checksum, ", expected ", trailer.checksum}, begin);
  }
  return FileContents(file_.path(), std::move(footer), begin);
}

inline void FileContents::list_variables() {
  const auto contents = decode<proto::file::Footer>(footer_, {"footer"});
  std::uint64_t end = sizeof(FilePreamble);
  for (const std::string_view record : contents.variables) {
    auto variable = decode<proto::file::Variable>(record, {"footer.variables[", entries_.size(), "]"});
    end = check(variable, record, end);
    entries_.push_back({std::move(variable.description.name), record});
  }

  by_name_.resize(entries_.size());
  for (std::size_t i = 0; i < by_name_.size(); ++i) by_name_[i] = static_cast<std::uint32_t>(i);
  std::sort(by_name_.begin(), by_name_.end(), [&](auto a, auto b) { return entries_[a].name < entries_[b].name; });
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const Entry& entry = entries_[by_name_[i]];
    if (entry.name == entries_[by_name_[i - 1]].name)
      fail(entry.name, {"there is another one of this name"}, position_of(entry.record));
  }
}

/// Checks what the footer says of a variable whose buffers begin at byte `end` or later. Returns where they end.
inline std::uint64_t FileContents::check(const proto::file::Variable& variable, std::string_view record,
                                         std::uint64_t end) const {
  const std::string& name = variable.description.name;
  const std::string wrong = inconsistency(variable);
  if (!wrong.empty()) fail(name, {wrong}, position_of(record));
  for_each_buffer(variable, [&](const proto::file::Buffer& buffer, const BufferName& which) {
    if (buffer.begin % file_alignment != 0 || buffer.begin < end) {
      fail(name,
           {which.text(), ": begins at byte ", buffer.begin, ", expected a multiple of ", file_alignment, " from ", end,
            " on"},
           position_of(record));
    }
    if (buffer.begin > begin_ || buffer.size > begin_ - buffer.begin) {
      fail(name,
           {which.text(), ": ", buffer.size, " bytes from byte ", buffer.begin, " on, but the footer begins at byte ",
            begin_},
           position_of(record));
    }
    end = buffer.begin + buffer.size;
  });
  return end;
}

inline const FileContents::Entry* FileContents::find(std::string_view name) const noexcept {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](std::uint32_t i, std::string_view wanted) { return entries_[i].name < wanted; });
  if (found == by_name_.end() || entries_[*found].name != name) return nullptr;
  return &entries_[*found];
}

inline proto::file::Variable FileContents::variable(std::string_view name) const {
  if (const Entry* entry = find(name)) return lod::decode<proto::file::Variable>(entry->record);
  constexpr std::size_t plenty = 10;
  std::string there;
  for (std::size_t i = 0; i < entries_.size() && i < plenty; ++i) {
    there += text({i > 0 ? ", '" : "'", entries_[i].name, "'"});
  }
  if (entries_.size() > plenty) there += text({" and ", entries_.size() - plenty, " more"});
  throw OutOfRange(text({place(name), " is not there; ", entries_.empty() ? "there is none" : "there are ", there}));
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
