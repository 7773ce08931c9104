// SPDX-License-Identifier: Apache-2.0
// What is in a file, byte by byte: a reader written from proto/file.proto alone.
#include "files/file_parts.hpp"
#include "support/temporary_folder.hpp"
#include <lod/io/file.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

using namespace lod_test;

namespace {

template <class T>
std::vector<T> numbers_in(const std::string& file, const format::Buffer& buffer) {
  REQUIRE(buffer.begin % 64 == 0);
  REQUIRE(buffer.begin + buffer.size <= file.size());
  REQUIRE(buffer.size % sizeof(T) == 0);
  std::vector<T> numbers(buffer.size / sizeof(T));
  if (!numbers.empty()) std::memcpy(numbers.data(), file.data() + buffer.begin, buffer.size);
  CHECK(checksum_of(file.substr(buffer.begin, buffer.size)) == buffer.checksum);
  return numbers;
}

}  // namespace

TEST_CASE("Checksum: that of the published XXH3, in one piece and in many") {
  CHECK(lod::detail::Checksum().value() == 0x2d06800538d394c2);  // of no bytes
  std::string bytes;
  for (int i = 0; i < 3000; ++i) bytes += static_cast<char>(i * 37);
  for (const std::size_t size : {0u, 1u, 3u, 8u, 16u, 17u, 128u, 129u, 240u, 241u, 1024u, 3000u}) {
    for (const std::size_t step : {1u, 7u, 64u, 1000u, 3000u}) {
      lod::detail::Checksum checksum;
      for (std::size_t done = 0; done < size; done += step) {
        checksum.add(bytes.data() + done, std::min(step, size - done));
      }
      CHECK(checksum.value() == checksum_of(bytes.substr(0, size)));
    }
  }
}

TEST_CASE("FileWriter: the bytes are those of the layout") {
  const TemporaryFolder folder;
  const auto words = lod::LoDTensor<std::int16_t>::from_nested(
      std::vector<std::vector<std::vector<std::int16_t>>>{{{1, 2}, {}}, {}, {{3}}});
  const lod::SelectedRows<double> rows({4, 0, 4}, 10, {2});
  lod::save(folder / "x", {{"words", words}, {"rows", rows}});

  const std::string file = read_bytes(folder / "x");
  CHECK(file.substr(0, 12) == magic + std::string("\1\0\0\0", 4));
  CHECK(file.substr(12, 52) == std::string(52, '\0'));
  CHECK(file.substr(file.size() - 8) == magic);
  const std::uint64_t size = number_at(file, file.size() - 24);
  const std::size_t footer_begin = file.size() - 24 - size;
  CHECK(footer_begin % 64 == 0);
  CHECK(number_at(file, file.size() - 16) ==
        checksum_of(file.substr(0, 64) + file.substr(footer_begin, size) + file.substr(file.size() - 24, 8)));

  const DecodedFooter footer = FileParts(file).decoded();
  REQUIRE(footer.variables.size() == 2);
  const format::Variable& first = footer.variables[0];
  CHECK(first.description == lod::describe("words", words));
  CHECK(!first.row_ids);
  REQUIRE(first.tensors.size() == 1);
  CHECK(first.tensors[0].dims == std::vector<std::int64_t>{3});
  REQUIRE(first.tensors[0].offsets.size() == 2);
  CHECK(numbers_in<std::int64_t>(file, first.tensors[0].offsets[0]) == std::vector<std::int64_t>{0, 2, 2, 3});
  CHECK(numbers_in<std::int64_t>(file, first.tensors[0].offsets[1]) == std::vector<std::int64_t>{0, 2, 2, 3});
  CHECK(numbers_in<std::int16_t>(file, first.tensors[0].values) == std::vector<std::int16_t>{1, 2, 3});
  const format::Variable& second = footer.variables[1];
  CHECK(second.description == lod::describe("rows", rows));
  REQUIRE(second.tensors.size() == 1);
  CHECK(second.tensors[0].dims == std::vector<std::int64_t>{3, 2});
  CHECK(second.tensors[0].offsets.empty());
  REQUIRE(second.row_ids);
  CHECK(numbers_in<std::int64_t>(file, *second.row_ids) == std::vector<std::int64_t>{4, 0, 4});
  CHECK(numbers_in<double>(file, second.tensors[0].values) == std::vector<double>(6, 0));

  // Nothing is lost between the buffers, and what is there is zero.
  CHECK(first.tensors[0].offsets[0].begin == 64);
  CHECK(first.tensors[0].offsets[1].begin == 128);
  CHECK(first.tensors[0].values.begin == 192);
  CHECK(second.row_ids->begin == 256);
  CHECK(second.tensors[0].values.begin == 320);
  CHECK(footer_begin == 384);
  CHECK(file.substr(192 + 6, 64 - 6) == std::string(64 - 6, '\0'));
}

TEST_CASE("File: the test's own writer makes the same file, and files of later writers are read") {
  const TemporaryFolder folder;
  const lod::LoDTensor<float> x({2, 3});
  lod::save(folder / "x", {{"x", x}});
  const FileParts parts(read_bytes(folder / "x"));
  CHECK(parts.file() == read_bytes(folder / "x"));
  CHECK(parts.with(parts.decoded()) == parts.file());

  // A later writer may leave room, and say more.
  DecodedFooter footer = parts.decoded();
  footer.unknown_fields = "\x50\x01";
  footer.variables[0].unknown_fields = "\x52\x01y";
  footer.variables[0].description.unknown_fields = "\xa8\x06\x01";
  footer.variables[0].tensors[0].unknown_fields = "\x50\x02";
  footer.variables[0].tensors[0].values.begin += 4096;
  footer.variables[0].tensors[0].values.unknown_fields = "\x50\x03";
  const std::string room(4096, '?');
  std::string beginning = parts.beginning;
  beginning.insert(64, room);
  write_bytes(folder / "y", FileParts(beginning, lod::encode(footer)).file());
  const lod::File file = lod::File::open(folder / "y");
  file.verify();
  CHECK(file.tensor<float>("x").shape() == x.shape());
  CHECK(file.describe("x").unknown_fields == footer.variables[0].description.unknown_fields);
}
