// SPDX-License-Identifier: Apache-2.0
#include "support/counted_owner.hpp"
#include "support/foreign_dlpack.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include <lod/dlpack.hpp>

#include <doctest/doctest.h>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::DataType;
using lod::DLPackHandle;
using lod::LoD;
using lod::LoDTensor;
using lod_test::CountedOwner;
using lod_test::ForeignDLPack;

namespace {

/// Three articles of 3, 1 and 2 sentences, 15 words of two numbers.
LoDTensor<float> articles() {
  LoDTensor<float> x(LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}}), {2});
  std::iota(x.values().begin(), x.values().end(), 0.0F);
  return x;
}

std::vector<std::int64_t> numbers(const std::int64_t* from, int count) { return {from, from + count}; }

/// A tensor of `shape` whose memory counts in `gone` that it is no longer needed.
LoDTensor<float> counted(std::vector<float>& memory, const LoD& lod, const lod::Shape& row_shape, int& gone) {
  return LoDTensor<float>::wrap(memory, lod, row_shape, CountedOwner(gone));
}

}  // namespace

TEST_CASE("to_dlpack: a dense row-major array on the memory of the tensor") {
  auto x = articles();
  const auto handle = lod::to_dlpack(x);
  const DLTensor& array = handle->dl_tensor;
  CHECK(array.data == x.data());
  CHECK(array.byte_offset == 0);
  CHECK(array.device.device_type == kDLCPU);
  CHECK(array.device.device_id == 0);
  CHECK(numbers(array.shape, array.ndim) == std::vector<std::int64_t>{15, 2});
  CHECK(numbers(array.strides, array.ndim) == std::vector<std::int64_t>{2, 1});
  CHECK(array.dtype.code == kDLFloat);
  CHECK(array.dtype.bits == 32);
  CHECK(array.dtype.lanes == 1);
  static_cast<float*>(array.data)[3] = -1;
  CHECK(x.row(1)[1] == -1);
}

TEST_CASE("to_dlpack: scalar rows are a column, images keep their dimensions") {
  LoDTensor<double> scalars(LoD::from_lengths({{2, 1}}), {});
  const auto column = lod::to_dlpack(scalars);
  CHECK(numbers(column->dl_tensor.shape, column->dl_tensor.ndim) == std::vector<std::int64_t>{3});
  LoDTensor<double> images({4, 3, 5, 2});
  const auto array = lod::to_dlpack(images);
  CHECK(numbers(array->dl_tensor.shape, array->dl_tensor.ndim) == std::vector<std::int64_t>{4, 3, 5, 2});
  CHECK(numbers(array->dl_tensor.strides, array->dl_tensor.ndim) == std::vector<std::int64_t>{30, 10, 2, 1});
}

TEST_CASE("to_dlpack: the offsets of a level are the LoD's own, and keep it") {
  const std::int64_t* offsets = nullptr;
  DLPackHandle<> inner;
  {
    const LoD lod = LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}});
    const auto outer = lod::to_dlpack(lod, 0);
    CHECK(numbers(outer->dl_tensor.shape, outer->dl_tensor.ndim) == std::vector<std::int64_t>{4});
    inner = lod::to_dlpack(lod, -1);
    offsets = lod.offsets(1).data();
    CHECK_THROWS_AS(lod::to_dlpack(lod, 2), lod::OutOfRange);
  }
  CHECK(inner->dl_tensor.data == offsets);
  CHECK(inner->dl_tensor.dtype.code == kDLInt);
  CHECK(inner->dl_tensor.dtype.bits == 64);
  CHECK(numbers(static_cast<std::int64_t*>(inner->dl_tensor.data), 7) ==
        std::vector<std::int64_t>{0, 3, 5, 9, 10, 12, 15});
}

TEST_CASE("to_dlpack: a slice begins at its first row, and keeps the owner that it is given") {
  const auto x = std::make_shared<LoDTensor<float>>(articles());
  const auto handle = lod::to_dlpack(x->slice({2, 1}), x);
  CHECK(handle->dl_tensor.data == x->row(12).data());
  CHECK(handle->dl_tensor.shape[0] == 3);
  CHECK(x.use_count() == 2);
}

TEST_CASE("to_dlpack: the array keeps the memory until its deleter is called, once") {
  std::vector<float> memory(6);
  int gone = 0;
  SUBCASE("shared with the tensor") {
    auto x = counted(memory, LoD::from_lengths({{1, 2}}), {2}, gone);
    auto handle = lod::to_dlpack(x);
    x = LoDTensor<float>();
    CHECK(gone == 0);
    handle.reset();
  }
  SUBCASE("taken from a temporary") {
    auto handle = lod::to_dlpack(counted(memory, LoD::from_lengths({{1, 2}}), {2}, gone));
    CHECK(gone == 0);
    handle.reset();
  }
  SUBCASE("given to another library") {
    DLManagedTensor* const given = lod::to_dlpack(counted(memory, LoD(), {2}, gone)).release();
    CHECK(gone == 0);
    given->deleter(given);
  }
  SUBCASE("of a slice") {
    const LoDTensor<float> x({6});
    auto handle = lod::to_dlpack(x.between(2, 5), CountedOwner(gone));
    CHECK(gone == 0);
    handle.reset();
  }
  CHECK(gone == 1);
}

TEST_CASE("to_dlpack: an array without elements has no address") {
  LoDTensor<float> x(LoD::from_offsets({{0, 0, 0}}), {3});
  const auto handle = lod::to_dlpack(x);
  CHECK(handle->dl_tensor.data == nullptr);
  CHECK(numbers(handle->dl_tensor.shape, handle->dl_tensor.ndim) == std::vector<std::int64_t>{0, 3});
  LoDTensor<float> flat({5, 0});
  CHECK(lod::to_dlpack(flat)->dl_tensor.shape[0] == 5);
}

TEST_CASE("to_dlpack: the versioned struct says what is read-only") {
  auto x = articles();
  const auto writable = lod::to_dlpack<DLManagedTensorVersioned>(x);
  CHECK(writable->version.major == 1);
  CHECK(writable->flags == 0);
  CHECK(lod::to_dlpack<DLManagedTensorVersioned>(std::as_const(x))->flags == 1);
  CHECK(lod::to_dlpack<DLManagedTensorVersioned>(x.lod(), 0)->flags == 1);
  CHECK(lod::to_dlpack<DLManagedTensorVersioned>(AnyLoDTensor(x))->flags == 0);
  CHECK(lod::to_dlpack<DLManagedTensorVersioned>(AnyLoDTensor(std::as_const(x).with_lod(LoD())))->flags == 1);
}

namespace {

/// From here to DLPack and back: the type code and bits, the memory, and the values.
template <class T>
void check_type(DataType type, int code, int bits) {
  CAPTURE(lod::to_string(type));
  LoDTensor<T> x(LoD::from_lengths({{1, 2}}), {2});
  for (std::size_t i = 0; i < 6; ++i) x.data()[i] = static_cast<T>(static_cast<float>(i % 2));
  const T* const data = x.data();
  const LoD lod = x.lod();
  const LoDTensor<T> before = x;

  auto handle = lod::to_dlpack(std::move(x));
  CHECK(handle->dl_tensor.dtype.code == code);
  CHECK(handle->dl_tensor.dtype.bits == bits);
  CHECK(handle->dl_tensor.dtype.lanes == 1);
  LoDTensor<T> back = lod::from_dlpack<T>(std::move(handle), lod);
  CHECK(back.data() == data);
  CHECK(lod_test::same_bits(back, before));

  const AnyLoDTensor any = lod::from_dlpack(lod::to_dlpack(AnyLoDTensor(std::move(back))), lod);
  CHECK(any.data_type() == type);
  CHECK(!any.read_only());
  CHECK(any.view<T>().data() == data);
  CHECK(lod_test::same_bits(any.as<T>(), before));
}

}  // namespace

TEST_CASE("DLPack: every type of elements goes there and comes back where it is") {
  check_type<bool>(DataType::BOOL, 6, 8);
  check_type<std::int8_t>(DataType::INT8, kDLInt, 8);
  check_type<std::int16_t>(DataType::INT16, kDLInt, 16);
  check_type<std::int32_t>(DataType::INT32, kDLInt, 32);
  check_type<std::int64_t>(DataType::INT64, kDLInt, 64);
  check_type<std::uint8_t>(DataType::UINT8, kDLUInt, 8);
  check_type<std::uint32_t>(DataType::UINT32, kDLUInt, 32);
  check_type<std::uint64_t>(DataType::UINT64, kDLUInt, 64);
  check_type<lod::float16>(DataType::FP16, kDLFloat, 16);
  check_type<lod::bfloat16>(DataType::BF16, kDLBfloat, 16);
  check_type<float>(DataType::FP32, kDLFloat, 32);
  check_type<double>(DataType::FP64, kDLFloat, 64);
  check_type<std::complex<float>>(DataType::COMPLEX64, kDLComplex, 64);
  check_type<std::complex<double>>(DataType::COMPLEX128, kDLComplex, 128);
}

TEST_CASE("DLPack: types without one of C++ go as they are; sizes come back as unsigned integers") {
  for (const auto& [type, code] : {std::pair(DataType::FP8_E4M3FN, 10), std::pair(DataType::FP8_E5M2, 12)}) {
    const AnyLoDTensor x(type, LoD::from_lengths({{1, 2}}), {4}, lod::uninitialized);
    auto handle = lod::to_dlpack(x);
    CHECK(handle->dl_tensor.dtype.code == code);
    CHECK(handle->dl_tensor.dtype.bits == 8);
    const AnyLoDTensor back = lod::from_dlpack(std::move(handle), x.lod());
    CHECK(back.data_type() == type);
    CHECK(back.shape() == x.shape());
    CHECK(back.bytes().data() == x.bytes().data());
    CHECK(back.read_only());
  }
  const AnyLoDTensor sizes(DataType::SIZE_T, LoD(), {}, lod::uninitialized, 3);
  CHECK(lod::from_dlpack(lod::to_dlpack(sizes)).data_type() == DataType::UINT64);
}

TEST_CASE("DLPack: values and offsets of random batches come back where they were") {
  lod_test::for_each_random_lod(8, 0, 4, [](lod_test::Engine&, const lod_test::Lengths& lengths) {
    auto x = lod_test::counted_rows(lengths, 5);
    std::vector<DLPackHandle<>> offsets;
    for (int level = 0; level < x.levels(); ++level) offsets.push_back(lod::to_dlpack(x.lod(), level));
    const LoD lod = lod::lod_from_dlpack(std::move(offsets));
    const auto y = lod::from_dlpack<std::int64_t>(lod::to_dlpack(x), lod);
    CHECK(lod_test::same_bits(x, y));
    for (int level = 0; level < x.levels(); ++level) CHECK(lod.offsets(level).data() == x.lod().offsets(level).data());
    if (x.rows() > 0) CHECK(y.data() == x.data());
  });
}

TEST_CASE("from_dlpack: calls the deleter when the last sharer is gone") {
  std::array<float, 6> values{1, 2, 3, 4, 5, 6};
  int deleted = 0;
  {
    auto x = lod::from_dlpack<float>(ForeignDLPack(values.data(), {3, 2}, deleted).give(), LoD::from_lengths({{1, 2}}));
    CHECK(x.data() == values.data());
    CHECK(x.shape() == std::vector<std::int64_t>{3, 2});
    x.row(0)[0] = 9;
    CHECK(values[0] == 9);
    auto sharer = x.with_lod(LoD());
    x = LoDTensor<float>();
    CHECK(deleted == 0);
    CHECK(sharer.row(2)[1] == 6);
  }
  CHECK(deleted == 1);
}

TEST_CASE("from_dlpack: a library that brings no deleter is asked for none") {
  std::array<float, 2> values{1, 2};
  std::int64_t shape = 2;
  DLManagedTensor tensor{};
  tensor.dl_tensor = {values.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &shape, nullptr, 0};
  CHECK(lod::from_dlpack<float>(DLPackHandle<>(&tensor)).data() == values.data());
}

TEST_CASE("from_dlpack: strides may be missing, and do not count where nobody steps") {
  std::array<float, 6> values{};
  int deleted = 0;
  const auto shape_of = [&](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    ForeignDLPack array(values.data(), std::move(shape), deleted);
    if (!strides.empty()) array.strides(std::move(strides));
    return lod::from_dlpack<float>(array.give()).shape();
  };
  CHECK(shape_of({3, 2}, {}) == std::vector<std::int64_t>{3, 2});
  CHECK(shape_of({3, 2}, {2, 1}) == std::vector<std::int64_t>{3, 2});
  CHECK(shape_of({1, 3, 1, 2}, {-7, 2, 1000, 1}) == std::vector<std::int64_t>{1, 3, 1, 2});
  CHECK(shape_of({3, 0, 2}, {5, 5, 5}) == std::vector<std::int64_t>{3, 0, 2});
  CHECK_THROWS_WITH_AS(shape_of({3, 2}, {1, 3}), doctest::Contains("the stride of dimension 1 is 3, expected 1"),
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(shape_of({2, 2}, {3, 1}), doctest::Contains("the stride of dimension 0 is 3, expected 2"),
                       lod::ShapeMismatch);
  CHECK(deleted == 6);
}

namespace {

/// The strides of an array that lies somewhere in `size` bytes, and where its first element is: by steps forwards or
/// backwards, with gaps or overlaps.
struct RandomArray {
  std::vector<std::int64_t> shape, strides;
  std::int64_t first = 0;
};
RandomArray random_array(lod_test::Engine& engine, std::int64_t element, std::int64_t size) {
  RandomArray array;
  const std::int64_t rank = lod_test::random_number(engine, 0, 5);
  std::int64_t below = 0, above = 0;
  for (std::int64_t dim = 0; dim < rank; ++dim) {
    array.shape.push_back(lod_test::random_number(engine, dim == 3 ? 0 : 1, 4));
    array.strides.push_back(lod_test::random_number(engine, -7, 7));
    if (array.shape.back() == 1) array.strides.back() = std::int64_t{1} << 62;  // does not count
    if (array.shape.back() <= 1) continue;
    const std::int64_t way = (array.shape.back() - 1) * array.strides.back() * element;
    (way < 0 ? below : above) += way;
  }
  array.first = lod_test::random_number(engine, -below, size - above - element);
  return array;
}

}  // namespace

TEST_CASE("copy_dlpack: every element is the one that its strides lead to") {
  const unsigned seed = 20260802;
  CAPTURE(seed);
  lod_test::Engine engine(seed);
  std::vector<unsigned char> memory(4096);
  for (unsigned char& byte : memory) byte = static_cast<unsigned char>(engine() % 2);  // bools, too
  constexpr DataType types[] = {DataType::BOOL,       DataType::UINT8,   DataType::INT16, DataType::BF16,
                                DataType::FP32,       DataType::UINT64,  DataType::FP64,  DataType::COMPLEX64,
                                DataType::COMPLEX128, DataType::FP8_E5M2};
  int deleted = 0, count = 0;
  for (; count < 2000; ++count) {
    CAPTURE(count);
    const DataType type = types[lod_test::random_number(engine, 0, std::ssize(types) - 1)];
    const auto element = static_cast<std::int64_t>(lod::size_of(type));
    const RandomArray random = random_array(engine, element, std::ssize(memory));
    // Begins at any byte, by its address or its offset.
    const auto offset = static_cast<std::uint64_t>(lod_test::random_number(engine, 0, random.first));
    ForeignDLPack array(memory.data() + random.first - offset, random.shape, deleted);
    array.array().byte_offset = offset;
    array.array().dtype = lod::detail::dlpack_type(type);
    array.strides(random.strides);
    const AnyLoDTensor copy = lod::copy_dlpack(array.give());
    REQUIRE(copy.data_type() == type);
    REQUIRE(copy.shape() == (random.shape.empty() ? std::vector<std::int64_t>{1} : random.shape));

    const std::byte* at = copy.bytes().data();
    const std::byte* const end = at + copy.bytes().size();
    for (std::int64_t i = 0; at != end; ++i, at += element) {
      std::int64_t rest = i, expected = random.first;
      for (std::size_t dim = random.shape.size(); dim-- > 0; rest /= random.shape[dim]) {
        if (random.shape[dim] > 1) expected += rest % random.shape[dim] * random.strides[dim] * element;
      }
      REQUIRE(std::memcmp(at, memory.data() + expected, static_cast<std::size_t>(element)) == 0);
    }
    REQUIRE(deleted == count + 1);
  }
}

TEST_CASE("copy_dlpack: a transposed matrix, a row many times, and compact arrays become tensors of their own") {
  std::array<float, 6> values{1, 2, 3, 4, 5, 6};
  int deleted = 0;
  const LoD lod = LoD::from_lengths({{2, 1}});
  auto x = lod::copy_dlpack<float>(ForeignDLPack(values.data(), {3, 2}, deleted).strides({1, 3}).give(), lod);
  CHECK(x.lod() == lod);
  CHECK(std::vector<float>(x.values().begin(), x.values().end()) == std::vector<float>{1, 4, 2, 5, 3, 6});
  x = lod::copy_dlpack<float>(ForeignDLPack(values.data(), {2, 3}, deleted).strides({0, 1}).give());
  CHECK(std::vector<float>(x.values().begin(), x.values().end()) == std::vector<float>{1, 2, 3, 1, 2, 3});
  x = lod::copy_dlpack<float>(ForeignDLPack(&values[5], {6}, deleted).strides({-1}).give());
  CHECK(std::vector<float>(x.values().begin(), x.values().end()) == std::vector<float>{6, 5, 4, 3, 2, 1});
  x = lod::copy_dlpack<float>(ForeignDLPack(values.data(), {3, 2}, deleted).give());
  CHECK(x.data() != values.data());
  CHECK(std::equal(values.begin(), values.end(), x.values().begin()));
  ForeignDLPack<DLManagedTensorVersioned> read_only(values.data(), {6}, deleted);
  read_only.tensor().flags = 1;
  x = lod::copy_dlpack<float>(read_only.give());
  x.values()[0] = 7;
  CHECK(values[0] == 1);
  CHECK(deleted == 5);
}

TEST_CASE("copy_dlpack: what does not fit is refused, and deleted once") {
  std::array<float, 6> values{};
  int deleted = 0;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto refused = [&](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    ForeignDLPack array(values.data(), std::move(shape), deleted);
    array.strides(std::move(strides));
    const int before = deleted;
    CHECK_THROWS_WITH_AS(lod::copy_dlpack(array.give()), doctest::Contains("leads out of all memory"),
                         lod::ShapeMismatch);
    CHECK(deleted == before + 1);
  };
  refused({2}, {most});
  refused({2}, {-most - 1});
  refused({4}, {most / 8});
  refused({2, 2, 2}, {most / 5, most / 5, most / 5});
  refused({2, 2}, {1, -(most / 4)});
  refused({2, 2, 2, 2}, {-(most / 5), 1, -(most / 5), most / 5});
  ForeignDLPack wrong(values.data(), {6}, deleted);
  CHECK_THROWS_WITH_AS(lod::copy_dlpack<double>(wrong.give()), doctest::Contains("copy_dlpack: data type: expected"),
                       lod::ShapeMismatch);
  ForeignDLPack rows(values.data(), {6}, deleted);
  CHECK_THROWS_WITH_AS(lod::copy_dlpack<float>(rows.give(), LoD::from_lengths({{5}})),
                       doctest::Contains("copy_dlpack: the LoD is for 5 rows"), lod::ShapeMismatch);
  ForeignDLPack nowhere(nullptr, {6}, deleted);
  CHECK_THROWS_WITH_AS(lod::copy_dlpack<float>(nowhere.give()), doctest::Contains("copy_dlpack: no data"),
                       std::invalid_argument);
  ForeignDLPack device(values.data(), {6}, deleted);
  device.array().device.device_type = kDLCUDA;
  CHECK_THROWS_WITH_AS(lod::copy_dlpack<float>(device.give()), doctest::Contains("copy_dlpack: memory of device type"),
                       std::invalid_argument);
  CHECK(deleted == 10);
  CHECK_THROWS_WITH_AS(lod::copy_dlpack<float>(DLPackHandle<>()), "copy_dlpack: no tensor", std::invalid_argument);
  ForeignDLPack negative(values.data(), {-6}, deleted);
  CHECK_THROWS_WITH_AS(lod::copy_dlpack<float>(negative.give()), doctest::Contains("copy_dlpack: shape: dimension 0"),
                       lod::ShapeMismatch);
  ForeignDLPack odd(values.data(), {6}, deleted);
  CHECK_THROWS_WITH_AS(lod::copy_dlpack(odd.type(kDLFloat, 33).give()), doctest::Contains("copy_dlpack: elements"),
                       std::invalid_argument);
  CHECK(deleted == 12);
}

TEST_CASE("from_dlpack: an array may begin some bytes behind its address, and a number alone is one row") {
  std::array<float, 6> values{1, 2, 3, 4, 5, 6};
  int deleted = 0;
  ForeignDLPack part(values.data(), {2, 2}, deleted);
  part.array().byte_offset = 8;
  CHECK(lod::from_dlpack<float>(part.give()).row(0)[0] == 3);
  const auto scalar = lod::from_dlpack<float>(ForeignDLPack(&values[4], {}, deleted).give());
  CHECK(scalar.rows() == 1);
  CHECK(scalar.row_shape().empty());
  CHECK(scalar.data()[0] == 5);
}

TEST_CASE("from_dlpack: an array without elements needs no memory, and keeps its rows") {
  int deleted = 0;
  const auto flat =
      lod::from_dlpack<float>(ForeignDLPack(nullptr, {5, 0}, deleted).give(), LoD::from_lengths({{2, 3}}));
  CHECK(deleted == 1);
  CHECK(flat.shape() == std::vector<std::int64_t>{5, 0});
  const auto any = lod::from_dlpack(ForeignDLPack(nullptr, {0, 3}, deleted).give(), LoD::from_offsets({{0}}));
  CHECK(any.levels() == 1);
  CHECK(any.shape() == std::vector<std::int64_t>{0, 3});
  CHECK(deleted == 2);
}

TEST_CASE("from_dlpack: memory that the CPU reads, whoever pinned or manages it") {
  std::array<float, 2> values{1, 2};
  int deleted = 0;
  for (const DLDeviceType device : {kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged}) {
    ForeignDLPack array(values.data(), {2}, deleted);
    array.array().device.device_type = device;
    CHECK(lod::from_dlpack<float>(array.give()).data() == values.data());
  }
  for (const DLDeviceType device : {kDLCUDA, kDLOpenCL, kDLMetal}) {
    ForeignDLPack array(values.data(), {2}, deleted);
    array.array().device.device_type = device;
    CHECK_THROWS_WITH_AS(lod::from_dlpack<float>(array.give()), doctest::Contains("which the CPU cannot read"),
                         std::invalid_argument);
  }
  CHECK(deleted == 7);
}

TEST_CASE("from_dlpack: what does not fit is refused, and deleted once") {
  alignas(8) std::array<std::byte, 64> memory{};
  int deleted = 0;
  ForeignDLPack array(memory.data(), {3, 2}, deleted);
  const auto give = [&] { return lod::from_dlpack<float>(array.give(), LoD::from_lengths({{1, 2}})); };
  const auto mismatch = [&](const char* text) {
    CHECK_THROWS_WITH_AS(give(), doctest::Contains(text), lod::ShapeMismatch);
  };
  const auto refused = [&](const char* text) {
    CHECK_THROWS_WITH_AS(give(), doctest::Contains(text), std::invalid_argument);
  };
  SUBCASE("another type") {
    array.type(kDLFloat, 64);
    mismatch("data type: expected FP32, found FP64");
  }
  SUBCASE("vectors") {
    array.type(kDLFloat, 32, 4);
    refused("type code 2 with 32 bits and 4 lanes");
  }
  SUBCASE("a type that has no name here") {
    array.type(kDLUInt, 16);
    refused("type code 1 with 16 bits and 1 lanes, for which there is no DataType");
  }
  SUBCASE("a handle of another library's") {
    array.type(kDLOpaqueHandle, 64);
    refused("type code 3");
  }
  SUBCASE("fewer dimensions than none") {
    array.array().ndim = -1;
    refused("-1 dimensions");
  }
  SUBCASE("no shape") {
    array.array().shape = nullptr;
    refused("2 dimensions, but no shape");
  }
  SUBCASE("a negative dimension") {
    array.array().shape[0] = -3;
    mismatch("dimension 0 is -3");
  }
  SUBCASE("no data") {
    array.array().data = nullptr;
    refused("no data for an array of shape {3, 2}");
  }
  SUBCASE("memory that is not aligned") {
    array.array().byte_offset = 2;
    refused("no multiple of the 4 bytes");
  }
  SUBCASE("another number of rows") {
    array.array().shape[0] = 4;
    mismatch("the LoD is for 3 rows, but there are 4");
  }
  CHECK(deleted == 1);
}

TEST_CASE("from_dlpack: more dimensions, or elements, than there can be") {
  float value = 0;
  int deleted = 0;
  CHECK_THROWS_AS(lod::from_dlpack<float>(ForeignDLPack(&value, std::vector<std::int64_t>(9, 1), deleted).give()),
                  lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::from_dlpack(ForeignDLPack(&value, {std::int64_t{1} << 62, 4}, deleted).give()),
                  lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::from_dlpack(ForeignDLPack(&value, {std::int64_t{1} << 61, 2}, deleted).give()),
                  lod::ShapeMismatch);
  CHECK(deleted == 3);
  CHECK_THROWS_AS(lod::from_dlpack<float>(DLPackHandle<>()), std::invalid_argument);
}

TEST_CASE("from_dlpack: read-only memory becomes tensors of const elements") {
  std::array<float, 2> values{1, 2};
  int deleted = 0;
  const auto read_only = [&] {
    ForeignDLPack<DLManagedTensorVersioned> array(values.data(), {2}, deleted);
    array.tensor().flags = 1;
    return array.give();
  };
  CHECK_THROWS_WITH_AS(lod::from_dlpack<float>(read_only()), doctest::Contains("from_dlpack<const T> takes it"),
                       std::invalid_argument);
  CHECK(lod::from_dlpack<const float>(read_only()).data() == values.data());
  CHECK(lod::from_dlpack(read_only()).read_only());
  CHECK(deleted == 3);
  CHECK(!lod::from_dlpack(ForeignDLPack<DLManagedTensorVersioned>(values.data(), {2}, deleted).give()).read_only());
}

TEST_CASE("from_dlpack: of another major version, only the deleter is touched") {
  int deleted = 0;
  ForeignDLPack<DLManagedTensorVersioned> array(nullptr, {2}, deleted);
  array.tensor().version = {2, 0};
  array.array().shape = nullptr;
  CHECK_THROWS_WITH_AS(lod::from_dlpack(array.give()), doctest::Contains("version 2 of DLPack, expected 1"),
                       std::invalid_argument);
  CHECK(deleted == 1);
}

TEST_CASE("lod_from_dlpack: a LoD on the offsets of another library") {
  std::array<std::int64_t, 4> outer{0, 3, 4, 6};
  std::array<std::int64_t, 7> inner{0, 3, 5, 9, 10, 12, 15};
  int deleted = 0;
  const auto level = [&](auto& offsets) {
    ForeignDLPack array(offsets.data(), {static_cast<std::int64_t>(offsets.size())}, deleted);
    array.type(kDLInt, 64);
    return array;
  };
  std::vector<DLPackHandle<>> levels;
  levels.push_back(level(outer).give());
  SUBCASE("fits") {
    levels.push_back(level(inner).give());
    LoD lod = lod::lod_from_dlpack(std::move(levels));
    CHECK(lod == LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}}));
    CHECK(lod.offsets(0).data() == outer.data());
    CHECK(lod.offsets(1).data() == inner.data());
    CHECK(deleted == 0);
    lod = LoD();
  }
  SUBCASE("descends") {
    inner[2] = 2;
    levels.push_back(level(inner).give());
    CHECK_THROWS_WITH_AS(lod::lod_from_dlpack(std::move(levels)),
                         doctest::Contains("lod_from_dlpack: LoD: level 1, position 2: offset 2 follows 3"),
                         lod::InvalidLoD);
  }
  SUBCASE("has another type") {
    levels.push_back(level(inner).type(kDLInt, 32).give());
    CHECK_THROWS_WITH_AS(lod::lod_from_dlpack(std::move(levels)),
                         doctest::Contains("lod_from_dlpack: level 1: data type: expected INT64"), lod::ShapeMismatch);
  }
  SUBCASE("is a matrix") {
    levels.push_back(ForeignDLPack(inner.data(), {2, 3}, deleted).type(kDLInt, 64).give());
    CHECK_THROWS_WITH_AS(lod::lod_from_dlpack(std::move(levels)), doctest::Contains("level 1 has the shape {2, 3}"),
                         lod::ShapeMismatch);
  }
  SUBCASE("has no offset") {
    levels.push_back(ForeignDLPack(nullptr, {0}, deleted).type(kDLInt, 64).give());
    CHECK_THROWS_WITH_AS(lod::lod_from_dlpack(std::move(levels)), doctest::Contains("level 1 has no offset"),
                         lod::InvalidLoD);
  }
  CHECK(deleted == 2);
  CHECK(lod::lod_from_dlpack(std::vector<DLPackHandle<>>()).levels() == 0);
}
