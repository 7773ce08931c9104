// SPDX-License-Identifier: Apache-2.0
#include "support/counted_owner.hpp"
#include <lod/arrow.hpp>

#include <doctest/doctest.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::ArrowHandle;
using lod::DataType;
using lod::LoD;
using lod::LoDTensor;
using lod_test::CountedOwner;

namespace {

/// Three articles of 3, 1 and 2 sentences, 15 words of `row_shape`.
LoDTensor<float> articles(const lod::Shape& row_shape) {
  LoDTensor<float> x(LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}}), row_shape);
  std::iota(x.values().begin(), x.values().end(), 0.0F);
  return x;
}

/// The structs from the outside in.
template <class Struct>
std::vector<const Struct*> nested(const Struct& outermost) {
  std::vector<const Struct*> all{&outermost};
  while (all.back()->n_children == 1) all.push_back(all.back()->children[0]);
  CHECK(all.back()->n_children == 0);
  CHECK(all.back()->children == nullptr);
  return all;
}

std::vector<std::string> formats(const ArrowSchema& schema) {
  std::vector<std::string> all;
  for (const ArrowSchema* field : nested(schema)) all.emplace_back(field->format);
  return all;
}
std::vector<std::int64_t> lengths(const ArrowArray& array) {
  std::vector<std::int64_t> all;
  for (const ArrowArray* level : nested(array)) all.push_back(level->length);
  return all;
}

/// The offsets that a list of the array has, as a consumer reads them.
std::vector<std::int64_t> offsets(const ArrowArray& list) {
  const auto* const first = static_cast<const std::int64_t*>(list.buffers[1]) + list.offset;
  return {first, first + list.length + 1};
}

using Formats = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("arrow_schema: a large list for each level, a list of fixed size for each dimension of a row, the elements") {
  const auto schema = lod::arrow_schema(articles({2, 3}), "articles");
  CHECK(formats(*schema) == Formats{"+L", "+L", "+w:2", "+w:3", "f"});
  const auto fields = nested(*schema);
  for (const ArrowSchema* field : fields) {
    CHECK(std::string(field->name) == (field == fields[0] ? "articles" : "item"));
    CHECK(field->flags == 0);  // not nullable
    CHECK(field->metadata == nullptr);
    CHECK(field->dictionary == nullptr);
    CHECK(static_cast<bool>(field->release));
  }
}

TEST_CASE("arrow_schema: any number of levels and dimensions") {
  CHECK(formats(*lod::arrow_schema(DataType::INT64, 0, {})) == Formats{"l"});
  CHECK(formats(*lod::arrow_schema(DataType::INT64, 0, {3})) == Formats{"+w:3", "l"});
  CHECK(formats(*lod::arrow_schema(DataType::INT64, 1, {})) == Formats{"+L", "l"});
  CHECK(formats(*lod::arrow_schema(DataType::INT64, 4, {0})) == Formats{"+L", "+L", "+L", "+L", "+w:0", "l"});
  const auto plain = lod::arrow_schema(DataType::INT64, 0, {}, "ids");
  CHECK(std::string(plain->name) == "ids");
  CHECK_THROWS_AS(lod::arrow_schema(DataType::INT64, 0, {std::int64_t{1} << 31}), lod::ShapeMismatch);
}

TEST_CASE("arrow_schema: every type of elements") {
  const auto format = [](DataType type) { return std::string(lod::arrow_schema(type, 0, {})->format); };
  CHECK(format(DataType::INT8) == "c");
  CHECK(format(DataType::UINT8) == "C");
  CHECK(format(DataType::INT16) == "s");
  CHECK(format(DataType::INT32) == "i");
  CHECK(format(DataType::UINT32) == "I");
  CHECK(format(DataType::INT64) == "l");
  CHECK(format(DataType::UINT64) == "L");
  CHECK(format(DataType::SIZE_T) == "L");
  CHECK(format(DataType::FP16) == "e");
  CHECK(format(DataType::FP32) == "f");
  CHECK(format(DataType::FP64) == "g");
  CHECK(format(DataType::BOOL) == "c");
  CHECK(format(DataType::BF16) == "w:2");
  for (const DataType none : {DataType::COMPLEX64, DataType::COMPLEX128, DataType::FP8_E4M3FN, DataType::FP8_E5M2}) {
    CHECK_THROWS_WITH_AS(format(none), doctest::Contains(lod::to_string(none)), std::invalid_argument);
  }
}

TEST_CASE("arrow_schema: what is more than its storage says so in the metadata") {
  const auto metadata = [](DataType type) {
    const auto schema = lod::arrow_schema(type, 1, {});
    CHECK(schema->metadata == nullptr);
    const char* bytes = schema->children[0]->metadata;
    std::vector<std::string> texts;
    const auto next_number = [&] {
      std::int32_t number = 0;
      std::memcpy(&number, bytes, 4);
      bytes += 4;
      return number;
    };
    for (std::int32_t left = 2 * next_number(); left > 0; --left) {
      const std::int32_t size = next_number();
      texts.emplace_back(bytes, static_cast<std::size_t>(size));
      bytes += size;
    }
    return texts;
  };
  using Texts = std::vector<std::string>;
  CHECK(metadata(DataType::BOOL) == Texts{"ARROW:extension:name", "arrow.bool8", "ARROW:extension:metadata", ""});
  CHECK(metadata(DataType::BF16) == Texts{"ARROW:extension:name", "lance.bfloat16", "ARROW:extension:metadata", ""});
}

TEST_CASE("to_arrow: the offsets and the values of the tensor, where they are") {
  const auto x = articles({2, 3});
  const auto array = lod::to_arrow(x);
  CHECK(lengths(*array) == Numbers{3, 6, 15, 30, 90});
  const auto levels = nested(*array);
  for (const ArrowArray* level : levels) {
    CHECK(level->offset == 0);
    CHECK(level->null_count == 0);
    CHECK(level->dictionary == nullptr);
    CHECK(level->buffers[0] == nullptr);
    CHECK(static_cast<bool>(level->release));
  }
  CHECK(levels[0]->n_buffers == 2);
  CHECK(levels[0]->buffers[1] == x.lod().offsets(0).data());
  CHECK(levels[1]->n_buffers == 2);
  CHECK(levels[1]->buffers[1] == x.lod().offsets(1).data());
  CHECK(levels[2]->n_buffers == 1);
  CHECK(levels[3]->n_buffers == 1);
  CHECK(levels[4]->n_buffers == 2);
  CHECK(levels[4]->buffers[1] == x.data());
}

TEST_CASE("to_arrow: plain tensors and scalar rows") {
  CHECK(lengths(*lod::to_arrow(LoDTensor<double>({5}))) == Numbers{5});
  CHECK(lengths(*lod::to_arrow(LoDTensor<double>({5, 3}))) == Numbers{5, 15});
  CHECK(lengths(*lod::to_arrow(LoDTensor<double>({5, 0, 2}))) == Numbers{5, 0, 0});
  CHECK(lengths(*lod::to_arrow(LoDTensor<double>(lod::Shape{}))) == Numbers{1});
  CHECK(lengths(*lod::to_arrow(LoDTensor<double>(LoD::from_lengths({{2, 1}}), {}))) == Numbers{2, 3});
}

TEST_CASE("to_arrow: a batch without sequences still has its offset, and no buffer is null") {
  const auto array = lod::to_arrow(LoDTensor<float>(LoD::from_offsets({{0}, {0}}), {2}));
  CHECK(lengths(*array) == Numbers{0, 0, 0, 0});
  const auto levels = nested(*array);
  CHECK(offsets(*levels[0]) == Numbers{0});
  CHECK(offsets(*levels[1]) == Numbers{0});
  CHECK(levels[3]->buffers[1] != nullptr);
}

TEST_CASE("to_arrow: empty sequences are repeated offsets at every level") {
  const auto array = lod::to_arrow(LoDTensor<float>(LoD::from_lengths({{0, 2, 0}, {0, 3}}), {}));
  const auto levels = nested(*array);
  CHECK(offsets(*levels[0]) == Numbers{0, 0, 2, 2});
  CHECK(offsets(*levels[1]) == Numbers{0, 0, 3});
  CHECK(levels[2]->length == 3);
}

TEST_CASE("to_arrow: a slice has the offsets of the whole tensor, and what lies below begins where that does") {
  const auto x = std::make_shared<LoDTensor<float>>(articles({2}));
  SUBCASE("some articles") {
    const auto array = lod::to_arrow(x->between(1, 3), x);
    CHECK(x.use_count() == 2);
    const auto levels = nested(*array);
    CHECK(lengths(*array) == Numbers{2, 6, 15, 30});
    CHECK(offsets(*levels[0]) == Numbers{3, 4, 6});
    CHECK(levels[0]->buffers[1] == x->lod().offsets(0).data() + 1);
    CHECK(levels[1]->buffers[1] == x->lod().offsets(1).data());
    CHECK(levels[3]->buffers[1] == x->data());
  }
  SUBCASE("the first ones, whose rows end early") {
    CHECK(lengths(*lod::to_arrow(x->between(0, 2), x)) == Numbers{2, 4, 10, 20});
  }
  SUBCASE("the sentences of an article") {
    const auto array = lod::to_arrow((*x)[2], x);
    const auto levels = nested(*array);
    CHECK(lengths(*array) == Numbers{2, 15, 30});
    CHECK(offsets(*levels[0]) == Numbers{10, 12, 15});
  }
  SUBCASE("the words of a sentence") {
    const auto array = lod::to_arrow((*x)[2][1], x);
    CHECK(lengths(*array) == Numbers{3, 6});
    CHECK(nested(*array)[1]->buffers[1] == x->row(12).data());
  }
  SUBCASE("nothing") { CHECK(lengths(*lod::to_arrow(x->between(2, 2), x))[0] == 0); }
}

TEST_CASE("to_arrow: the memory is kept until the array is released, once") {
  std::vector<float> memory(6);
  int gone = 0;
  auto x = LoDTensor<float>::wrap(memory, LoD::from_lengths({{1, 2}}), {2}, CountedOwner(gone));
  SUBCASE("by a handle") {
    auto array = lod::to_arrow(std::move(x));
    CHECK(gone == 0);
    array.reset();
    CHECK(!array);
    array.reset();
  }
  SUBCASE("shared with the tensor, and moved about") {
    auto array = lod::to_arrow(x);
    x = LoDTensor<float>();
    ArrowHandle<ArrowArray> other(std::move(array));
    array = std::move(other);
    CHECK(gone == 0);
    array = ArrowHandle<ArrowArray>();
  }
  SUBCASE("by a consumer, who moves the struct") {
    ArrowArray moved{};
    lod::to_arrow(std::move(x)).move_to(&moved);
    CHECK(gone == 0);
    void (*const release)(ArrowArray*) = moved.release;
    release(&moved);
    CHECK(!moved.release);
    CHECK(gone == 1);
    release(&moved);  // released already
  }
  SUBCASE("of a type that is not known") { lod::to_arrow(AnyLoDTensor(std::move(x))).reset(); }
  SUBCASE("of a slice") {
    const LoDTensor<float> other({6});
    auto array = lod::to_arrow(other.between(2, 5), CountedOwner(gone));
    CHECK(gone == 0);
    array.reset();
    ++gone;
    x = LoDTensor<float>();
    CHECK(gone == 3);
    gone = 1;
  }
  CHECK(gone == 1);
}

TEST_CASE("to_arrow: a child that is moved out lives on when its parent is released") {
  std::vector<float> memory{1, 2, 3, 4, 5, 6};
  int gone = 0;
  auto array = lod::to_arrow(LoDTensor<float>::wrap(memory, LoD::from_lengths({{1, 2}}), {2}, CountedOwner(gone)));
  ArrowArray rows = *array->children[0];
  array->children[0]->release = nullptr;
  array.reset();
  CHECK(gone == 0);
  CHECK(rows.length == 3);
  CHECK(rows.children[0]->buffers[1] == memory.data());
  rows.release(&rows);
  CHECK(gone == 1);

  auto schema = lod::arrow_schema(articles({2}));
  ArrowSchema field = *schema->children[0];
  schema->children[0]->release = nullptr;
  schema.reset();
  CHECK(std::string(field.children[0]->format) == "+w:2");
  field.release(&field);
}

TEST_CASE("to_arrow: offsets of slices outlive the tensor that they are of") {
  ArrowHandle<ArrowArray> array;
  {
    const auto values = std::make_shared<std::vector<float>>(15);
    const LoDTensor<float> x = LoDTensor<float>::wrap(*values, LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}}), {});
    array = lod::to_arrow(x.slice({2}), values);
  }
  CHECK(offsets(*array) == Numbers{4, 6});
  CHECK(offsets(*array->children[0]) == Numbers{0, 3, 5, 9, 10, 12, 15});
}

TEST_CASE("to_arrow: an array in memory of the CPU, for who asks where it is") {
  const auto x = articles({2});
  auto array = lod::to_arrow<ArrowDeviceArray>(x);
  CHECK(array->device_type == ARROW_DEVICE_CPU);
  CHECK(array->sync_event == nullptr);
  CHECK(array->reserved[0] == 0);
  CHECK(lengths(array->array) == Numbers{3, 6, 15, 30});
  CHECK(array);
  ArrowHandle<ArrowDeviceArray> moved(array.get());
  CHECK(!array);
  CHECK(moved->array.children[0]->buffers[1] == x.lod().offsets(1).data());
}
