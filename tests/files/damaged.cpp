// SPDX-License-Identifier: Apache-2.0
// Files that are damaged, and files that are meant to do harm.
#include "files/file_parts.hpp"
#include "support/count_allocations.hpp"
#include "support/grain.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include "support/temporary_folder.hpp"
#include <lod/io/file.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace lod_test;

namespace {

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

/// A small file of all kinds.
struct Sample {
  lod::LoDTensor<std::int16_t> x{lod::LoD::from_lengths({{2, 0, 1}, {1, 2, 0}}), {2}};
  lod::LoDTensor<bool> flags{{5}};
  lod::SelectedRows<float> g{{4, 0, 4}, 10, {2}};
  std::vector<lod::LoDTensor<double>> array{2, lod::LoDTensor<double>(lod::LoD::from_lengths({{1}}), {})};

  Sample() {
    for (std::size_t i = 0; i < x.values().size(); ++i) x.data()[i] = static_cast<std::int16_t>(i + 1);
    flags.data()[3] = true;
  }
  void save(const std::string& path) const {
    lod::save(path, {{"x", x}, {"flags", flags}, {"g", g}, {"array", array}});
  }
};

/// Does all that can be done with a file. Returns whether every value was loaded, each with its checksum.
bool use(const lod::File& file) {
  bool all = true;
  const auto attempt = [&](const auto& call) {
    try {
      call();
    } catch (const lod::ParseError&) {
      all = false;
    }
  };
  for (const std::string& name : file.names()) {
    const lod::VarType::Type kind = file.describe(name).type.type;
    attempt([&] { file.verify(name); });
    if (kind == lod::VarType::SELECTED_ROWS) {
      attempt([&] { file.any_selected_rows(name); });
      attempt([&] { file.load<lod::AnySelectedRows>(name); });
    } else if (kind == lod::VarType::LOD_TENSOR_ARRAY) {
      attempt([&] { file.any_tensor_array(name); });
      attempt([&] { file.load<std::vector<lod::AnyLoDTensor>>(name); });
    } else {
      attempt([&] {
        const lod::AnyLoDTensor x = file.any_tensor(name);
        for (std::int64_t i = 0; i < x.lod().view().size(); ++i) file.any_slice(name, {i});
      });
      attempt([&] { file.any_between(name, 0, 0); });
      attempt([&] { file.load<lod::AnyLoDTensor>(name); });
    }
  }
  return all;
}

/// Opens a file and uses it. Returns whether it is as good as new; throws nothing but what a caller may expect.
bool is_intact(const std::string& path) {
  try {
    return use(lod::File::open(path));
  } catch (const lod::ParseError& error) {
    CHECK(std::string(error.what()).starts_with("'" + path + "': "));
    return false;
  }
}

bool same_values(const std::string& path, const Sample& sample) {
  const lod::File file = lod::File::open(path);
  const auto array = file.load<std::vector<lod::LoDTensor<double>>>("array");
  return same_bits(file.load<lod::LoDTensor<std::int16_t>>("x"), sample.x) &&
         same_bits(file.load<lod::LoDTensor<bool>>("flags"), sample.flags) &&
         same_bits(file.load<lod::SelectedRows<float>>("g").value(), sample.g.value()) && array.size() == 2 &&
         same_bits(array[0], sample.array[0]) && same_bits(array[1], sample.array[1]);
}

}  // namespace

TEST_CASE("File: of a file that was cut off anywhere, or has more at its end, says so") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  Sample().save(path);
  const std::string intact = read_bytes(path);
  REQUIRE(is_intact(path));
  for (std::size_t size = 0; size < intact.size(); ++size) {
    CAPTURE(size);
    write_bytes(path, intact.substr(0, size));
    CHECK_THROWS_AS(lod::File::open(path), lod::ParseError);
  }
  for (const std::string& end : {std::string(1, '\0'), std::string("\n"), intact.substr(0, 64)}) {
    write_bytes(path, intact + end);
    const bool is_refused = !is_intact(path);
    CHECK(is_refused);
  }
  write_bytes(path, intact.substr(64));
  CHECK_THROWS_AS(lod::File::open(path), lod::ParseError);
}

TEST_CASE("File: a bit that flipped, whichever, is found, or is one that says nothing") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  const Sample sample;
  sample.save(path);
  const std::string intact = read_bytes(path);
  const DecodedFooter footer = FileParts(intact).decoded();
  std::vector<bool> is_padding(FileParts(intact).beginning.size(), true);
  for (std::size_t i = 0; i < 64; ++i) is_padding[i] = false;
  for (const format::Variable& variable : footer.variables) {
    lod::detail::for_each_buffer(variable, [&](const format::Buffer& buffer, const auto&) {
      for (std::size_t i = 0; i < buffer.size; ++i) is_padding[buffer.begin + i] = false;
    });
  }
  for (std::size_t i = 0; i < intact.size() * 8; i += slow ? 7 : 1) {
    CAPTURE(i);
    std::string damaged = intact;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ 1 << i % 8);
    write_bytes(path, damaged);
    const bool says_nothing = i / 8 < is_padding.size() && is_padding[i / 8];
    REQUIRE(is_intact(path) == says_nothing);
    if (says_nothing) REQUIRE(same_values(path, sample));
  }
}

TEST_CASE("File: what verify and load find is named by file, variable, buffer and byte") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  Sample().save(path);
  const std::string intact = read_bytes(path);
  const DecodedFooter footer = FileParts(intact).decoded();
  for (const format::Variable& variable : footer.variables) {
    lod::detail::for_each_buffer(variable, [&](const format::Buffer& buffer, const auto& which) {
      std::string damaged = intact;
      damaged[buffer.begin] = static_cast<char>(damaged[buffer.begin] ^ 1);
      write_bytes(path, damaged);
      const lod::File file = lod::File::open(path);
      const std::string& name = variable.description.name;
      try {
        file.verify();
        FAIL_CHECK("nothing was thrown");
      } catch (const lod::ParseError& error) {
        CHECK(error.position() == buffer.begin);
        const std::string start = "'" + path + "': variable '" + name + "': " + which.text() + ": the checksum is ";
        CHECK(std::string(error.what()).starts_with(start));
      }
      CHECK_THROWS_AS(file.verify(name), lod::ParseError);
      for (const std::string& other : file.names()) {
        if (other != name) CHECK_NOTHROW(file.verify(other));
      }
    });
  }
}

TEST_CASE("File: other files, other versions and damaged ends are told apart") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  Sample().save(path);
  const std::string intact = read_bytes(path);
  const auto refused = [&](const std::string& file, const std::string& text) {
    write_bytes(path, file);
    CHECK_THROWS_WITH_AS(lod::File::open(path), ("'" + path + "': " + text).c_str(), lod::ParseError);
  };
  refused("", "0 bytes, expected 88 at least (at byte 0)");
  refused("PK\3\4" + intact.substr(4), "not a file of this format: it begins with other bytes (at byte 0)");
  std::string changed = intact;
  changed[8] = 2;
  refused(changed, "version 2 of the format, expected 1 (at byte 8)");
  refused(intact + "?",
          "the end is missing, or something follows it (at byte " + std::to_string(intact.size() - 7) + ")");
  changed = intact;
  changed.replace(intact.size() - 24, 8, bytes_of_number(intact.size() - 87));
  refused(changed, "a footer of " + std::to_string(intact.size() - 87) + " bytes, expected " +
                       std::to_string(intact.size() - 88) + " at most (at byte " + std::to_string(intact.size() - 24) +
                       ")");
  const FileParts parts(intact);
  refused(FileParts(parts.beginning, "\x0a\x7f").file(),
          "footer: Footer.variables: 127 bytes expected, 0 are left (at byte " +
              std::to_string(parts.beginning.size() + 1) + ")");
  const std::size_t second = lod::encode(parts.decoded().variables[0]).size() + 4;
  DecodedFooter footer = parts.decoded();
  footer.variables[1].tensors[0].dims = {4};
  refused(parts.with(footer), "variable 'flags': tensors[0]: dim 0: expected 5, found 4 (at byte " +
                                  std::to_string(parts.beginning.size() + second) + ")");
}

TEST_CASE("File: a footer that contradicts itself or the file is refused, before anything is taken for true") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  Sample().save(path);
  const FileParts parts(read_bytes(path));
  using Change = std::function<void(DecodedFooter&)>;
  const auto refused = [&](const char* text, const Change& change) {
    DecodedFooter footer = parts.decoded();
    change(footer);
    write_bytes(path, parts.with(footer));
    const std::int64_t before = allocated_bytes;
    CHECK_THROWS_WITH_AS(lod::File::open(path), doctest::Contains(text), lod::ParseError);
    CHECK(allocated_bytes - before < 100000);
  };
  const auto x = [](DecodedFooter& f) -> format::Variable& { return f.variables[0]; };
  const auto g = [](DecodedFooter& f) -> format::Variable& { return f.variables[2]; };
  const auto array = [](DecodedFooter& f) -> format::Variable& { return f.variables[3]; };

  // Where buffers are.
  refused("'x': tensors[0].values: begins at byte 193", [&](auto& f) { x(f).tensors[0].values.begin = 193; });
  refused("'x': tensors[0].offsets[0]: begins at byte 0", [&](auto& f) { x(f).tensors[0].offsets[0].begin = 0; });
  refused("'x': tensors[0].offsets[1]: begins at byte 64", [&](auto& f) { x(f).tensors[0].offsets[1].begin = 64; });
  refused("'flags': tensors[0].values: begins at byte 192, expected a multiple of 64 from 204 on",
          [&](auto& f) { f.variables[1].tensors[0].values.begin = x(f).tensors[0].values.begin; });
  refused("but the footer begins at byte", [&](auto& f) { array(f).tensors[1].values.begin = 1 << 20; });
  refused("but the footer begins at byte", [&](auto& f) { array(f).tensors[1].values.begin = ~std::uint64_t{63}; });
  refused("'g': tensors[0].values: begins at byte",
          [&](auto& f) { std::swap(g(f).row_ids->begin, g(f).tensors[0].values.begin); });

  // How large they are.
  refused("values: 13 bytes, expected 12", [&](auto& f) { x(f).tensors[0].values.size = 13; });
  refused("offsets[0]: 0 bytes", [&](auto& f) { x(f).tensors[0].offsets[0].size = 0; });
  refused("offsets[0]: 31 bytes", [&](auto& f) { x(f).tensors[0].offsets[0].size = 31; });
  refused("but the footer begins at byte", [&](auto& f) { x(f).tensors[0].offsets[0].size = ~std::uint64_t{7}; });
  refused("row_ids: 16 bytes, expected 8 for each of 3 rows", [&](auto& f) { g(f).row_ids->size = 16; });
  refused("'x': tensors[0]: offsets: 65 levels, expected 64 at most",
          [&](auto& f) { x(f).tensors[0].offsets.resize(65, x(f).tensors[0].offsets[0]); });

  // Shapes.
  const auto shape = [&](const char* text, const std::vector<std::int64_t>& dims) {
    refused(text, [&](auto& f) {
      x(f).description.type.lod_tensor->tensor.dims = dims;
      x(f).tensors[0].dims = dims;
    });
  };
  shape("dims: none", {});
  shape("dimension 0 is -3", {-3, 2});
  shape("dimension 1 is -1", {3, -1});
  shape("exceeds 64 bits", {huge, 2});
  shape("exceeds 64 bits", {1 << 30, 1 << 30, 1 << 30});
  shape("more than memory can hold", {huge, 1});
  shape("values: 12 bytes, expected 0", {huge, 0});
  shape("more than 8 dimensions", {1, 1, 1, 1, 1, 1, 1, 1, 6});
  shape("values: 12 bytes, expected 16", {4, 2});
  refused("rank: expected 1, found 2", [&](auto& f) { x(f).description.type.lod_tensor->tensor.dims = {3}; });
  refused("rank: expected 0, found 1", [&](auto& f) {  // not taken for a scalar
    x(f).description.type.lod_tensor->tensor.dims = {};
    x(f).tensors[0].dims = {1};
  });
  refused("lod_level: expected 1, found 2", [&](auto& f) { x(f).description.type.lod_tensor->lod_level = 1; });
  refused("values: 12 bytes, expected 24 for the shape {3, 2} of FP32",
          [&](auto& f) { x(f).description.type.lod_tensor->tensor.data_type = lod::DataType::FP32; });

  // Descriptions that leave open what the tensor says.
  refused("'x': lod_level -1, expected 0 or more", [&](auto& f) { x(f).description.type.lod_tensor->lod_level = -1; });
  refused("'x': dim 0 is -1, expected 0 or more",
          [&](auto& f) { x(f).description.type.lod_tensor->tensor.dims[0] = -1; });
  refused("'g': dim 1 is -1, expected 0 or more", [&](auto& f) { g(f).description.type.selected_rows->dims[1] = -1; });

  // Kinds.
  refused("type RAW, without a description of tensors",
          [&](auto& f) { x(f).description.type.type = lod::VarType::RAW; });
  refused("type LOD_TENSOR, without a description", [&](auto& f) { x(f).description.type.lod_tensor.reset(); });
  refused("2 tensors, expected 1", [&](auto& f) { x(f).tensors.push_back(f.variables[1].tensors[0]); });
  refused("0 tensors, expected 1", [&](auto& f) { x(f).tensors.clear(); });
  refused("row_ids: expected none for LOD_TENSOR", [&](auto& f) { x(f).row_ids.emplace(); });
  refused("row_ids: missing", [&](auto& f) { g(f).row_ids.reset(); });
  refused("height -1", [&](auto& f) { g(f).description.type.selected_rows->dims[0] = -1; });
  refused("lod_level: expected 0, found 1", [&](auto& f) {
    g(f).tensors[0].offsets = x(f).tensors[0].offsets;
    g(f).tensors[0].offsets.pop_back();
  });
  refused("tensors[1]: lod_level: expected 1, found 0", [&](auto& f) { array(f).tensors[1].offsets.clear(); });
  refused("tensors[1]: dim 0: expected 1, found 2", [&](auto& f) { array(f).tensors[1].dims[0] = 2; });

  // Names.
  refused("variable 'x': there is another one of this name", [&](auto& f) { f.variables[2].description.name = "x"; });
}

TEST_CASE("File: offsets, ids and bools that are none are refused when a tensor is made, by their byte") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  Sample().save(path);
  const std::string intact = read_bytes(path);
  const DecodedFooter footer = FileParts(intact).decoded();
  const auto refused = [&](std::size_t position, const std::string& bytes, const char* text, const auto& read) {
    std::string file = intact;
    file.replace(position, bytes.size(), bytes);
    write_bytes(path, file);
    try {
      read(lod::File::open(path));
      FAIL_CHECK("nothing was thrown, expected ", text);
    } catch (const lod::ParseError& error) {
      CHECK_MESSAGE(std::string(error.what()).find(text) != std::string::npos, error.what());
      CHECK(error.position() == position);
    }
  };
  const auto number = [](std::int64_t value) { return bytes_of_number(static_cast<std::uint64_t>(value)); };
  const auto& levels = footer.variables[0].tensors[0].offsets;  // {0, 2, 2, 3}, {0, 1, 3, 3}
  const auto read_x = [](const lod::File& f) { f.tensor<std::int16_t>("x"); };
  refused(levels[0].begin, number(1), "'x': tensors[0]: LoD: level 0, position 0: the first offset is 1", read_x);
  refused(levels[0].begin + 8, number(huge), "'x': tensors[0]: LoD: level 0, position 2", [&](const lod::File& f) {
    try {
      read_x(f);
    } catch (const lod::ParseError& error) {
      // The one after it is the first that descends.
      CHECK(error.position() == levels[0].begin + 16);
      throw lod::ParseError("'x': tensors[0]: LoD: level 0, position 2", error.position() - 8);
    }
  });
  refused(levels[0].begin + 24, number(4), "level 0 covers 4 sequences of the next level, but level 1 has 3", read_x);
  refused(levels[1].begin + 24, number(4), "the LoD is for 4 rows, but there are 3", read_x);
  refused(levels[1].begin + 16, number(-1), "level 1, position 2: offset -1 follows 1", read_x);

  const format::Buffer& ids = *footer.variables[2].row_ids;
  const auto read_g = [](const lod::File& f) { f.selected_rows<float>("g"); };
  refused(ids.begin + 8, number(10), "'g': row_ids: id 10 at position 1, expected 0 to 9", read_g);
  refused(ids.begin + 16, number(-1), "'g': row_ids: id -1 at position 2, expected 0 to 9", read_g);

  const std::size_t flags = footer.variables[1].tensors[0].values.begin;
  refused(flags + 4, "\x02", "'flags': tensors[0].values: 2 is no bool, expected 0 or 1",
          [](const lod::File& f) { f.tensor<bool>("flags"); });
  refused(flags + 4, "\xff", "'flags': tensors[0].values: 255 is no bool, expected 0 or 1", [](const lod::File& f) {
    f.between<bool>("flags", 0, 4);  // the slice does not reach there
    f.between<bool>("flags", 4, 5);
  });
  // The same where the checksums are right: a file that was written so.
  DecodedFooter meant = footer;
  std::string beginning = FileParts(intact).beginning;
  beginning[flags] = 2;
  format::Buffer& values = meant.variables[1].tensors[0].values;
  values.checksum = checksum_of(beginning.substr(values.begin, values.size));
  write_bytes(path, FileParts(beginning, lod::encode(meant)).file());
  const lod::File file = lod::File::open(path);
  file.verify();
  CHECK_THROWS_WITH_AS(file.load<lod::LoDTensor<bool>>("flags"), doctest::Contains("2 is no bool"), lod::ParseError);
}

TEST_CASE("File: any footer, with the right checksum, is refused or used, and takes little memory") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  Sample().save(path);
  const FileParts parts(read_bytes(path));
  std::size_t refused = 0, used = 0;
  const auto attempt = [&](const std::string& footer) {
    const std::string file = FileParts(parts.beginning, footer).file();
    write_bytes(path, file);
    const std::int64_t before = allocated_bytes;
    bool is_open = true;
    try {
      lod::File::open(path);
    } catch (const lod::ParseError&) {
      is_open = false;
    }
    REQUIRE(allocated_bytes - before < 100 * static_cast<std::int64_t>(file.size()));
    if (is_open) is_intact(path);
    ++(is_open ? used : refused);
  };
  for (std::size_t bit = 0; bit < parts.footer.size() * 8; bit += slow ? 7 : 1) {
    std::string footer = parts.footer;
    footer[bit / 8] = static_cast<char>(footer[bit / 8] ^ 1 << bit % 8);
    attempt(footer);
  }
  for (std::size_t size = 0; size < parts.footer.size(); ++size) attempt(parts.footer.substr(0, size));
  INFO("LOD_TEST_SEED=", first_seed());
  Engine engine(first_seed());
  const std::size_t count = slow ? 600 : 3000;
  for (std::size_t i = 0; i < count; ++i) {
    std::string footer = parts.footer;
    for (std::int64_t changes = random_number(engine, 1, 3); changes > 0; --changes) {
      const auto at = static_cast<std::size_t>(engine() % footer.size());
      constexpr unsigned char notable[] = {0, 1, 0x7f, 0x80, 0xff, 0x3f, 0x40, 0x08};
      footer[at] = static_cast<char>(notable[engine() % 8]);
    }
    attempt(footer);
  }
  CHECK(refused > count);
  CHECK(used > count / 30);
}

TEST_CASE("File: a footer of very many variables that are none takes little memory") {
  const TemporaryFolder folder;
  Sample().save(folder / "x");
  const std::string beginning = FileParts(read_bytes(folder / "x")).beginning;
  for (const std::string& record :
       {std::string("\x0a\0", 2), std::string("\x0a\2\x0a\0", 4), std::string("\x50\0", 2)}) {
    std::string footer;
    while (footer.size() < 1000000) footer += record;
    write_bytes(folder / "x", FileParts(beginning, footer).file());
    const std::int64_t before = allocated_bytes;
    try {
      lod::File::open(folder / "x");
      CHECK(record[0] == '\x50');  // fields without a name here, which may be there
    } catch (const lod::ParseError&) {
    }
    CHECK(allocated_bytes - before < 20 * static_cast<std::int64_t>(footer.size()));
  }
}
