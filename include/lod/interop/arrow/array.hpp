// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Tensors as Arrow arrays: the same memory, described by Arrow's structs.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/interop/arrow/abi.hpp>
#include <lod/interop/arrow/schema.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace lod::inline LOD_INTERFACE {

namespace detail::inline LOD_TARGET {

/// Keeps exported memory alive until its last user is gone.
using ArrowOwner = Reference<const Shared>;

template <class Owner>
ArrowOwner share_owner(Owner owner) {
  return ArrowOwner::adopt(new OwnerBlock<Owner>(std::move(owner)));
}

/// The buffers of a struct: no validity bitmap, since nothing is null, and perhaps a second buffer.
struct ArrowBuffers {
  ArrowOwner owner;
  const void* buffers[2];
};

inline ArrowHandle<ArrowArray> arrow_level(ArrowHandle<ArrowArray> child, std::int64_t length, std::int64_t n_buffers,
                                           const void* buffer, ArrowOwner owner) {
  auto [array, kept] = arrow_parent(std::move(child), ArrowBuffers{std::move(owner), {nullptr, buffer}});
  array.get()->length = length;
  array.get()->n_buffers = n_buffers;
  array.get()->buffers = kept->buffers;
  return std::move(array);
}

/// Rows, the first of which begins at `first_value`, under levels whose offsets the consumer finds at `place(offsets)`.
/// `nothing` is the buffer to use if there are no values.
template <class Place>
ArrowHandle<ArrowArray> arrow_of(DataType type, const LoDView& lod, const Shape& row_shape, const void* first_value,
                                 const void* nothing, const ArrowOwner& owner, const Place& place) {
  // The offsets of a list count from the first item of its child. So the child of a part's level is the whole tensor,
  // from its first row to the last row of the part.
  const bool nested = lod.levels() > 0;
  const std::int64_t rows = nested ? lod.last_row() : lod.rows();
  const std::int64_t elements = rows * row_shape.elements();
  const void* values = nothing;
  if (elements > 0) {
    const std::int64_t before = nested ? lod.first_row() * row_shape.elements() : 0;
    values = static_cast<const std::byte*>(first_value) - before * static_cast<std::int64_t>(size_of(type));
  }
  auto array = arrow_level({}, elements, 2, values, owner);
  for (std::size_t dim = row_shape.size(); dim-- > 0;) {
    std::int64_t lists = rows;
    for (std::size_t above = 0; above < dim; ++above) lists *= row_shape[above];
    array = arrow_level(std::move(array), lists, 1, nullptr, owner);
  }
  for (int level = lod.levels(); level-- > 0;) {
    const std::int64_t* offsets = lod.offsets(level).data();
    std::int64_t sequences = lod.size(level);
    if (level > 0) {
      const auto above = lod.offsets(level - 1);
      offsets -= above.front();
      sequences = above.back();
    }
    array = arrow_level(std::move(array), sequences, 2, place(offsets), owner);
  }
  return array;
}

/// The array itself, or wrapped in the struct that says which device's memory it is in.
template <ArrowArrayStruct Array>
ArrowHandle<Array> arrow_on(ArrowHandle<ArrowArray> array, [[maybe_unused]] ArrowDeviceType type,
                            [[maybe_unused]] std::int64_t device) {
  if constexpr (std::same_as<Array, ArrowArray>) {
    return array;
  } else {
    ArrowDeviceArray on_device{};
    array.move_to(&on_device.array);
    on_device.device_id = device;
    on_device.device_type = type;
    return ArrowHandle<ArrowDeviceArray>(&on_device);
  }
}

/// An empty buffer. The specification allows null there; not all consumers do.
alignas(64) inline constexpr std::byte empty_arrow_buffer[64] = {};

/// The device number that other implementations use for the CPU.
inline constexpr std::int64_t arrow_cpu = -1;

template <ArrowArrayStruct Array>
ArrowHandle<Array> arrow_on_cpu(DataType type, const LoDView& lod, const Shape& row_shape, const void* first_value,
                                const ArrowOwner& owner) {
  const auto in_place = [](const std::int64_t* offsets) { return offsets; };
  return arrow_on<Array>(arrow_of(type, lod, row_shape, first_value, empty_arrow_buffer, owner, in_place),
                         ARROW_DEVICE_CPU, arrow_cpu);
}

template <ArrowArrayStruct Array, class T>
ArrowHandle<Array> give_arrow(LoDTensor<T> x) {
  check_arrow_type<T>();
  const ArrowOwner owner = share_owner(std::move(x));
  const LoDTensor<T>& kept = static_cast<const OwnerBlock<LoDTensor<T>>*>(owner.get())->owner;
  return arrow_on_cpu<Array>(data_type_v<T>, kept.lod_view(), kept.row_shape(), kept.data(), owner);
}

}  // namespace detail::inline LOD_TARGET

/// x as an Arrow array, without a copy: large lists of large lists ... of fixed-size lists ... of elements, of the type
/// that `arrow_schema(x)` describes. It has as many items as x has sequences at its outermost level, or rows if it has
/// no level. The array shares the memory of x, offsets included, or takes it over from a temporary; it keeps that
/// memory alive, unless it is memory that the user wrapped without an owner. By Arrow's rules nobody writes to it any
/// more. `Array` may be ArrowDeviceArray: the same, marked as CPU memory.
///
/// Elements: bool becomes the extension type arrow.bool8, one byte each, since Arrow's own booleans are bits. float16
/// is Arrow's. bfloat16 becomes binary values of two bytes under the name that Lance uses, lance.bfloat16: Arrow has no
/// type for it. It has none for complex numbers either; these do not compile. O(levels + dimensions) time and memory.
template <ArrowArrayStruct Array = ArrowArray, class T>
LOD_TAGGED ArrowHandle<Array> to_arrow(const LoDTensor<T>& x) {
  return detail::give_arrow<Array>(x.with_lod(x.lod()));
}
template <ArrowArrayStruct Array = ArrowArray, class T>
LOD_TAGGED ArrowHandle<Array> to_arrow(LoDTensor<T>&& x) {
  return detail::give_arrow<Array>(std::move(x));
}
/// The same for a view or a slice: its sequences, with their offsets in the whole tensor, so that the consumer can
/// reach all rows of that tensor up to the last one of the slice. `owner` (a tensor, a shared pointer, ...) keeps the
/// values of the whole tensor alive; the LoD is kept alive in any case.
template <ArrowArrayStruct Array = ArrowArray, class T, class Owner>
LOD_TAGGED ArrowHandle<Array> to_arrow(const LoDTensorView<T>& x, Owner owner) {
  detail::check_arrow_type<T>();
  const auto levels = detail::Reference<const detail::LoDBlock>::share(x.lod_view().block());
  return detail::arrow_on_cpu<Array>(data_type_v<T>, x.lod_view(), x.row_shape(), x.data(),
                                     detail::share_owner(std::pair(std::move(owner), levels)));
}
/// The same for a tensor whose element type is known at run time. Throws std::invalid_argument for complex numbers and
/// 8-bit floating point.
template <ArrowArrayStruct Array = ArrowArray>
LOD_TAGGED ArrowHandle<Array> to_arrow(const AnyLoDTensor& x) {
  detail::check_arrow_type(x.data_type());
  const LoDView levels = x.levels() > 0 ? x.lod().view() : LoDView::plain(0, x.rows());
  return detail::arrow_on_cpu<Array>(x.data_type(), levels, x.row_shape(), x.bytes().data(), detail::share_owner(x));
}

}  // namespace lod::inline LOD_INTERFACE
