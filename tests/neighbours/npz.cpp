// SPDX-License-Identifier: Apache-2.0
// Archives of arrays: those that NumPy wrote (tests/data/numpy), the library's own, and such as nobody should open.
#include "neighbours/damaged.hpp"
#include "neighbours/numpy_files.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include "support/temporary_folder.hpp"
#include <lod/any_tensor.hpp>
#include <lod/io/npy.hpp>
#include <lod/io/npz.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/selected_rows.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::AnySelectedRows;
using lod::DataType;
using lod::LoD;
using lod::LoDTensor;
using lod::NpzCompression;
using lod::NpzFile;
using lod::NpzValue;
using lod::ParseError;
using lod::SelectedRows;
using lod::Shape;
using lod::VarDesc;
using lod_test::Engine;
using lod_test::same_bits;
using Names = std::vector<std::string>;

namespace {

struct Member {
  std::string name;
  std::string bytes;
};
/// A ZIP archive of these members, whatever they are.
std::string archive_of(const std::vector<Member>& members, zip_int32_t method = ZIP_CM_STORE) {
  lod::detail::ZipString sink;
  auto archive = sink.open();
  for (const Member& member : members) {
    zip_source_t* const source = zip_source_buffer(archive.get(), member.bytes.data(), member.bytes.size(), 0);
    const zip_int64_t index = zip_file_add(archive.get(), member.name.c_str(), source, ZIP_FL_ENC_UTF_8);
    REQUIRE(index >= 0);
    REQUIRE(zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), method, 0) == 0);
  }
  REQUIRE(zip_close(archive.get()) == 0);
  archive.release();
  return sink.take();
}
template <class T>
Member array(const std::string& name, const std::vector<T>& values) {
  return {name + ".npy", lod::encode_npy(LoDTensor<T>::from_values(LoD(), {}, values))};
}
/// The header of an array of doubles that has this shape.
std::string header(const Shape& shape) { return lod::detail::npy_header(DataType::FP64, shape); }

LoDTensor<float> words() {
  LoDTensor<float> x(LoD::from_offsets({{0, 2, 2, 3}, {0, 2, 3, 5}}), {2});
  for (std::size_t i = 0; i < 10; ++i) x.values()[i] = static_cast<float>(i);
  return x;
}
SelectedRows<double> gradient() {
  SelectedRows<double> g({4, 0, 4}, 10, {2});
  for (std::size_t i = 0; i < 6; ++i) g.value().values()[i] = static_cast<double>(i + 1);
  return g;
}

template <class T>
bool same(const SelectedRows<T>& a, const SelectedRows<T>& b) {
  return a.rows() == b.rows() && a.height() == b.height() && same_bits(a.value(), b.value());
}

/// Reads all there is.
void read_archive(std::string_view bytes) {
  const auto file = NpzFile::decode(bytes);
  for (const std::string& name : file.other_members()) CHECK_THROWS_AS(file.load<AnyLoDTensor>(name), ParseError);
  for (const std::string& name : file.names()) {
    const VarDesc description = file.describe(name);
    if (description.type.type == lod::VarType::SELECTED_ROWS) {
      file.load<AnySelectedRows>(name);
    } else {
      file.load<AnyLoDTensor>(name);
    }
  }
}
void check_refused(const std::string& bytes, const char* text) {
  CHECK_THROWS_WITH_AS(read_archive(bytes), doctest::Contains(text), ParseError);
}

}  // namespace

TEST_CASE("NpzFile: what NumPy wrote, stored and compressed") {
  for (const char* name : {"batch.npz", "batch_compressed.npz"}) {
    CAPTURE(name);
    const auto file = NpzFile::open(lod_test::numpy_data + name);
    CHECK(file.names() == Names{"g", "labels", "words"});
    CHECK(file.contains("words"));
    CHECK(!file.contains("words.lod0"));
    CHECK(same_bits(file.load<LoDTensor<float>>("words"), words()));
    CHECK(same_bits(file.load<LoDTensor<bool>>("labels"),
                    LoDTensor<bool>::from_nested(std::vector<bool>{true, false, true})));
    CHECK(same(file.load<SelectedRows<double>>("g"), gradient()));
    CHECK(same_bits(file.load<AnyLoDTensor>("words").view<float>(), words()));
    CHECK(same(file.load<AnySelectedRows>("g").copy<double>(), gradient()));
  }
}

TEST_CASE("NpzFile: describes variables without reading their values") {
  const auto file = NpzFile::open(lod_test::numpy_data + "batch.npz");
  CHECK(file.describe("words") == lod::describe("words", words()));
  CHECK(file.describe("labels") == lod::describe("labels", LoDTensor<bool>({3})));
  CHECK(file.describe("g") == lod::describe("g", gradient()));
  CHECK_THROWS_AS(file.describe("h"), lod::OutOfRange);
  const auto scalar = archive_of({{"x.npy", lod_test::read_bytes(lod_test::numpy_data + "scalar.npy")}});
  CHECK(NpzFile::decode(scalar).describe("x") == lod::describe("x", LoDTensor<std::int64_t>({1})));
}

TEST_CASE("save_npz: tensors, slices and row-sparse values come back from the file") {
  const lod_test::TemporaryFolder folder;
  const std::string path = folder / "batch.npz";
  const auto x = words();
  const auto g = gradient();
  const AnyLoDTensor any = LoDTensor<std::int64_t>::from_nested(std::vector<std::int64_t>{1, 2});
  for (const auto compression : {NpzCompression::STORED, NpzCompression::DEFLATED}) {
    lod::save_npz(path,
                  {{"x", x},
                   {"part", x.slice({2})},
                   {"first", x[0]},
                   {"any", any},
                   {"g", g},
                   {"any_g", AnySelectedRows(gradient())}},
                  compression);
    const auto file = NpzFile::open(path);
    CHECK(file.names() == Names{"any", "any_g", "first", "g", "part", "x"});
    CHECK(same_bits(file.load<LoDTensor<float>>("x"), x));
    CHECK(same_bits(file.load<LoDTensor<float>>("part"), x.slice({2})));
    CHECK(same_bits(file.load<LoDTensor<float>>("first"), x[0]));
    CHECK(same_bits(file.load<LoDTensor<std::int64_t>>("any"), any.view<std::int64_t>()));
    CHECK(same(file.load<SelectedRows<double>>("g"), g));
    CHECK(same(file.load<SelectedRows<double>>("any_g"), g));
    CHECK(lod_test::read_bytes(path) ==
          lod::encode_npz({{"x", x}, {"part", x.slice({2})}, {"first", x[0]}, {"any", any}, {"g", g}, {"any_g", g}},
                          compression));
  }
}

TEST_CASE("encode_npz: random batches of every depth and several element types") {
  lod_test::for_each_random_lod(8, 0, 3, [](Engine& engine, const lod_test::Lengths& lengths) {
    const auto check = [&](auto number, const Shape& row_shape) {
      using T = decltype(number);
      const auto x = lengths.empty() ? lod_test::small_integers<T>(engine, Shape(5, row_shape))
                                     : lod_test::small_integers<T>(engine, LoD::from_lengths(lengths), row_shape);
      for (const auto compression : {NpzCompression::STORED, NpzCompression::DEFLATED}) {
        const std::string bytes = lod::encode_npz({{"x", x}}, compression);
        REQUIRE(same_bits(NpzFile::decode(bytes).load<LoDTensor<T>>("x"), x));
      }
    };
    check(float(), {});
    check(true, {2});
    check(std::int8_t(), {0});
    check(lod::float16(), {2, 3});
    check(std::complex<double>(), {1});
  });
}

TEST_CASE("encode_npz: large values, of which memory is taken in parts, and many variables") {
  Engine engine(lod_test::first_seed());
  const auto large = lod_test::real_numbers<double>(engine, {3000000});
  for (const auto compression : {NpzCompression::STORED, NpzCompression::DEFLATED}) {
    const std::string bytes = lod::encode_npz({{"large", large}}, compression);
    CHECK(same_bits(NpzFile::decode(bytes).load<LoDTensor<double>>("large"), large));
  }
  std::vector<LoDTensor<std::int64_t>> tensors;
  std::vector<NpzValue> values;
  for (std::int64_t i = 0; i < 500; ++i) tensors.push_back(LoDTensor<std::int64_t>::from_nested(std::vector{i}));
  for (const auto& tensor : tensors) values.emplace_back(std::to_string(tensor.values()[0]), tensor);
  const std::string bytes = lod::encode_npz(values);
  const auto file = NpzFile::decode(bytes);
  REQUIRE(file.names().size() == 500);
  for (const std::string& name : file.names()) {
    CHECK(std::to_string(file.load<LoDTensor<std::int64_t>>(name).values()[0]) == name);
  }
}

TEST_CASE("NpzFile: moved to itself or to another, it has its arrays") {
  const auto x = LoDTensor<float>::from_values(LoD::from_lengths({{1, 2}}), {}, {1, 2, 3});
  const std::string bytes = lod::encode_npz({{"x", x}});
  auto file = NpzFile::decode(bytes);
  NpzFile* const itself = &file;  // not named, or compilers warn
  file = std::move(*itself);
  CHECK(file.names() == Names{"x"});
  CHECK(same_bits(file.load<LoDTensor<float>>("x"), x));
  const std::string others = lod::encode_npz({{"y", x}, {"z", x}});
  auto other = NpzFile::decode(others);
  other = std::move(file);
  CHECK(other.names() == Names{"x"});
  CHECK(same_bits(other.load<LoDTensor<float>>("x"), x));
}

TEST_CASE("encode_npz: an archive of nothing") {
  const std::string bytes = lod::encode_npz({});
  CHECK(bytes.size() == 22);
  CHECK(NpzFile::decode(bytes).names().empty());
}

TEST_CASE("encode_npz: names of any letters") {
  const auto x = words();
  const std::string bytes =
      lod::encode_npz({{"", x}, {"fc_0.w_0", x}, {"encoder/bias", x}, {"Wörter", x}, {"x.lod0", x}});
  const auto file = NpzFile::decode(bytes);
  CHECK(file.names() == Names{"", "Wörter", "encoder/bias", "fc_0.w_0", "x.lod0"});
  for (const std::string& name : file.names()) CHECK(same_bits(file.load<LoDTensor<float>>(name), x));
}

TEST_CASE("encode_npz: what cannot be written, or would be read otherwise, is refused") {
  const LoDTensor<std::int64_t> x({2});
  const auto with_levels = words();
  const auto g = gradient();
  const auto refuse = [](const std::vector<NpzValue>& values, const char* text) {
    CHECK_THROWS_WITH_AS(lod::encode_npz(values), doctest::Contains(text), std::invalid_argument);
  };
  refuse({{"x", x}, {"x", x}}, "npz: two arrays would be called 'x'");
  refuse({{"x", with_levels}, {"x.lod1", x}}, "npz: two arrays would be called 'x.lod1'");
  refuse({{"x", x}, {"x.lod0", x}}, "npz: 'x' would be read as a part of another variable");
  refuse({{"x", x}, {"x.lod1", x}}, "npz: 'x.lod1': a level of 'x', whose level 0 is missing");
  refuse({{"x", x}, {"x.rows", x}, {"x.height", x}}, "npz: 'x' would be read as a part of another variable");
  refuse({{"x", with_levels}, {"x.rows", x}, {"x.height", x}}, "npz: 'x': levels and row ids");
  refuse({{"g", g}, {"g.lod0", x}}, "npz: 'g': levels and row ids");
  refuse({{std::string("a\0b", 3), x}}, "npz: 'a\\0b': a name with a zero byte");
  refuse({{"\xff\xfe", x}}, "npz: '\xff\xfe': a name that is not UTF-8");
  refuse({{std::string(65532, 'x'), x}}, "npz: a name of 65532 bytes, expected 65531 at most");
  refuse({{"x", LoDTensor<lod::bfloat16>({2})}}, "npz: 'x': NumPy has no dtype for BF16");
  lod::SelectedRows<float> torn({1, 2}, 10, {2});
  torn.value() = LoDTensor<float>({3, 2});
  CHECK_THROWS_WITH_AS(NpzValue("g", torn), "npz: 'g': 2 ids, but 3 rows of values", lod::ShapeMismatch);
}

TEST_CASE("save_npz: what cannot be written leaves no file") {
  const lod_test::TemporaryFolder folder;
  const LoDTensor<float> x({2});
  CHECK_THROWS_AS(lod::save_npz(folder / "x.npz", {{"\xff", x}}), std::invalid_argument);
  CHECK_THROWS_AS(lod::save_npz(folder / "none/x.npz", {{"x", x}}), std::system_error);
  CHECK(folder.size() == 0);
  CHECK_THROWS_AS(NpzFile::open(folder / "x.npz"), std::system_error);
  CHECK_THROWS_AS(NpzFile::open(folder / ""), std::system_error);
}

TEST_CASE("NpzFile: of what is no regular file, or has a zero byte in its path, says so, and does not wait") {
  const lod_test::TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0666) == 0);
  CHECK_THROWS_WITH_AS(NpzFile::open(folder / "pipe"), doctest::Contains("not a regular file"), std::system_error);
  CHECK_THROWS_WITH_AS(NpzFile::open(folder.path()), doctest::Contains("Is a directory"), std::system_error);
  lod::save_npz(folder / "x.npz", {});
  CHECK_THROWS_WITH_AS(NpzFile::open((folder / "x.npz") + std::string("\0y", 2)),
                       doctest::Contains("a path with a zero byte"), std::system_error);
}

TEST_CASE("NpzFile: arrays with the names of parts are plain where there is no whole") {
  const auto bytes =
      archive_of({array<std::int64_t>("x.lod0", {0, 2}), array<float>("y", {1, 2}), array<std::int64_t>("y.rows", {4}),
                  array<std::int64_t>("z.rows", {4}), array<std::int64_t>("z.height", {4}), array<float>("y.lod", {3}),
                  array<float>("y.lod00", {3}), array<float>("y.lodx1", {3})});
  const auto file = NpzFile::decode(bytes);
  CHECK(file.names() == Names{"x.lod0", "y", "y.lod", "y.lod00", "y.lodx1", "y.rows", "z.height", "z.rows"});
  CHECK(file.load<AnyLoDTensor>("y").levels() == 0);
}

TEST_CASE("NpzFile: offsets, ids and heights of any integers") {
  const auto bytes =
      archive_of({array<float>("x", {1, 2, 3}), array<std::int32_t>("x.lod0", {0, 1, 3}), array<float>("g", {1, 2}),
                  array<std::uint8_t>("g.rows", {3, 1}), array<std::int16_t>("g.height", {5})});
  const auto file = NpzFile::decode(bytes);
  CHECK(file.load<LoDTensor<float>>("x").lod() == LoD::from_offsets({{0, 1, 3}}));
  CHECK(file.load<SelectedRows<float>>("g").rows() == std::vector<std::int64_t>{3, 1});
}

TEST_CASE("NpzFile: what is asked for must be there, of that kind and type") {
  const std::string bytes = lod_test::read_bytes(lod_test::numpy_data + "batch.npz");
  const auto refused = [](const NpzFile& file, const std::string& place) {
    CHECK_THROWS_WITH_AS(file.load<AnyLoDTensor>("h"),
                         (place + "npz: there is no 'h', but 'g', 'labels', 'words'").c_str(), lod::OutOfRange);
    CHECK_THROWS_WITH_AS(file.load<AnyLoDTensor>("g"),
                         (place + "npz: 'g': type: expected LOD_TENSOR, found SELECTED_ROWS").c_str(),
                         lod::ShapeMismatch);
    CHECK_THROWS_WITH_AS(file.load<SelectedRows<float>>("words"),
                         (place + "npz: 'words': type: expected SELECTED_ROWS, found LOD_TENSOR").c_str(),
                         lod::ShapeMismatch);
    CHECK_THROWS_WITH_AS(file.load<LoDTensor<double>>("words"),
                         (place + "npz: 'words': data type: expected FP64, found FP32").c_str(), lod::ShapeMismatch);
    CHECK_THROWS_WITH_AS(file.load<SelectedRows<std::int8_t>>("g"),
                         doctest::Contains((place + "npz: 'g': data type: expected INT8, found ").c_str()),
                         lod::ShapeMismatch);
  };
  refused(NpzFile::decode(bytes), "");
  const lod_test::TemporaryFolder folder;
  const std::string path = folder / "batch.npz";
  lod_test::write_bytes(path, bytes);
  refused(NpzFile::open(path), "'" + path + "': ");
}

TEST_CASE("NpzFile: of a file, what is wrong with its bytes is told with its name") {
  const lod_test::TemporaryFolder folder;
  const std::string path = folder / "x.npz", place = "'" + path + "': npz: ";
  lod_test::write_bytes(path, "no archive");
  CHECK_THROWS_WITH_AS(NpzFile::open(path), doctest::Contains((place + "Not a zip archive").c_str()), ParseError);
  lod_test::write_bytes(path, archive_of({{"notes.txt", "hello"}}));
  CHECK_THROWS_WITH_AS(NpzFile::open(path).describe("notes.txt"),
                       doctest::Contains((place + "'notes.txt': not").c_str()), ParseError);
  lod_test::write_bytes(
      path, archive_of({{"x.npy", "hello"}, array<float>("y", {1}), array<std::int64_t>("y.lod0", {0, 2})}));
  const auto file = NpzFile::open(path);
  const auto refused = [&](const auto& read, const std::string& text) {
    CHECK_THROWS_WITH_AS(read(), doctest::Contains((place + text).c_str()), ParseError);
  };
  refused([&] { file.describe("x"); }, "'x': npy: ");
  refused([&] { file.load<AnyLoDTensor>("x"); }, "'x': npy: ");
  refused([&] { file.load<LoDTensor<float>>("y"); }, "'y': the LoD is for 2 rows, but there are 1");
}

TEST_CASE("NpzFile: where the system cannot read a file, that is told once, with the names of file and array") {
  const lod_test::TemporaryFolder folder;
  const std::string path = folder / "x.npz", other = folder / "other";
  lod::save_npz(path, {{"x", LoDTensor<float>({30000})}, {"g", SelectedRows<float>({4, 0}, 10, {20000})}});
  const auto file = NpzFile::open(path);
  for (int number = 0; number < 256; ++number) {  // the archive's becomes a descriptor that cannot be read from
    std::error_code none;
    if (std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(number), none) != path) continue;
    const int writer = ::open(other.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(::dup2(writer, number) == number);
    ::close(writer);
  }
  const auto refuse = [&](const auto& read, const char* array) {
    const std::string text = "read '" + path + "': npz: '" + array + "': Bad file descriptor";
    CHECK_THROWS_WITH_AS(read(), text.c_str(), std::system_error);
  };
  if (!std::filesystem::exists(other)) {
    MESSAGE("skipped: there is no /proc");
    return;
  }
  refuse([&] { file.load<AnyLoDTensor>("x"); }, "x");
  refuse([&] { file.load<AnySelectedRows>("g"); }, "g.rows");
  refuse([&] { file.describe("x"); }, "x");
}

TEST_CASE("NpzFile: variables whose arrays do not fit together are refused") {
  const auto x = array<float>("x", {1, 2, 3});
  check_refused(archive_of({x, array<std::int64_t>("x.lod0", {0, 2})}),
                "npz: 'x': the LoD is for 2 rows, but there are 3");
  check_refused(archive_of({x, array<std::int64_t>("x.lod0", {0, 4, 3})}), "npz: 'x': LoD: level 0, position 2");
  check_refused(archive_of({x, array<std::int64_t>("x.lod0", {})}), "npz: 'x': LoD: level 0 has no offset");
  check_refused(archive_of({x, array<std::uint64_t>("x.lod0", {0, 1ULL << 63})}),
                "npz: 'x.lod0': 9223372036854775808, expected 9223372036854775807 at most");
  check_refused(
      archive_of({x, array<std::uint64_t>("x.rows", {4, 0, ~std::uint64_t{0}}), array<std::int64_t>("x.height", {5})}),
      "npz: 'x.rows': 18446744073709551615, expected 9223372036854775807 at most");
  check_refused(archive_of({x, array<double>("x.lod0", {0, 3})}),
                "npz: 'x.lod0': FP64 of shape {2}, expected integers in one dimension");
  check_refused(archive_of({x, {"x.lod0.npy", lod::encode_npy(LoDTensor<std::int64_t>({2, 2}))}}),
                "npz: 'x.lod0': INT64 of shape {2, 2}, expected integers in one dimension");
  check_refused(archive_of({x, array<std::int64_t>("x.lod1", {0, 3})}), "npz: 'x.lod1': a level of 'x', whose level 0");
  const auto rows = array<std::int64_t>("x.rows", {4, 0, 4}), height = array<std::int64_t>("x.height", {5});
  check_refused(archive_of({x, rows, height, array<std::int64_t>("x.lod0", {0, 3})}), "npz: 'x': levels and row ids");
  check_refused(archive_of({x, rows, array<std::int64_t>("x.height", {4})}), "npz: 'x': AnySelectedRows: id 4");
  check_refused(archive_of({x, rows, array<std::int64_t>("x.height", {-1})}), "npz: 'x': AnySelectedRows: height -1");
  check_refused(archive_of({x, rows, array<std::int64_t>("x.height", {4, 5})}),
                "npz: 'x.height': 2 numbers, expected 1");
  check_refused(archive_of({x, array<std::int64_t>("x.rows", {1}), height}),
                "npz: 'x': AnySelectedRows: 1 ids, but 3 rows");
}

TEST_CASE("NpzFile: one odd member does not make the others unreadable, and is named when it is asked for") {
  const auto x = array<float>("x", {1, 2, 3}), y = array<double>("y", {4});
  const auto levels = array<std::int64_t>("x.lod0", {0, 1, 3}), second = array<std::int64_t>("y.lod1", {0, 1});
  const auto rows = array<std::int64_t>("x.rows", {0, 1, 2}), height = array<std::int64_t>("x.height", {3});
  const Member object{"o.npy", lod_test::read_bytes(lod_test::numpy_data + "refused_object.npy")};
  const auto check = [&](const std::vector<Member>& members, const std::string& wrong, const char* text,
                         const Names& names, const Names& others) {
    CAPTURE(wrong);
    for (const bool from_file : {false, true}) {
      const lod_test::TemporaryFolder folder;
      const std::string bytes = archive_of(members);
      lod_test::write_bytes(folder / "x.npz", bytes);
      const auto file = from_file ? NpzFile::open(folder / "x.npz") : NpzFile::decode(bytes);
      CHECK(file.names() == names);
      CHECK(file.other_members() == others);
      CHECK_THROWS_WITH_AS(file.load<AnyLoDTensor>(wrong), doctest::Contains(text), ParseError);
      CHECK_THROWS_WITH_AS(file.describe(wrong), doctest::Contains(text), ParseError);
      if (from_file) CHECK_THROWS_WITH_AS(file.describe(wrong), doctest::Contains("x.npz': "), ParseError);
      for (const std::string& name : names) {
        if (name == "x") CHECK(file.load<LoDTensor<float>>(name).values()[2] == 3);
        if (name == "y" && !wrong.starts_with("y")) CHECK(file.load<LoDTensor<double>>(name).values()[0] == 4);
      }
    }
  };
  check({x, {"notes.txt", "hello"}, levels, y, {"folder/", ""}}, "notes.txt",
        "npz: 'notes.txt': not the name of an .npy", {"x", "y"}, {"notes.txt", "folder/"});
  check({{"npy", ""}, x}, "npy", "npz: 'npy': not the name of an .npy", {"x"}, {"npy"});
  check({x, object, y}, "o", "npz: 'o': npy: dtype '|O': elements of this type cannot be read", {"o", "x", "y"}, {});
  check({x, {"z.npy", "hello"}}, "z", "npz: 'z': npy: the magic and the version", {"x", "z"}, {});
  check({x, y, second}, "y", "npz: 'y.lod1': a level of 'y', whose level 0 is missing", {"x", "y", "y.lod1"}, {});
  check({x, y, second}, "y.lod1", "npz: 'y.lod1': a level of 'y', whose level 0 is missing", {"x", "y", "y.lod1"}, {});
  check({array<float>("z", {1}), array<std::int64_t>("z.rows", {0}), array<std::int64_t>("z.height", {1}),
         array<std::int64_t>("z.lod0", {0, 1}), x},
        "z", "npz: 'z': levels and row ids", {"x", "z"}, {});
  for (const std::string name : {"y", "x.lod0"}) {  // a name that libzip writes once only
    const auto other = array<std::int64_t>(std::string(name.size(), '#'), {0, 1, 3});
    std::string bytes = archive_of({x, levels, y, other});
    for (std::size_t at = bytes.find(other.name); at != std::string::npos; at = bytes.find(other.name, at)) {
      bytes.replace(at, name.size(), name);
    }
    const auto file = NpzFile::decode(bytes);
    CHECK(file.names() == Names{"x", "y"});
    const std::string wrong = name.substr(0, 1), text = "npz: '" + name + "': twice in the archive";
    CHECK_THROWS_WITH_AS(file.load<AnyLoDTensor>(wrong), doctest::Contains(text.c_str()), ParseError);
    CHECK(file.load<AnyLoDTensor>(wrong == "x" ? "y" : "x").rows() == (wrong == "x" ? 1 : 3));
  }
  const auto file_without = archive_of({{"notes.txt", "hello"}});
  CHECK(NpzFile::decode(file_without).names().empty());
  CHECK_THROWS_AS(NpzFile::decode(file_without).describe("x"), lod::OutOfRange);
}

TEST_CASE("NpzFile: what is no archive of arrays is refused") {
  check_refused("", "npz: no archive, but nothing");
  check_refused(lod::encode_npy(words().with_lod(LoD())), "npz: Not a zip archive");
  check_refused(archive_of({{"x.npy", "hello"}}),
                "npz: 'x': npy: the magic and the version: 8 bytes expected, 5 are left");
  check_refused(archive_of({{"x.npy", "hello world"}}), "npz: 'x': npy: no .npy");
  check_refused(archive_of({{"x.npy", lod_test::read_bytes(lod_test::numpy_data + "refused_uint16.npy")}}),
                "npz: 'x': npy: dtype '<u2'");
  // Two members of one name, as libzip would not write them.
  std::string bytes = archive_of({array<float>("x", {1}), array<float>("y", {1})});
  for (std::size_t at = bytes.find("y.npy"); at != std::string::npos; at = bytes.find("y.npy")) bytes[at] = 'x';
  check_refused(bytes, "npz: ");
}

TEST_CASE("NpzFile: an array that promises more than comes takes no memory") {
  const lod_test::MemoryLimit limit(std::size_t{3} << 20);
  const std::string thousand(1000, '\0');
  for (const auto method : {ZIP_CM_STORE, ZIP_CM_DEFLATE}) {
    check_refused(archive_of({{"x.npy", header({1000000000000}) + thousand}}, method),
                  "npz: 'x': the values: 8000000000000 bytes expected, 1000 are left (at byte 1128)");
    check_refused(archive_of({{"x.npy", header({3037000499, 3037000499}) + thousand}}, method),
                  "bytes expected, 1000 are left");
    // More than is read at first, and still not an eighth.
    check_refused(archive_of({{"x.npy", header({100000000}) + std::string(2000000, '\0')}}, method),
                  "npz: 'x': the values: 800000000 bytes expected, 2000000 are left");
  }
}

TEST_CASE("NpzFile: an array with more behind its values takes no memory for that") {
  const std::string bomb = archive_of({{"x.npy", header({2}) + std::string(50000000, '\0')}}, ZIP_CM_DEFLATE);
  CHECK(bomb.size() < 100000);
  const lod_test::MemoryLimit limit(10000);
  check_refused(bomb, "npz: 'x': there are bytes after the values (at byte 144)");
}

TEST_CASE("NpzFile: max_bytes is the most that one array takes") {
  const auto x = LoDTensor<double>({1000000});
  const std::string bytes = lod::encode_npz({{"x", x}}, NpzCompression::DEFLATED);
  CHECK(bytes.size() < 20000);
  CHECK(NpzFile::decode(bytes, 8000000).load<LoDTensor<double>>("x").rows() == 1000000);
  const auto limited = NpzFile::decode(bytes, 7999999);
  CHECK(limited.describe("x") == lod::describe("x", x));
  const lod_test::MemoryLimit limit(1000);
  CHECK_THROWS_WITH_AS(limited.load<AnyLoDTensor>("x"),
                       "npz: 'x': 8000000 bytes of values, expected 7999999 at most (at byte 128)", ParseError);
}

TEST_CASE("NpzFile: sizes that the archive states are not relied on") {
  const auto x = LoDTensor<double>({1000});
  for (const auto compression : {NpzCompression::STORED, NpzCompression::DEFLATED}) {
    const std::string bytes = lod::encode_npz({{"x", x}}, compression);
    const std::size_t directory = bytes.find("PK\1\2");
    REQUIRE(directory != std::string::npos);
    const lod_test::MemoryLimit limit(std::size_t{3} << 20);
    for (const std::size_t field : {20U, 24U}) {  // compressed, uncompressed
      for (const char byte : {'\0', '\1', '\x7f', '\xfe'}) {
        std::string forged = bytes;
        for (std::size_t i = 0; i < 4; ++i) forged[directory + field + i] = byte;
        CAPTURE(field);
        lod_test::reads(forged, [&](std::string_view changed) {
          const auto found = NpzFile::decode(changed).load<LoDTensor<double>>("x");
          CHECK(same_bits(found, x));
        });
      }
    }
  }
}

TEST_CASE("NpzFile: every truncation is refused") {
  for (const char* name : {"batch.npz", "batch_compressed.npz"}) {
    CAPTURE(name);
    lod_test::refuses_every_truncation(lod_test::read_bytes(lod_test::numpy_data + name), read_archive);
  }
}

TEST_CASE("NpzFile: a turned bit is seen, or changes nothing") {
  for (const char* name : {"batch.npz", "batch_compressed.npz"}) {
    CAPTURE(name);
    const lod_test::MemoryLimit limit(std::size_t{3} << 20);
    lod_test::survives_every_bit_flip(lod_test::read_bytes(lod_test::numpy_data + name), [&](std::string_view bytes) {
      read_archive(bytes);
      // Nothing was thrown: all values have their checksums. A name may be another one.
      const auto file = NpzFile::decode(bytes);
      if (file.contains("words")) CHECK(same_bits(file.load<LoDTensor<float>>("words"), words()));
      if (file.contains("g") && file.describe("g").type.type == lod::VarType::SELECTED_ROWS) {
        CHECK(same(file.load<SelectedRows<double>>("g"), gradient()));
      }
    });
  }
}

TEST_CASE("NpzFile: damaged archives are refused or read, nothing else") {
  const lod_test::MemoryLimit limit(std::size_t{3} << 20);
  lod_test::survives_random_changes(lod_test::read_bytes(lod_test::numpy_data + "batch.npz"), 3000, read_archive);
  lod_test::survives_random_changes(lod_test::read_bytes(lod_test::numpy_data + "batch_compressed.npz"), 3000,
                                    read_archive);
  lod_test::survives_noise(1000, read_archive);
  // After a good directory: the unpacked bytes of one array changed, with a checksum that is right.
  const std::string good = lod::encode_npy(words().with_lod(LoD()));
  lod_test::survives_random_changes(good, 1000, [](std::string_view changed) {
    read_archive(archive_of({{"x.npy", std::string(changed)}}, ZIP_CM_DEFLATE));
  });
}
