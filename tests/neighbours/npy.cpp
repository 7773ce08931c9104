// SPDX-License-Identifier: Apache-2.0
// Arrays of NumPy: files that it wrote (tests/data/numpy), headers of all kinds, and such as nobody should write.
#include "neighbours/damaged.hpp"
#include "neighbours/numpy_files.hpp"
#include "support/random_batch.hpp"
#include "support/same_bits.hpp"
#include "support/temporary_folder.hpp"
#include <lod/any_tensor.hpp>
#include <lod/float16.hpp>
#include <lod/io/npy.hpp>
#include <lod/lod_tensor.hpp>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

using lod::AnyLoDTensor;
using lod::DataType;
using lod::LoD;
using lod::LoDTensor;
using lod::ParseError;
using lod::Shape;
using lod_test::same_bits;

namespace {

/// An .npy with this dictionary, which is not looked at, and these values.
std::string npy(const std::string& dictionary, const std::string& values, char major = 1, char minor = 0) {
  std::string bytes = "\x93NUMPY";
  bytes += {major, minor};
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) bytes += static_cast<char>(dictionary.size() >> 8 * i);
  return bytes + dictionary + values;
}
std::string dictionary(const std::string& dtype, const std::string& order, const std::string& shape) {
  return "{'descr': '" + dtype + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

/// The bytes of numbers; those of each part of each turned around, if asked for.
template <class Numbers>
std::string bytes_of(const Numbers& values, bool turned_around = false, std::size_t parts = 1) {
  using T = std::remove_cvref_t<decltype(*values.begin())>;
  std::string bytes;
  for (const T value : values) {
    std::array<char, sizeof(T)> one;
    std::memcpy(one.data(), &value, sizeof(T));
    for (std::size_t part = 0; turned_around && part < parts; ++part) {
      const auto begin = one.begin() + static_cast<std::ptrdiff_t>(part * sizeof(T) / parts);
      std::reverse(begin, begin + static_cast<std::ptrdiff_t>(sizeof(T) / parts));
    }
    bytes.append(one.data(), one.size());
  }
  return bytes;
}

/// The numbers 0 to 11 in three rows of four.
LoDTensor<float> matrix() {
  LoDTensor<float> x({3, 4});
  std::iota(x.values().begin(), x.values().end(), 0.F);
  return x;
}

void read_all(std::string_view bytes) { lod::decode_npy(bytes); }

/// Checks that the bytes are refused with this text, at this byte.
void check_refused(const std::string& bytes, const std::string& text, std::size_t position) {
  CAPTURE(text);
  try {
    lod::decode_npy(bytes);
    FAIL("was read");
  } catch (const ParseError& error) {
    CHECK(std::string(error.what()) == text + " (at byte " + std::to_string(position) + ")");
    CHECK(error.position() == position);
  }
}

template <class T>
void check_type(const std::string& dtype, DataType type, std::size_t parts = 1) {
  CAPTURE(dtype);
  LoDTensor<T> expected({2, 3});
  for (int i = 0; i < 6; ++i) expected.data()[i] = static_cast<T>(static_cast<float>(3 * i));
  const auto values = expected.values();
  const auto check = [&](const std::string& bytes) {
    const AnyLoDTensor x = lod::decode_npy(bytes);
    REQUIRE(x.data_type() == type);
    CHECK(same_bits(x.view<T>(), expected));
  };
  check(npy(dictionary("<" + dtype, "False", "(2, 3)"), bytes_of(values)));
  check(npy(dictionary("=" + dtype, "False", "(2, 3)"), bytes_of(values)));
  check(npy(dictionary("|" + dtype, "False", "(2, 3)"), bytes_of(values)));
  check(npy(dictionary(dtype, "False", "(2, 3)"), bytes_of(values)));
  check(npy(dictionary(">" + dtype, "False", "(2, 3)"), bytes_of(values, true, parts)));
}

}  // namespace

TEST_CASE("decode_npy: what NumPy wrote, in both orders and each version") {
  for (const char* name : {"row_major", "fortran_order", "version_2", "version_3"}) {
    CAPTURE(name);
    CHECK(same_bits(lod::load_npy<float>(lod_test::numpy_data + name + ".npy"), matrix()));
  }
  const auto x = lod::load_npy<double>(lod_test::numpy_data + "big_endian_fortran_order.npy");
  REQUIRE(x.shape() == Shape{2, 3, 4});
  for (std::size_t i = 0; i < 24; ++i) CHECK(x.values()[i] == static_cast<double>(i));

  const AnyLoDTensor none = lod::load_npy(lod_test::numpy_data + "no_rows.npy");
  CHECK(none.shape() == Shape{0, 4});
  CHECK(none.holds<std::complex<float>>());
}

TEST_CASE("decode_npy: an array without dimensions is one scalar row") {
  const auto x = lod::load_npy<std::int64_t>(lod_test::numpy_data + "scalar.npy");
  CHECK(x.shape() == Shape{1});
  CHECK(x.values()[0] == 7);
}

TEST_CASE("encode_npy: byte for byte what NumPy writes") {
  CHECK(lod::encode_npy(matrix()) == lod_test::read_bytes(lod_test::numpy_data + "row_major.npy"));
  CHECK(lod::encode_npy(LoDTensor<std::complex<float>>({0, 4})) ==
        lod_test::read_bytes(lod_test::numpy_data + "no_rows.npy"));
}

TEST_CASE("decode_npy: every element type in both byte orders") {
  check_type<bool>("b1", DataType::BOOL);
  check_type<bool>("?", DataType::BOOL);
  check_type<std::int8_t>("i1", DataType::INT8);
  check_type<std::int16_t>("i2", DataType::INT16);
  check_type<std::int32_t>("i4", DataType::INT32);
  check_type<std::int64_t>("i8", DataType::INT64);
  check_type<std::uint8_t>("u1", DataType::UINT8);
  check_type<std::uint32_t>("u4", DataType::UINT32);
  check_type<std::uint64_t>("u8", DataType::UINT64);
  check_type<lod::float16>("f2", DataType::FP16);
  check_type<float>("f4", DataType::FP32);
  check_type<double>("f8", DataType::FP64);
  check_type<std::complex<float>>("c8", DataType::COMPLEX64, 2);
  check_type<std::complex<double>>("c16", DataType::COMPLEX128, 2);
}

TEST_CASE("encode_npy: every element type comes back, also as an AnyLoDTensor, a view, a slice") {
  lod_test::Engine engine(lod_test::first_seed());
  const auto check = [&](auto number) {
    using T = decltype(number);
    auto x = lod_test::small_integers<T>(engine, {5, 2, 3});
    CHECK(same_bits(lod::decode_npy<T>(lod::encode_npy(x)), x));
    CHECK(same_bits(lod::decode_npy<T>(lod::encode_npy(x.between(1, 3))), x.between(1, 3)));
    CHECK(same_bits(lod::decode_npy<T>(lod::encode_npy(x[4])), x[4]));
    const std::string expected = lod::encode_npy(x);
    CHECK(lod::encode_npy(AnyLoDTensor(std::move(x))) == expected);
  };
  check(true);
  check(std::int8_t());
  check(std::int16_t());
  check(std::int32_t());
  check(std::int64_t());
  check(std::uint8_t());
  check(std::uint32_t());
  check(std::uint64_t());
  check(lod::float16());
  check(float());
  check(double());
  check(std::complex<float>());
  check(std::complex<double>());
  check_type<std::uint64_t>("u8", DataType::UINT64);
  const AnyLoDTensor sizes(DataType::SIZE_T, LoD(), {}, lod::uninitialized, 2);
  CHECK(lod::decode_npy(lod::encode_npy(sizes)).data_type() == DataType::UINT64);
}

TEST_CASE("encode_npy: tensors without rows, and without elements in a row") {
  for (const Shape& shape :
       {Shape{0}, Shape{0, 3}, Shape{3, 0}, Shape{2, 0, 3}, Shape{1}, Shape{1, 1, 1, 1, 1, 1, 1, 1}}) {
    CHECK(lod::decode_npy(lod::encode_npy(LoDTensor<float>(shape))).shape() == shape);
  }
}

TEST_CASE("encode_npy: levels, and types that NumPy does not have, are refused") {
  LoDTensor<float> x(LoD::from_lengths({{1, 2}}), {2});
  CHECK_THROWS_WITH_AS(lod::encode_npy(x),
                       "npy: a tensor with 1 levels; an .npz keeps them, with_lod(LoD()) drops them",
                       std::invalid_argument);
  CHECK(lod::decode_npy(lod::encode_npy(x.with_lod(LoD()))).shape() == Shape{3, 2});
  CHECK(lod::decode_npy(lod::encode_npy(x[1])).shape() == Shape{2, 2});
  CHECK_THROWS_WITH_AS(lod::encode_npy(LoDTensor<lod::bfloat16>({2})), "npy: NumPy has no dtype for BF16",
                       std::invalid_argument);
  CHECK_THROWS_AS(lod::encode_npy(AnyLoDTensor(DataType::FP8_E5M2, LoD(), {}, lod::uninitialized, 2)),
                  std::invalid_argument);
}

TEST_CASE("decode_npy: Fortran's order of any shape gives the elements that NumPy shows") {
  lod_test::Engine engine(lod_test::first_seed());
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{1, 7}, Shape{7, 1}, Shape{33, 70}, Shape{2, 3, 4, 5},
                             Shape{64, 3, 65}, Shape{2, 1, 1, 3, 1, 2}, Shape{0, 3}, Shape{3, 0, 2}}) {
    // Value i stands at place i of Fortran's order: its first index runs fastest.
    std::vector<std::int32_t> values(static_cast<std::size_t>(shape.elements()));
    std::iota(values.begin(), values.end(), 0);
    std::string dims;
    for (const std::int64_t dim : shape) dims += std::to_string(dim) + ",";
    const auto x = lod::decode_npy<std::int32_t>(npy(dictionary("<i4", "True", "(" + dims + ")"), bytes_of(values)));
    REQUIRE(x.rows() == (shape.empty() ? 1 : shape.front()));
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
      std::int64_t rest = i, place = 0, stride = 1;
      std::vector<std::int64_t> indices(shape.size());
      for (std::size_t dim = shape.size(); dim-- > 0; rest /= shape[dim]) indices[dim] = rest % shape[dim];
      for (std::size_t dim = 0; dim < shape.size(); ++dim, stride *= shape[dim - 1]) place += indices[dim] * stride;
      REQUIRE(x.values()[static_cast<std::size_t>(i)] == place);
    }
  }
}

TEST_CASE("decode_npy: elements of each size in Fortran's order") {
  const auto check = [](const std::string& dtype, auto number) {
    using T = decltype(number);
    const std::vector<T> values{T(1), T(0), T(0), T(1), T(1), T(0)};
    const auto x = lod::decode_npy<T>(npy(dictionary(dtype, "True", "(2, 3)"), bytes_of(values)));
    CHECK(same_bits(x, LoDTensor<T>::from_values(LoD(), {3}, std::vector<T>{T(1), T(0), T(1), T(0), T(1), T(0)})));
  };
  check("i1", std::int8_t());
  check("<i2", std::int16_t());
  check("<f4", float());
  check("<f8", double());
  check("<c16", std::complex<double>());
}

TEST_CASE("decode_npy: dictionaries as Python may write them") {
  const std::string values = bytes_of(std::vector<std::int32_t>{1, 2, 3});
  for (const char* text : {
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}",
           "{'shape':(3,),'fortran_order':False,'descr':'<i4'}",
           "  { \"shape\" : ( 3 , ) , \"descr\" : \"<i4\" , \"fortran_order\" : True , }  \n\n",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (3L,), }",
           "{'descr': 'i4', 'fortran_order': False, 'shape': (003,), }",
           "{'descr': u'<i4', 'fortran_order': False, 'shape': (3L,), }",
           "{u'descr': u'<i4', u'fortran_order': False, u'shape': (3,), }",
           "{U\"shape\": (3,), u\"descr\": '<i4', 'fortran_order': False}",
       }) {
    CAPTURE(text);
    CHECK(lod::decode_npy(npy(text, values)).shape() == Shape{3});
  }
}

TEST_CASE("decode_npy: each other dtype is refused, and named") {
  const auto check = [](const char* name, const char* text) {
    CHECK_THROWS_WITH_AS(lod::decode_npy(lod_test::read_bytes(lod_test::numpy_data + "refused_" + name + ".npy")), text,
                         ParseError);
  };
  check("object", "npy: dtype '|O': elements of this type cannot be read (at byte 20)");
  check("fields",
        "npy: dtype [('id', '<i4'), ('weight', '<f4')], 'for...: elements with fields cannot be read (at byte 20)");
  check("text", "npy: dtype '<U6': elements of this type cannot be read (at byte 20)");
  check("uint16", "npy: dtype '<u2': elements of this type cannot be read (at byte 20)");
  check_refused(npy("{'descr': [(u'id', u'<i4')], 'fortran_order': False, 'shape': (0,)}", ""),
                "npy: dtype [(u'id', u'<i4')], 'fortran_order': Fals...: elements with fields cannot be read", 20);
  check_refused(npy("{'descr': u'<U6', 'fortran_order': False, 'shape': (0,)}", ""),
                "npy: dtype '<U6': elements of this type cannot be read", 20);
  check("date", "npy: dtype '<M8[D]': elements of this type cannot be read (at byte 20)");
  check_refused(npy(dictionary("", "False", "(0,)"), ""), "npy: dtype '': elements of this type cannot be read", 20);
  check_refused(npy(dictionary("<", "False", "(0,)"), ""), "npy: dtype '<': elements of this type cannot be read", 20);
  check_refused(npy(dictionary("<<f4", "False", "(0,)"), ""), "npy: dtype '<<f4': elements of this type cannot be read",
                20);
  check_refused(npy(dictionary("\x01\xff", "False", "(0,)"), ""),
                "npy: dtype '\?\?': elements of this type cannot be read", 20);
}

TEST_CASE("decode_npy: what is wrong with a header, and where") {
  const auto good = dictionary("<f4", "False", "(2,)");
  const std::string values(8, '\0');
  check_refused("", "npy: the magic and the version: 8 bytes expected, 0 are left", 0);
  check_refused("PK\3\4 and more of a ZIP archive", "npy: no .npy, which begins with the byte 93 and NUMPY", 0);
  check_refused(npy(good, values, 4), "npy: version 4.0, expected 1.0, 2.0 or 3.0", 6);
  check_refused(npy(good, values, 1, 1), "npy: version 1.1, expected 1.0, 2.0 or 3.0", 6);
  check_refused(npy(good, values, 0), "npy: version 0.0, expected 1.0, 2.0 or 3.0", 6);
  check_refused(npy(std::string(0x10000, ' '), values, 2), "npy: a dictionary of 65536 bytes, expected 65535 at most",
                8);
  check_refused(npy(good, "").substr(0, 40), "npy: the dictionary: 58 bytes expected, 30 are left", 10);

  const auto check = [&](const std::string& text, const std::string& error, std::size_t position) {
    check_refused(npy(text, values), error, 10 + position);
  };
  check("", "npy: '{' expected", 0);
  check("[]", "npy: '{' expected", 0);
  check("{", "npy: a text in quotes expected", 1);
  check("{}", "npy: no 'descr'", 2);
  check("{'descr': '<f4'}", "npy: no 'fortran_order'", 16);
  check("{'descr': '<f4', 'fortran_order': False}", "npy: no 'shape'", 40);
  check("{'descr", "npy: a text without its second quote", 1);
  check("{descr: 1}", "npy: a text in quotes expected", 1);
  check("{'descr' '<f4'}", "npy: ':' expected", 9);
  check("{'descr': <f4}", "npy: a text in quotes expected", 10);
  check("{'descr': '<f4' 'shape': (2,)}", "npy: ',' or '}' expected", 16);
  check("{'descr': '<f4', 'descr': '<f4'}", "npy: key 'descr' twice", 17);
  check("{'data': '<f4'}", "npy: key 'data', expected 'descr', 'fortran_order' and 'shape'", 1);
  check("{'fortran_order': 0}", "npy: True or False expected", 18);
  check("{'shape': 2}", "npy: '(' expected", 10);
  check("{'shape': (2)}", "npy: a shape that is a number, not a tuple", 10);
  check("{'shape': (2 2)}", "npy: ',' or ')' expected", 13);
  check("{'shape': (,)}", "npy: a dimension expected: a number from 0 on", 11);
  check("{'shape': (2, -1)}", "npy: a dimension expected: a number from 0 on", 14);
  check("{'shape': (2.0,)}", "npy: ',' or ')' expected", 12);
  check("{'shape': (99999999999999999999,)}", "npy: a dimension of more than 64 bits", 11);
  check("{'shape': (4294967296, 4294967296)}",
        "npy: shape: the product of the dimensions up to 4294967296 at place 1 exceeds 64 bits", 10);
  check("{'shape': (1,1,1,1,1,1,1,1,1)}", "npy: shape: more than 8 dimensions", 10);
  check(good + "x", "npy: something after the dictionary", 58);
}

TEST_CASE("decode_npy: values end where the bytes do") {
  const auto header = npy(dictionary("<f4", "False", "(2,)"), "");
  check_refused(header + "1234567", "npy: the values: 8 bytes expected, 7 are left", header.size());
  check_refused(header + "123456789", "npy: 1 bytes after the values", header.size() + 8);
}

TEST_CASE("decode_next_npy, load_npy_arrays: arrays behind one another in one file") {
  const auto a = LoDTensor<float>::from_nested(std::vector<float>{1, 2, 3});
  const LoDTensor<std::int64_t> b({0, 4});
  const auto c = LoDTensor<bool>::from_nested(std::vector<bool>{true, false});
  const std::string bytes = lod::encode_npy(a) + lod::encode_npy(b) + lod::encode_npy(c);
  std::string_view rest = bytes;
  CHECK(same_bits(lod::decode_next_npy<float>(rest), a));
  CHECK_THROWS_AS(lod::decode_next_npy<float>(rest), lod::ShapeMismatch);
  CHECK(same_bits(lod::decode_next_npy(rest).take<std::int64_t>(), b));
  CHECK(same_bits(lod::decode_next_npy<bool>(rest), c));
  CHECK(rest.empty());
  CHECK_THROWS_AS(lod::decode_next_npy(rest), ParseError);
  rest = std::string_view(bytes).substr(0, bytes.size() - 1);
  lod::decode_next_npy(rest);
  lod::decode_next_npy(rest);
  const std::string_view before = rest;
  CHECK_THROWS_AS(lod::decode_next_npy(rest), ParseError);
  CHECK(rest.data() == before.data());
  CHECK(rest.size() == before.size());

  const lod_test::TemporaryFolder folder;
  const std::string path = folder / "x.npy";
  lod_test::write_bytes(path, bytes);
  const std::vector<AnyLoDTensor> all = lod::load_npy_arrays(path);
  REQUIRE(all.size() == 3);
  CHECK(same_bits(all[0].view<float>(), a));
  CHECK(all[1].shape() == Shape{0, 4});
  CHECK(same_bits(all[2].view<bool>(), c));
  CHECK_THROWS_WITH_AS(
      lod::load_npy(path),
      doctest::Contains("x.npy': npy: another array after this one, 258 bytes in all; decode_next_npy"), ParseError);
  CHECK_THROWS_WITH_AS(lod::decode_npy(bytes), doctest::Contains("load_npy_arrays read one after the other"),
                       ParseError);
  lod_test::write_bytes(path, bytes + "x");
  CHECK_THROWS_WITH_AS(lod::load_npy_arrays(path),
                       doctest::Contains(("(at byte " + std::to_string(bytes.size())).c_str()), ParseError);
  lod_test::write_bytes(path, "");
  CHECK_THROWS_AS(lod::load_npy_arrays(path), ParseError);
  lod::save_npy(path, a);
  CHECK(lod::load_npy_arrays(path).size() == 1);
}

TEST_CASE("decode_npy: a bool that is neither 0 nor 1 is refused") {
  const auto header = npy(dictionary("|b1", "False", "(3,)"), "");
  check_refused(header + std::string("\1\0\2", 3), "npy: a bool that is 2, expected 0 or 1", header.size() + 2);
  check_refused(header + std::string("\1\0\377", 3), "npy: a bool that is 255, expected 0 or 1", header.size() + 2);
}

TEST_CASE("decode_npy: takes no memory for values that are not there") {
  const lod_test::MemoryLimit limit(1000);
  for (const char* shape : {"(1000000000000,)", "(9223372036854775807,)", "(3037000499, 3037000499)", "(1000,)"}) {
    for (const char* dtype : {"<f8", "<c16", "|b1"}) {
      CHECK_THROWS_WITH_AS(lod::decode_npy(npy(dictionary(dtype, "False", shape), "01234567")),
                           doctest::Contains("npy: the values: "), ParseError);
    }
  }
  CHECK(lod::decode_npy(npy(dictionary("<f8", "False", "(9223372036854775807, 0)"), "")).row_size() == 0);
}

TEST_CASE("decode_npy: the element type that is asked for, or none") {
  const std::string bytes = lod::encode_npy(matrix());
  CHECK_THROWS_WITH_AS(lod::decode_npy<double>(bytes), doctest::Contains("data type: expected FP64, found FP32"),
                       lod::ShapeMismatch);
}

TEST_CASE("decode_npy: every truncation is refused") {
  for (const char* name : {"row_major", "big_endian_fortran_order", "version_3", "scalar"}) {
    CAPTURE(name);
    lod_test::refuses_every_truncation(lod_test::read_bytes(lod_test::numpy_data + name + ".npy"), read_all);
  }
}

TEST_CASE("decode_npy: damaged bytes are refused or read, nothing else") {
  const lod_test::MemoryLimit limit(100000);
  for (const char* name : {"row_major", "big_endian_fortran_order", "version_2", "refused_fields"}) {
    CAPTURE(name);
    const std::string bytes = lod_test::read_bytes(lod_test::numpy_data + name + ".npy");
    lod_test::survives_every_bit_flip(bytes, read_all);
    lod_test::survives_random_changes(bytes, 3000, read_all);
    // Changes to the dictionary alone, whose size then is right.
    lod_test::survives_random_changes(bytes.substr(10, 118), 3000, [&](std::string_view changed) {
      lod::decode_npy(npy(std::string(changed), bytes.substr(128)));
    });
  }
  lod_test::survives_noise(3000, read_all);
  lod_test::survives_noise(3000, [](std::string_view noise) { lod::decode_npy(npy(std::string(noise), "")); });
}

TEST_CASE("save_npy: a file that load_npy reads") {
  const lod_test::TemporaryFolder folder;
  const std::string path = folder / "x.npy";
  lod::save_npy(path, matrix());
  CHECK(lod_test::read_bytes(path) == lod::encode_npy(matrix()));
  CHECK(same_bits(lod::load_npy<float>(path), matrix()));

  // A larger one, through more than one call of the system; in place of the old one.
  lod_test::Engine engine(lod_test::first_seed());
  const auto large = lod_test::real_numbers<double>(engine, {3001, 77});
  lod::save_npy(path, large);
  CHECK(same_bits(lod::load_npy<double>(path), large));
}

TEST_CASE("load_npy: what is wrong is told with the name of the file") {
  const lod_test::TemporaryFolder folder;
  const std::string path = folder / "x.npy";
  lod_test::write_bytes(path, "hello");
  CHECK_THROWS_WITH_AS(
      lod::load_npy(path),
      ("'" + path + "': npy: the magic and the version: 8 bytes expected, 5 are left (at byte 0)").c_str(),
      lod::ParseError);
  lod::save_npy(path, LoDTensor<float>({2}));
  CHECK_THROWS_WITH_AS(lod::load_npy<double>(path), ("'" + path + "': data type: expected FP64, found FP32").c_str(),
                       lod::ShapeMismatch);
}

TEST_CASE("save_npy: what cannot be written leaves the old file as it was, and no other") {
  const lod_test::TemporaryFolder folder;
  const std::string path = folder / "x.npy";
  CHECK_THROWS_AS(lod::save_npy(path, LoDTensor<lod::bfloat16>({2})), std::invalid_argument);
  CHECK_THROWS_AS(lod::save_npy(path, LoDTensor<float>(LoD::from_lengths({{2}}), {})), std::invalid_argument);
  CHECK(folder.size() == 0);
  CHECK_THROWS_AS(lod::save_npy(folder / "none/x.npy", matrix()), std::system_error);
  CHECK_THROWS_AS(lod::load_npy(path), std::system_error);
  REQUIRE(::mkfifo(path.c_str(), 0666) == 0);
  CHECK_THROWS_WITH_AS(lod::load_npy(path), doctest::Contains("not a regular file"), std::system_error);
}
