// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file taken apart and put together again by the letter of proto/file.proto, and not by the library's reader and
/// writer: what tests look into, and what they make hostile files with.
#pragma once

#include <lod/io/checksum.hpp>
#include <lod/io/file_format.hpp>
#include <lod/proto.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace lod_test {

namespace format = lod::proto::file;

/// A footer with its variables decoded.
struct DecodedFooter {
  std::vector<format::Variable> variables = {};
  std::string unknown_fields = {};
};

/// A number of 64 bits at a byte.
inline std::uint64_t number_at(std::string_view bytes, std::size_t position) {
  std::uint64_t number = 0;
  REQUIRE(position + sizeof(number) <= bytes.size());
  std::memcpy(&number, bytes.data() + position, sizeof(number));
  return number;
}
inline std::string bytes_of_number(std::uint64_t number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

inline const std::string magic = "\x89LOD\r\n\x1a\n";

/// XXH3 in one call, as the library does not use it.
inline std::uint64_t checksum_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

/// The parts of a file.
struct FileParts {
  std::string beginning;  ///< preamble and buffers
  std::string footer;

  explicit FileParts(const std::string& file) {
    const std::size_t size = number_at(file, file.size() - 24);
    footer = file.substr(file.size() - 24 - size, size);
    beginning = file.substr(0, file.size() - 24 - size);
  }
  FileParts(std::string beginning_bytes, std::string footer_bytes)
      : beginning(std::move(beginning_bytes)), footer(std::move(footer_bytes)) {}

  /// The file, whose footer has the right checksum whatever it says.
  std::string file() const {
    const std::string size = bytes_of_number(footer.size());
    return beginning + footer + size + bytes_of_number(checksum_of(beginning.substr(0, 64) + footer + size)) + magic;
  }
  DecodedFooter decoded() const;
  /// The same file with another footer.
  std::string with(const DecodedFooter& other) const;
};

}  // namespace lod_test

template <>
struct lod::proto::Schema<lod_test::DecodedFooter> {
  static constexpr const char* name = "Footer";
  static constexpr std::tuple fields{Field<1, &lod_test::DecodedFooter::variables>{"variables"}};
};

namespace lod_test {

inline DecodedFooter FileParts::decoded() const { return lod::decode<DecodedFooter>(footer); }
inline std::string FileParts::with(const DecodedFooter& other) const {
  return FileParts(beginning, lod::encode(other)).file();
}

}  // namespace lod_test
