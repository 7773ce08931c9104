// SPDX-License-Identifier: Apache-2.0
/// @file
/// Arrays of Arrow. The bytes choose the structs of an array and of its schema: what the interface makes a consumer
/// trust holds (pointers lead to memory, buffers are as large as the lengths ask, strings end), of the rest anything
/// may be broken. What can be imported is compared with what a plain reading of the format gives.
#include "target.hpp"
#include <lod/any_tensor.hpp>
#include <lod/arrow.hpp>
#include <lod/error.hpp>
#include <lod/lod_index.hpp>
#include <lod/lod_tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

/// Offsets of 4 bytes become numbers of 8; those of lists of fixed size, which have none, are written out; and there
/// are the row numbers of a LoD. The rest are structs of the reader.
constexpr lod_fuzz::Bound bound{.times = 32};

/// The structs of one level, and what they point to.
struct Node {
  std::string format;
  std::string metadata;
  ArrowSchema schema{};
  ArrowArray array{};
  ArrowSchema* schema_child = nullptr;
  ArrowArray* array_child = nullptr;
  const void* buffers[2] = {};
  std::vector<std::int64_t> validity;  // as memory that is aligned for all numbers
  std::vector<std::int64_t> contents;
  std::int64_t list_size = 0;

  bool is_list() const { return format == "+l" || format == "+L"; }
  bool is_fixed() const { return format.starts_with("+w:"); }
  std::size_t width() const {
    if (format == "+l") return 4;
    if (format == "+L") return 8;
    constexpr std::string_view ones = "cCb", twos = "sSe", fours = "iIf";
    if (format.size() == 1 && ones.find(format[0]) != std::string_view::npos) return 1;
    if (format == "w:2" || (format.size() == 1 && twos.find(format[0]) != std::string_view::npos)) return 2;
    if (format.size() == 1 && fours.find(format[0]) != std::string_view::npos) return 4;
    return 8;
  }
  const std::byte* bytes() const { return static_cast<const std::byte*>(buffers[1]); }
  /// Of a list.
  std::int64_t list_offset(std::int64_t i) const {
    if (format == "+L") return reinterpret_cast<const std::int64_t*>(bytes())[i];
    return reinterpret_cast<const std::int32_t*>(bytes())[i];
  }
};

class Tree {
 public:
  explicit Tree(lod_fuzz::Choices& choices) {
    const int depth = 1 + choices.below(6);
    std::int64_t length = choices.below(8);
    for (int i = 0; i < depth; ++i) length = add(choices, length, i + 1 == depth);
    for (std::size_t i = 0; i + 1 < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      node.schema_child = &nodes_[i + 1].schema;
      node.array_child = &nodes_[i + 1].array;
      node.schema.n_children = node.array.n_children = 1;
      node.schema.children = &node.schema_child;
      node.array.children = &node.array_child;
    }
    for (Node& node : nodes_) lie(choices, node);
    nodes_[0].array.private_data = this;
    if (nodes_[0].array.release) nodes_[0].array.release = release;
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  const std::deque<Node>& nodes() const { return nodes_; }
  bool released() const { return released_; }
  /// Whether somebody has something to release.
  bool is_alive() const { return nodes_[0].array.release != nullptr; }
  std::size_t bytes() const { return bytes_; }
  lod::ArrowHandle<ArrowArray> give() { return lod::ArrowHandle<ArrowArray>(&nodes_[0].array); }
  const ArrowSchema& schema() const { return nodes_[0].schema; }

 private:
  /// Frees the buffers, so that a sanitizer notices who still reads them.
  static void release(ArrowArray* array) {
    auto* const tree = static_cast<Tree*>(array->private_data);
    LOD_FUZZ_EXPECT(!tree->released_);
    tree->released_ = true;
    for (Node& node : tree->nodes_) {
      node.validity = {};
      node.contents = {};
    }
    array->release = nullptr;
  }

  /// One more level, for the `length` items that the one above needs or another number. Returns how many items the next
  /// one needs.
  std::int64_t add(lod_fuzz::Choices& choices, std::int64_t length, bool is_last) {
    Node& node = nodes_.emplace_back();
    constexpr const char* lists[] = {"+L", "+l", "+w:2", "+L", "+w:0", "+w:1", "+w:3", "+w:03", "+vl", "+w:", "+w:-1"};
    constexpr const char* elements[] = {"f",   "b", "c", "g", "l", "i", "s", "e",
                                        "w:2", "C", "I", "L", "S", "u", "",  "+s"};
    const int format = choices.byte();
    node.format = is_last ? elements[format % 16] : lists[format % 11];
    if (node.is_fixed()) node.list_size = std::atoi(node.format.c_str() + 3);
    const int extension = choices.below(8);
    if (extension == 1) node.metadata = lod::detail::extension_metadata("arrow.bool8");
    if (extension == 2) node.metadata = lod::detail::extension_metadata("lance.bfloat16");
    if (extension == 3) node.metadata = lod::detail::extension_metadata(choices.bytes(choices.byte()));

    node.schema.format = node.format.c_str();
    if (!node.metadata.empty()) node.schema.metadata = node.metadata.data();
    node.schema.release = [](ArrowSchema* schema) { schema->release = nullptr; };
    ArrowArray& array = node.array;
    array.release = [](ArrowArray* child) { child->release = nullptr; };
    const int place = choices.byte();  // most often as many items as are needed, from the first on
    array.length = place < 200 ? length : choices.number();
    array.offset = place % 8 < 6 ? place % 4 : choices.number();
    // It is trusted that there are as many items; so there are few, or more than memory can hold.
    constexpr std::int64_t few = 1000, more_than_memory = std::int64_t{1} << 60;
    if (array.length > few) array.length |= more_than_memory;
    array.n_buffers = node.is_fixed() ? 1 : 2;
    array.buffers = node.buffers;
    return fill(choices, node);
  }

  /// Makes the buffers. Lengths that no memory has come without.
  std::int64_t fill(lod_fuzz::Choices& choices, Node& node) {
    constexpr std::int64_t most = 1000;
    ArrowArray& array = node.array;
    if (array.length < 0 || array.length > most || array.offset < 0 || array.offset > most) return choices.number();
    const std::int64_t items = array.offset + array.length;
    const int nulls = choices.below(8);
    if (nulls >= 6) {
      node.validity.assign(static_cast<std::size_t>(items / 64) + 1, nulls == 6 ? -1 : choices.anything());
      node.buffers[0] = node.validity.data();
      array.null_count = choices.below(3) - 1;
    } else if (nulls == 5) {
      array.null_count = choices.number();
    }
    bytes_ += node.validity.size() * sizeof(std::int64_t);
    if (node.is_fixed()) return items * node.list_size;

    const std::size_t size = (static_cast<std::size_t>(items) + 1) * node.width();
    node.contents.resize(size / sizeof(std::int64_t) + 2);
    node.buffers[1] = node.contents.data();
    bytes_ += node.contents.size() * sizeof(std::int64_t);
    if (!node.is_list()) {
      const std::string_view values = choices.bytes(std::min<std::size_t>(size, 16));
      if (!values.empty()) std::memcpy(node.contents.data(), values.data(), values.size());
      return 0;
    }
    std::int64_t next = choices.below(8) == 7 ? choices.number() : 0;
    for (std::int64_t i = 0; i <= items; ++i) {
      if (node.format == "+L") {
        node.contents[static_cast<std::size_t>(i)] = next;
      } else {
        const auto narrow = static_cast<std::int32_t>(next);
        std::memcpy(reinterpret_cast<std::byte*>(node.contents.data()) + i * 4, &narrow, 4);
      }
      const int length = choices.byte();
      if (length >= 0xF0 || __builtin_add_overflow(next, length % 4, &next)) next = choices.number();
    }
    return node.list_offset(items);
  }

  static void lie(lod_fuzz::Choices& choices, Node& node) {
    switch (choices.byte()) {
      case 1:
        return void(node.array.n_buffers = choices.number());
      case 2:
        return void(node.array.n_children = choices.number());
      case 3:
        return void(node.schema.n_children = choices.number());
      case 4:
        return void(node.array_child = nullptr);
      case 5:
        return void(node.schema_child = nullptr);
      case 6:
        return void(node.array.children = nullptr);
      case 7:
        return void(node.schema.children = nullptr);
      case 8:
        return void(node.array.release = nullptr);
      case 9:
        return void(node.schema.release = nullptr);
      case 10:
        return void(node.array.dictionary = &node.array);
      case 11:
        return void(node.schema.dictionary = &node.schema);
      case 12:
        return void(node.schema_child = &node.schema);
      case 13:
        return void(node.array.buffers = nullptr);
      case 14:
        return void(node.buffers[0] = nullptr);
      case 15:
        return void(node.buffers[1] = nullptr);
      case 16:
        return void(node.buffers[1] = node.buffers[1] ? node.bytes() + 1 : nullptr);
      case 17:
        return void(node.schema.format = nullptr);
      default:
        return;
    }
  }

  std::deque<Node> nodes_;
  std::size_t bytes_ = 0;
  bool released_ = false;
};

// ---- A plain reading of the format ----

struct Reading {
  std::vector<std::vector<std::int64_t>> lengths;
  std::vector<std::byte> values;
};

/// Item i, counted from the start of the buffers, of a level.
void read_item(const std::deque<Node>& nodes, std::size_t depth, std::int64_t i, Reading& out) {
  const Node& node = nodes[depth];
  if (depth + 1 == nodes.size()) {
    if (node.format == "b") {
      out.values.push_back(node.bytes()[i / 8] >> (i % 8) & std::byte{1});
    } else {
      const std::byte* const element = node.bytes() + i * static_cast<std::int64_t>(node.width());
      out.values.insert(out.values.end(), element, element + node.width());
    }
    return;
  }
  const std::int64_t begin = node.is_list() ? node.list_offset(i) : i * node.list_size;
  const std::int64_t end = node.is_list() ? node.list_offset(i + 1) : begin + node.list_size;
  if (depth < out.lengths.size()) out.lengths[depth].push_back(end - begin);
  for (std::int64_t j = begin; j < end; ++j) read_item(nodes, depth + 1, nodes[depth + 1].array.offset + j, out);
}

Reading plain_reading(const std::deque<Node>& nodes, std::int64_t offset, std::int64_t length) {
  Reading reading;
  for (std::size_t depth = 0; depth < nodes.size(); ++depth) {
    if (nodes[depth].is_list()) reading.lengths.resize(depth + 1);
  }
  for (std::int64_t i = 0; i < length; ++i) read_item(nodes, 0, offset + i, reading);
  return reading;
}

/// `taken` reads the array as a tensor.
template <class Take>
void check(std::string_view bytes, const Take& take) {
  lod_fuzz::Choices choices(bytes);
  Tree tree(choices);
  const bool was_alive = tree.is_alive();
  const ArrowArray root = tree.nodes()[0].array;
  {
    auto array = tree.give();
    const auto tensor = lod_fuzz::attempt<lod::InvalidLoD, lod::ShapeMismatch, std::invalid_argument>(
        tree.bytes(), bound, [&]() -> lod::AnyLoDTensor { return take(std::move(array), tree.schema()); });
    if (tensor) {
      constexpr std::int64_t many = 100000;  // rows of no elements may be more than one can count
      if (!tree.released() && tensor->rows() < many) {
        const Reading expected = plain_reading(tree.nodes(), root.offset, root.length);
        LOD_FUZZ_EXPECT(tensor->lod() == lod::LoD::from_lengths(expected.lengths));
        const auto found = tensor->bytes();
        if (tensor->data_type() != lod::DataType::BOOL) {
          LOD_FUZZ_EXPECT(std::equal(found.begin(), found.end(), expected.values.begin(), expected.values.end()));
        }
      }
      for (const std::byte value : tensor->bytes()) {
        LOD_FUZZ_EXPECT(tensor->data_type() != lod::DataType::BOOL || value <= std::byte{1});
      }
      const auto schema = lod::arrow_schema(*tensor);
      const lod::AnyLoDTensor again = take(lod::to_arrow(*tensor), *schema);
      LOD_FUZZ_EXPECT(lod_fuzz::same(again, *tensor));
    }
  }
  LOD_FUZZ_EXPECT(tree.released() == was_alive);
}

}  // namespace

std::vector<std::string> lod_fuzz::seeds() {
  // Decisions, in the order in which Tree asks for them.
  const std::string list_of_floats = {1, 3, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4};
  const std::string rows = {2, 2, 0, 0, 0, 0, 0, 1, 2, 3, 2, 0, 0, 0, 1, 0, 0, 0, 5, 6, 7, 8};
  const std::string bits = {1, 5, 1, 0, 1, 0, 0, 3, 1, 0, 2, 0, 1, 0, 0, 0x55, 0x0F};
  const std::string deep = {5, 4, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 2, 3, 0, 1, 2, 3, 2, 0, 0, 0};
  return {std::string(1, '\0'), list_of_floats, rows, bits, deep};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = lod_fuzz::input(data, size);
  check(bytes, [](auto array, const ArrowSchema& schema) { return lod::from_arrow(std::move(array), schema); });
  check(bytes, [](auto array, const ArrowSchema& schema) {
    return lod::AnyLoDTensor(lod::from_arrow<lod::bfloat16>(std::move(array), schema));
  });
  check(bytes, [](auto array, const ArrowSchema& schema) {
    return lod::AnyLoDTensor(lod::from_arrow<bool>(std::move(array), schema));
  });
  return 0;
}
