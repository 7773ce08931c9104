// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Arrow's names for the types of tensors: a format string for each level, each dimension of a row, and the elements.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/interop/arrow/abi.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace lod::inline LOD_INTERFACE {

namespace detail::inline LOD_TARGET {

/// How elements are stored: a format string, and the name of an extension type if the format alone does not say it.
/// Null if there is no format.
struct ArrowStorage {
  const char* format = nullptr;
  const char* extension = nullptr;
};

constexpr ArrowStorage arrow_storage(DataType type) noexcept {
  switch (type) {
    case DataType::BOOL:
      return {"c", "arrow.bool8"};
    case DataType::INT8:
      return {"c"};
    case DataType::UINT8:
      return {"C"};
    case DataType::INT16:
      return {"s"};
    case DataType::INT32:
      return {"i"};
    case DataType::UINT32:
      return {"I"};
    case DataType::INT64:
      return {"l"};
    case DataType::UINT64:
    case DataType::SIZE_T:
      return {"L"};
    case DataType::FP16:
      return {"e"};
    case DataType::BF16:
      return {"w:2", "lance.bfloat16"};
    case DataType::FP32:
      return {"f"};
    case DataType::FP64:
      return {"g"};
    case DataType::COMPLEX64:
    case DataType::COMPLEX128:
    case DataType::FP8_E4M3FN:
    case DataType::FP8_E5M2:
      break;
  }
  return {};
}

/// Throws std::invalid_argument for elements for which Arrow has no type.
inline void check_arrow_type(DataType type) {
  if (!arrow_storage(type).format) {
    throw std::invalid_argument(text({"arrow: there is no type of Arrow for elements of type ", to_string(type)}));
  }
}
template <class T>
constexpr void check_arrow_type() {
  static_assert(arrow_storage(data_type_v<T>).format != nullptr,
                "Arrow has a type for bool, integers, float16, bfloat16, float and double: for complex numbers it has "
                "none");
}

inline constexpr std::string_view arrow_extension_name = "ARROW:extension:name";
inline constexpr std::string_view arrow_extension_metadata = "ARROW:extension:metadata";

/// The metadata of a field of an extension type, as the C data interface lays them out: a count, then keys and values,
/// each preceded by its length.
inline std::string extension_metadata(std::string_view extension) {
  std::string metadata;
  const auto append_number = [&](std::size_t number) {
    const auto value = static_cast<std::int32_t>(number);
    metadata.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const auto append_text = [&](std::string_view text) {
    append_number(text.size());
    metadata += text;
  };
  append_number(2);
  append_text(arrow_extension_name);
  append_text(extension);
  append_text(arrow_extension_metadata);
  append_text("");
  return metadata;
}

/// The name of a field's extension type; empty if it has none. Whether the lengths within lead beyond the end of the
/// metadata cannot be checked: the interface does not give their size.
inline std::string_view extension_name(const char* metadata) noexcept {
  if (!metadata) return {};
  const auto next_number = [&] {
    std::int32_t number = 0;
    std::memcpy(&number, metadata, sizeof(number));
    metadata += sizeof(number);
    return number > 0 ? static_cast<std::size_t>(number) : 0;
  };
  const auto next_text = [&] {
    const std::size_t size = next_number();
    const std::string_view text(metadata, size);
    metadata += size;
    return text;
  };
  for (std::size_t pairs = next_number(); pairs > 0; --pairs) {
    const std::string_view key = next_text();
    const std::string_view value = next_text();
    if (key == arrow_extension_name) return value;
  }
  return {};
}

/// What a struct made by this library points to: `Content`, and its only child, if it has one. Each struct of a tree
/// has a node of its own, so that a child that has been moved out survives the release of its parent.
template <class Struct, class Content>
struct ArrowNode {
  explicit ArrowNode(Content&& kept) : content(std::move(kept)) {}
  Content content;
  Struct child{};
  Struct* children[1] = {&child};

  static void release(Struct* released) noexcept {
    if (!released->release) return;
    auto* const node = static_cast<ArrowNode*>(released->private_data);
    if (node->child.release) node->child.release(&node->child);
    delete node;
    released->release = nullptr;
  }
};

/// A struct on a new node with the child `child`, if that is not empty. The caller sets everything that depends on the
/// content.
template <class Struct, class Content>
std::pair<ArrowHandle<Struct>, Content*> arrow_parent(ArrowHandle<Struct> child, Content content) {
  using Node = ArrowNode<Struct, Content>;
  auto node = std::make_unique<Node>(std::move(content));
  Struct parent{};
  if (child) {
    child.move_to(&node->child);
    parent.n_children = 1;
    parent.children = node->children;
  }
  parent.release = Node::release;
  parent.private_data = node.get();
  Content* const kept = &node.release()->content;
  return {ArrowHandle<Struct>(&parent), kept};
}

struct ArrowFieldText {
  std::string format;
  std::string name;
  std::string metadata;
};

/// A non-nullable field, the parent of `child`.
inline ArrowHandle<ArrowSchema> arrow_field(ArrowHandle<ArrowSchema> child, std::string format, std::string name,
                                            const char* extension = nullptr) {
  auto [field, text] = arrow_parent(
      std::move(child),
      ArrowFieldText{std::move(format), std::move(name), extension ? extension_metadata(extension) : std::string()});
  ArrowSchema& schema = *field.get();
  schema.format = text->format.c_str();
  schema.name = text->name.c_str();
  schema.metadata = extension ? text->metadata.data() : nullptr;
  return std::move(field);
}

}  // namespace detail::inline LOD_TARGET

/// The type of the arrays that `to_arrow` makes from tensors with `levels` levels, rows of `row_shape` and elements of
/// `type`; `name` may be the name of a column. From the outside in: a large list for each level, a fixed-size list for
/// each dimension of a row, the elements. No field is nullable; the inner ones are called "item". Throws
/// std::invalid_argument for complex numbers and 8-bit floating point, for which Arrow has no types, and ShapeMismatch
/// if a dimension of a row exceeds the 31 bits that Arrow has for it.
LOD_TAGGED inline ArrowHandle<ArrowSchema> arrow_schema(DataType type, int levels, const Shape& row_shape,
                                                        const char* name = "") {
  detail::check_arrow_type(type);
  const detail::ArrowStorage storage = detail::arrow_storage(type);
  // From the inside out. The outermost field has the name.
  auto fields_left = levels + static_cast<int>(row_shape.size());
  const auto next_name = [&] { return std::string(fields_left-- > 0 ? "item" : name); };
  auto schema = detail::arrow_field({}, storage.format, next_name(), storage.extension);
  for (std::size_t dim = row_shape.size(); dim-- > 0;) {
    if (row_shape[dim] > std::numeric_limits<std::int32_t>::max()) {
      throw ShapeMismatch(detail::text({"arrow_schema: dimension ", dim, " of the rows is ", row_shape[dim],
                                        ", more than a list of fixed size can have"}));
    }
    schema = detail::arrow_field(std::move(schema), "+w:" + std::to_string(row_shape[dim]), next_name());
  }
  for (int level = levels; level-- > 0;) schema = detail::arrow_field(std::move(schema), "+L", next_name());
  return schema;
}
/// The type of a tensor, a view or a slice.
template <LoDTensorLike X>
LOD_TAGGED ArrowHandle<ArrowSchema> arrow_schema(const X& x, const char* name = "") {
  detail::check_arrow_type<typename X::value_type>();
  const auto view = x.view();
  return arrow_schema(data_type_v<typename X::value_type>, view.levels(), view.row_shape(), name);
}
LOD_TAGGED inline ArrowHandle<ArrowSchema> arrow_schema(const AnyLoDTensor& x, const char* name = "") {
  return arrow_schema(x.data_type(), x.levels(), x.row_shape(), name);
}

}  // namespace lod::inline LOD_INTERFACE
