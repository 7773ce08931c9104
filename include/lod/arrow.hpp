// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The doorway to Arrow, by its C data interface: LoD tensors as arrays of Arrow and back, offsets and values where
/// they are. Needs nothing of Arrow but the layout of three structs. Here for memory of the CPU; <lod/cuda/arrow.hpp>
/// has that of GPUs.
///
/// A LoD tensor is what Arrow calls a large list of large lists ... of lists of fixed size ... of elements: a large
/// list for each level, whose offsets are 64 bits wide as ours, and a list of fixed size for each dimension of a row.
///
///     auto array = lod::to_arrow(x);
///     auto schema = lod::arrow_schema(x, "articles");
///     other_library_import(array.get(), schema.get());   // pyarrow.Array._import_from_c, say
///
///     lod::ArrowHandle<ArrowArray> array;
///     lod::ArrowHandle<ArrowSchema> schema;
///     other_library_export(array.get(), schema.get());   // array._export_to_c
///     auto x = lod::from_arrow<float>(std::move(array), *schema);
///
/// The interface carries no sizes of buffers. What they hold is checked against the lengths in the structs; that they
/// are as large as those lengths ask, that the pointers lead somewhere, and that the strings of a schema end, is
/// trusted.
#pragma once

#include <lod/any_tensor.hpp>
#include <lod/arrow/abi.hpp>
#include <lod/arrow/array.hpp>
#include <lod/arrow/reader.hpp>
#include <lod/arrow/schema.hpp>
#include <lod/data_type.hpp>
#include <lod/device.hpp>
#include <lod/error.hpp>
#include <lod/lod_index.hpp>
#include <lod/lod_tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace lod {

namespace detail {

/// Buffers that the CPU reads where they are.
struct ArrowOnCpu {
  static constexpr bool in_place = true;
  static const std::byte* fetch(const std::byte* from, std::size_t) noexcept { return from; }
};

/// Throws std::invalid_argument unless the CPU may read the buffers.
inline void check_on_cpu(const ArrowArray&) noexcept {}
inline void check_on_cpu(const ArrowDeviceArray& array) {
  if (array.device_type != ARROW_DEVICE_CPU && array.device_type != ARROW_DEVICE_CUDA_HOST &&
      array.device_type != ARROW_DEVICE_ROCM_HOST && array.device_type != ARROW_DEVICE_CUDA_MANAGED) {
    throw std::invalid_argument(
        text({"from_arrow: memory of device type ", array.device_type, ", which the CPU cannot read"}));
  }
  if (array.sync_event) {
    throw std::invalid_argument("from_arrow: an event of a device that is still to be waited for");
  }
}

/// What a tensor that came from Arrow stands on.
template <ArrowArrayStruct Array>
struct ArrowMemory {
  ArrowHandle<Array> array;
  std::vector<std::vector<std::int64_t>> offsets;
};

/// bool from bits, or from bytes some of which are neither 0 nor 1.
inline AnyLoDTensor copy_bools(const ArrowContents& from, LoD lod) {
  LoDTensor<bool> tensor;
  tensor.resize(std::move(lod), from.row_shape, from.rows);
  for (std::int64_t i = 0; i < from.elements; ++i) {
    const std::int64_t place = from.first + i;
    const std::byte byte = from.buffer[from.bits ? place / 8 : place];
    tensor.data()[i] = (from.bits ? byte >> (place % 8) & std::byte{1} : byte) != std::byte{0};
  }
  return tensor;
}

template <ArrowArrayStruct Array>
AnyLoDTensor take_arrow(ArrowHandle<Array> array, const ArrowSchema& schema,
                        std::optional<DataType> expected = std::nullopt) {
  check_on_cpu(*array);
  ArrowOnCpu memory;
  ArrowContents found = ArrowReader(memory).read(base_of(*array.get()), schema, expected);
  // The array first: a struct that is moved leaves its buffers, and what the spans lead to, where they are.
  const ArrowOwner owner = share_owner(ArrowMemory<Array>{std::move(array), std::move(found.own)});
  LoD lod = LoD::wrap(found.levels, owner);
  if (found.bits) return copy_bools(found, std::move(lod));
  const auto bytes = found.bytes();
  const auto is_bool = [](std::byte byte) { return byte <= std::byte{1}; };
  if (found.type == DataType::BOOL && !std::all_of(bytes.begin(), bytes.end(), is_bool)) {
    return copy_bools(found, std::move(lod));
  }
  return AnyLoDTensor::wrap(found.type, bytes, std::move(lod), found.row_shape, owner, found.rows);
}

}  // namespace detail

/// A tensor on an array of another library, without a copy but where it says so below. The lists of the array are
/// levels, those of fixed size after the last other list are the dimensions of a row; without lists, an item is a
/// scalar row. The tensor owns the array: its release callback is called when the last that shares the memory is gone,
/// and also where this throws: always once. The schema is only read. By Arrow's rules nobody writes to the memory, so
/// the elements are const; `LoDTensor<T>::copy_of` gives some to write to.
///
/// Taken: lists (+l), large lists (+L), lists of fixed size (+w:N), elements of all types that `to_arrow` gives, and
/// Arrow's booleans; all with offsets, as slices have them, at any depth. Not taken: list views, maps, structs, unions,
/// run-end encoding, dictionaries, 16-bit unsigned integers, text and time, and lists of the fixed size 0 above other
/// lists, whose number no buffer shows. Other names of extension types do not count: what is taken is the storage.
/// Where T is named, so are those of bool and bfloat16.
///
/// Copied: the offsets of lists whose offsets are 32 bits wide, do not begin at 0 (slices, mostly), or are not written
/// out (lists of fixed size above others); booleans that are bits, or bytes that are neither 0 nor 1.
///
/// Throws InvalidLoD for a null sequence, naming level and position, for offsets that descend or exceed what lies below
/// them; ShapeMismatch for elements of another type than T and for lengths that do not fit together;
/// std::invalid_argument for other nulls (a validity bitmap is read unless null_count is 0), for what is not taken, for
/// memory that the CPU cannot read or that is not aligned for its numbers, and for structs that are released or broken.
/// O(sequences); where there are bitmaps, or elements are bool, O(elements).
template <class T, ArrowArrayStruct Array>
LoDTensor<const T> from_arrow(ArrowHandle<Array> array, const ArrowSchema& schema) {
  detail::check_arrow_type<T>();
  const AnyLoDTensor tensor = detail::take_arrow(std::move(array), schema, data_type_v<T>);
  detail::check_element_type<T>(tensor.data_type(), "from_arrow");
  return tensor.as<T>();
}
/// The same where the element type is known when the program runs.
template <ArrowArrayStruct Array>
AnyLoDTensor from_arrow(ArrowHandle<Array> array, const ArrowSchema& schema) {
  return detail::take_arrow(std::move(array), schema);
}

}  // namespace lod
