// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The doorway to Arrow, through its C data interface: LoD tensors as Arrow arrays and back, without copying offsets or
/// values. Needs nothing of Arrow but the layout of three structs. This header is for CPU memory, <lod/cuda/arrow.hpp>
/// for GPU memory.
///
/// A LoD tensor is what Arrow calls a large list of large lists ... of fixed-size lists ... of elements: a large list
/// for each level, whose offsets are 64 bits wide like ours, and a fixed-size list for each dimension of a row.
///
///     auto array = lod::to_arrow(x);
///     auto schema = lod::arrow_schema(x, "articles");
///     other_library_import(array.get(), schema.get());   // e.g. pyarrow.Array._import_from_c
///
///     lod::ArrowHandle<ArrowArray> array;
///     lod::ArrowHandle<ArrowSchema> schema;
///     other_library_export(array.get(), schema.get());   // array._export_to_c
///     auto x = lod::from_arrow<float>(std::move(array), *schema);
///
/// The interface does not state the sizes of buffers. Their contents are checked against the lengths in the structs. It
/// is taken on trust that buffers are as large as these lengths require, that pointers are valid, and that the strings
/// of a schema are terminated.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/target.hpp>
#include <lod/interop/arrow/abi.hpp>
#include <lod/interop/arrow/array.hpp>
#include <lod/interop/arrow/reader.hpp>
#include <lod/interop/arrow/schema.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail::inline LOD_TARGET {

/// Buffers that the CPU reads in place.
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

/// Keeps the memory of a tensor that came from Arrow.
template <ArrowArrayStruct Array>
struct ArrowMemory {
  ArrowHandle<Array> array;
  std::vector<std::vector<std::int64_t>> offsets;
};

/// bool elements from bits, or from bytes some of which are neither 0 nor 1.
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
  // The array first: moving a struct leaves its buffers, and everything the spans point to, where they are.
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

}  // namespace detail::inline LOD_TARGET

/// A tensor on an array of another library, without a copy except where stated below. The array's lists are levels; the
/// fixed-size ones below the last other list are the dimensions of a row; without lists, an item is a scalar row. The
/// tensor owns the array: its release callback is called exactly once, when the last owner of the memory is gone, or if
/// this function throws. The schema is only read. By Arrow's rules nobody writes to the memory, so the elements are
/// const; `LoDTensor<T>::copy_of` makes a writable copy.
///
/// Accepted: lists (+l), large lists (+L), fixed-size lists (+w:N), elements of all types that `to_arrow` produces, and
/// Arrow's booleans; all of them with array offsets, as slices have, at any depth. Rejected: list views, maps, structs,
/// unions, run-end encoding, dictionaries, 16-bit unsigned integers, text and time, and fixed-size lists of size 0
/// above other lists, whose number no buffer tells. Names of other extension types are ignored: only the storage
/// matters. If T is given explicitly, the names for bool and bfloat16 are ignored too.
///
/// Copied: the offsets of lists whose offsets are 32 bits wide, do not begin at 0 (mostly slices), or are implicit
/// (fixed-size lists above others); booleans that are bits, or bytes that are neither 0 nor 1.
///
/// Throws InvalidLoD for a null sequence, naming level and position, and for offsets that descend or exceed the size of
/// what they index; ShapeMismatch for elements of another type than T and for lengths that do not fit together;
/// std::invalid_argument for other nulls (a validity bitmap is read unless null_count is 0), for rejected types, for
/// memory that the CPU cannot read or that is misaligned, and for structs that are released or malformed. O(sequences);
/// O(elements) if there are bitmaps or the elements are bool.
template <class T, ArrowArrayStruct Array>
LOD_TAGGED LoDTensor<const T> from_arrow(ArrowHandle<Array> array, const ArrowSchema& schema) {
  detail::check_arrow_type<T>();
  const AnyLoDTensor tensor = detail::take_arrow(std::move(array), schema, data_type_v<T>);
  detail::check_element_type<T>(tensor.data_type(), "from_arrow");
  return tensor.as<T>();
}
/// The same with the element type determined at run time.
template <ArrowArrayStruct Array>
LOD_TAGGED AnyLoDTensor from_arrow(ArrowHandle<Array> array, const ArrowSchema& schema) {
  return detail::take_arrow(std::move(array), schema);
}

}  // namespace lod::inline LOD_INTERFACE
