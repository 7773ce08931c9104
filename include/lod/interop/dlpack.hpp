// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The doorway to DLPack, by which array libraries exchange memory without copying it: the values of a tensor and the
/// offsets of its levels, both ways. This header is for CPU memory, <lod/cuda/dlpack.hpp> for GPU memory.
///
/// A struct of DLPack describes one dense array, so a LoD tensor is exported as several of them:
///
///     auto values = lod::to_dlpack(x);             // {15, row shape...}
///     auto offsets = lod::to_dlpack(x.lod(), 1);   // {7}: 0 3 5 9 10 12 15
///     other_library(values.release(), offsets.release());
///
/// and imported from several of them:
///
///     lod::DLPackHandle<> values(from_other_library());
///     auto x = lod::from_dlpack<float>(std::move(values), lod::lod_from_dlpack(std::move(offsets)));
///
/// Both structs of the protocol are supported: DLManagedTensor, and DLManagedTensorVersioned, which headers of DLPack
/// 1.0 and later have (`to_dlpack<DLManagedTensorVersioned>(x)`). Only the second can mark memory as read-only. If
/// read-only memory (values of const T, and always offsets) is exported with the first, the consumer has to know that
/// by other means.
///
/// Some things cannot be checked and are taken on trust: that a struct's pointers lead to as much memory as its shape
/// says, that its deleter follows the protocol, and that the bytes of a bool are 0 or 1.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/interop/dlpack/array.hpp>

#include <dlpack/dlpack.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// A struct of the protocol with a deleter for its memory: DLManagedTensor or DLManagedTensorVersioned.
template <class X>
concept DLPackManaged = requires(X& tensor) {
  { tensor.dl_tensor } -> std::same_as<DLTensor&>;
  tensor.manager_ctx;
  tensor.deleter(&tensor);
};

/// Deletes structs of the protocol, as std::unique_ptr requires.
struct DLPackDeleter {
  /// Calls the struct's deleter; some have none.
  template <DLPackManaged Managed>
  LOD_TAGGED void operator()(Managed* tensor) const noexcept {
    if (tensor->deleter) tensor->deleter(tensor);
  }
};

/// Owns a struct of the protocol: its deleter is called once, unless `release()` has given the struct away. From a bare
/// pointer of another library: `DLPackHandle<>(pointer)`.
template <DLPackManaged Managed = DLManagedTensor>
using DLPackHandle = std::unique_ptr<Managed, DLPackDeleter>;

namespace detail::inline LOD_TARGET {

template <class Managed>
inline constexpr bool has_dlpack_version = requires(Managed& tensor) {
  tensor.version.major;
  tensor.flags;
};
/// The version of the protocol implemented here, and the flag of read-only memory.
inline constexpr std::uint32_t dlpack_major = 1;
inline constexpr std::uint32_t dlpack_minor = 1;
inline constexpr std::uint64_t dlpack_read_only = 1;

/// An exported struct, with everything it points to and the owner of its memory.
template <class Managed, class Owner>
struct DLPackBlock {
  explicit DLPackBlock(Owner&& kept) : owner(std::move(kept)) {}
  Managed tensor{};
  Owner owner;
  std::int64_t shape[Shape::max_rank];
  std::int64_t strides[Shape::max_rank];
};

/// A dense array of `shape`, of rank 1 at least, at `data`, which `owner` keeps alive.
template <DLPackManaged Managed, class Owner>
DLPackHandle<Managed> give_dlpack(const void* data, const Shape& shape, DataType type, DLDevice device, bool read_only,
                                  Owner owner) {
  using Block = DLPackBlock<Managed, Owner>;
  auto block = std::make_unique<Block>(std::move(owner));
  std::int64_t stride = 1;
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    block->shape[dim] = shape[dim];
    block->strides[dim] = stride;
    stride *= shape[dim];
  }
  Managed& tensor = block->tensor;
  DLTensor& array = tensor.dl_tensor;
  array.data = shape.elements() > 0 ? const_cast<void*>(data) : nullptr;
  array.device = device;
  array.ndim = static_cast<int>(shape.size());
  array.dtype = dlpack_type(type);
  array.shape = block->shape;
  array.strides = block->strides;
  if constexpr (has_dlpack_version<Managed>) {
    tensor.version.major = dlpack_major;
    tensor.version.minor = dlpack_minor;
    tensor.flags = read_only ? dlpack_read_only : 0;
  }
  tensor.deleter = [](Managed* self) { delete static_cast<Block*>(self->manager_ctx); };
  tensor.manager_ctx = block.get();
  return DLPackHandle<Managed>(&block.release()->tensor);
}

inline constexpr DLDevice dlpack_cpu{kDLCPU, 0};

/// All rows of x, which keeps their memory alive.
template <DLPackManaged Managed, class T>
DLPackHandle<Managed> give_dlpack(LoDTensor<T> x) {
  const void* const data = x.data();
  const Shape shape = x.shape();
  return give_dlpack<Managed>(data, shape, data_type_v<T>, dlpack_cpu, std::is_const_v<T>, std::move(x));
}

/// Throws std::invalid_argument for a null pointer, and for a struct of another major version, of which only the
/// deleter may be touched.
template <class Managed>
void check_given(const Managed* tensor, const char* what) {
  if (!tensor) throw std::invalid_argument(text({what, ": no tensor"}));
  if constexpr (has_dlpack_version<Managed>) {
    if (tensor->version.major != dlpack_major) {
      throw std::invalid_argument(
          text({what, ": version ", tensor->version.major, " of DLPack, expected ", dlpack_major}));
    }
  }
}
template <class Managed>
bool is_read_only(const Managed& tensor) noexcept {
  if constexpr (has_dlpack_version<Managed>) {
    return (tensor.flags & dlpack_read_only) != 0;
  } else {
    return false;
  }
}

/// The array of a tensor in CPU-readable memory, as returned by read(its DLTensor). Throws as `from_dlpack` does.
template <class Managed, class Read>
DLPackArray read_on_cpu(const Managed* tensor, const char* what, const Read& read) {
  check_given(tensor, what);
  const DLDevice device = tensor->dl_tensor.device;
  // CPU memory, CPU memory pinned for CUDA or for ROCm, and memory that CUDA migrates to its reader.
  if (device.device_type != kDLCPU && device.device_type != kDLCUDAHost && device.device_type != kDLROCMHost &&
      device.device_type != kDLCUDAManaged) {
    throw std::invalid_argument(
        text({what, ": memory of device type ", static_cast<int>(device.device_type), ", which the CPU cannot read"}));
  }
  return read(tensor->dl_tensor, what);
}

/// Throws unless T is the type of the elements, and const if they are read-only.
template <class T, class Managed>
void check_elements(const DLPackArray& array, const Managed& tensor, const char* what) {
  check_element_type<T>(array.type, what);
  if (is_read_only(tensor) && !std::is_const_v<T>) {
    throw std::invalid_argument(text({what, ": the memory is read-only; from_dlpack<const T> takes it"}));
  }
}

/// A tensor on the array, in memory of the device of `resource`. Throws if `lod` or the address does not fit.
template <class T, class Device, class Owner>
LoDTensor<T, Device> take_dlpack(const DLPackArray& array, LoD lod, Owner owner,
                                 typename Device::memory_resource* resource, const char* what) {
  return with_name(what, [&] {
    return wrap_rows<T, Device>(static_cast<T*>(array.data), array.rows(), std::move(lod), array.shape.without_first(),
                                std::move(owner), resource);
  });
}
/// The same for an array in memory that the CPU can read.
template <class T, class Managed>
LoDTensor<T> take_dlpack_on_cpu(DLPackHandle<Managed> tensor, LoD lod, const char* what) {
  const DLPackArray array = read_on_cpu(tensor.get(), what, read_dlpack);
  check_elements<T>(array, *tensor, what);
  return take_dlpack<T, Cpu>(array, std::move(lod), std::move(tensor), Cpu::default_resource(), what);
}

}  // namespace detail::inline LOD_TARGET

/// The values of x as a dense array {rows, row shape...}, without a copy. The array shares the memory of x, or takes it
/// over from a temporary; it keeps that memory alive, unless it is memory that the user wrapped without an owner.
/// Writes to one are seen in the other; from a const tensor, or one of const T, the array is read-only (see above for
/// how far that can be expressed). Its strides are given explicitly; its data pointer is null if there are no elements.
/// Levels are not part of it: `to_dlpack(x.lod(), level)`. O(1), one allocation.
template <DLPackManaged Managed = DLManagedTensor, class T>
LOD_TAGGED DLPackHandle<Managed> to_dlpack(LoDTensor<T>& x) {
  return detail::give_dlpack<Managed>(x.with_lod(LoD()));
}
template <DLPackManaged Managed = DLManagedTensor, class T>
LOD_TAGGED DLPackHandle<Managed> to_dlpack(const LoDTensor<T>& x) {
  return detail::give_dlpack<Managed>(x.with_lod(LoD()));
}
template <DLPackManaged Managed = DLManagedTensor, class T>
LOD_TAGGED DLPackHandle<Managed> to_dlpack(LoDTensor<T>&& x) {
  return detail::give_dlpack<Managed>(std::move(x).with_lod(LoD()));
}
/// The same for a view or a slice: the array begins at its first row. `owner` (a tensor, a shared pointer, ...) keeps
/// the rows alive, and is destroyed with the array.
template <DLPackManaged Managed = DLManagedTensor, class T, class Owner>
LOD_TAGGED DLPackHandle<Managed> to_dlpack(const LoDTensorView<T>& x, Owner owner) {
  return detail::give_dlpack<Managed>(x.data(), x.shape(), data_type_v<T>, detail::dlpack_cpu, std::is_const_v<T>,
                                      std::move(owner));
}
/// The same for a tensor whose element type is known at run time: the array shares its memory, and is read-only if that
/// is. SIZE_T becomes 64-bit unsigned integers.
template <DLPackManaged Managed = DLManagedTensor>
LOD_TAGGED DLPackHandle<Managed> to_dlpack(const AnyLoDTensor& x) {
  return detail::give_dlpack<Managed>(x.bytes().data(), x.shape(), x.data_type(), detail::dlpack_cpu, x.read_only(), x);
}

/// The offsets of a level as an array of size(level) + 1 INT64, without a copy. It keeps the LoD alive, and is
/// read-only: a LoD never changes, and writing to the array would break all tensors that share the LoD. Throws
/// OutOfRange for a level that does not exist. O(1), one allocation.
template <DLPackManaged Managed = DLManagedTensor>
LOD_TAGGED DLPackHandle<Managed> to_dlpack(const LoD& lod, int level) {
  const auto offsets = lod.offsets(level);
  return detail::give_dlpack<Managed>(offsets.data(), Shape{static_cast<std::int64_t>(offsets.size())}, DataType::INT64,
                                      detail::dlpack_cpu, true, lod);
}

/// A tensor on another library's array, without a copy: dimension 0 is the rows of `lod`, the others are the row shape;
/// without a level, the array is a plain tensor, and one of rank 0 a scalar row. The tensor owns the array: the deleter
/// is called exactly once, when the last owner of the memory is gone, at once if there are no elements, or if this
/// throws. For T without const, the other library sees what is written to the tensor.
///
/// The array must be in memory that the CPU can read: its own, pinned, or managed by CUDA; in the last case the caller
/// must have waited for CUDA's work on it. It must be compact and row-major: its strides are null, or those of its
/// shape (those of dimensions of size 1, and of an array without elements, are ignored); `copy_dlpack` accepts others.
///
/// Throws ShapeMismatch for elements of another type than T, for strides that leave gaps, for more than
/// `Shape::max_rank` dimensions, and if `lod` is for another number of rows; std::invalid_argument for memory of
/// another device, without an address, not aligned for its elements, or read-only although T is not const, for elements
/// that have no DataType, and for another major version of DLPack. O(1).
template <class T, DLPackManaged Managed>
LOD_TAGGED LoDTensor<T> from_dlpack(DLPackHandle<Managed> tensor, LoD lod = LoD()) {
  return detail::take_dlpack_on_cpu<T>(std::move(tensor), std::move(lod), "from_dlpack");
}
/// The same with the element type determined at run time; read-only if the memory is marked so, and for the 8-bit
/// floating-point types, which have no C++ type.
template <DLPackManaged Managed>
LOD_TAGGED AnyLoDTensor from_dlpack(DLPackHandle<Managed> tensor, LoD lod = LoD()) {
  const detail::DLPackArray array = detail::read_on_cpu(tensor.get(), "from_dlpack", detail::read_dlpack);
  if (array.type == DataType::FP8_E4M3FN || array.type == DataType::FP8_E5M2) {
    detail::with_name("from_dlpack", [&] { detail::check_rows(lod, array.rows()); });
    const std::span<const std::byte> bytes{static_cast<const std::byte*>(array.data),
                                           static_cast<std::size_t>(array.shape.elements())};
    return AnyLoDTensor::wrap(array.type, bytes, std::move(lod), array.shape.without_first(), std::move(tensor),
                              array.rows());
  }
  const bool read_only = detail::is_read_only(*tensor);
  return detail::with_element_type(array.type, [&](auto element) {
    using T = typename decltype(element)::type;
    Cpu::memory_resource* const resource = Cpu::default_resource();
    return read_only ? AnyLoDTensor(detail::take_dlpack<const T, Cpu>(array, std::move(lod), std::move(tensor),
                                                                      resource, "from_dlpack"))
                     : AnyLoDTensor(detail::take_dlpack<T, Cpu>(array, std::move(lod), std::move(tensor), resource,
                                                                "from_dlpack"));
  });
}

/// A tensor with values of its own, copied from another library's array, which may have any strides: columns of a
/// matrix, its transpose, every other row, rows in reverse order (negative strides), one row many times (a stride of
/// 0), or memory that is misaligned or read-only. Dimensions are as for `from_dlpack`. The deleter is called once,
/// before this returns or throws. That there is memory wherever strides lead is taken on trust here too.
///
/// Throws as `from_dlpack` does, except for strides, alignment and read-only memory; ShapeMismatch for strides that
/// lead out of the address space. One pass over the elements, at memory speed if those of the last dimension are
/// contiguous.
template <DLPackManaged Managed>
LOD_TAGGED AnyLoDTensor copy_dlpack(DLPackHandle<Managed> tensor, LoD lod = LoD()) {
  const detail::DLPackArray array =
      detail::read_on_cpu(tensor.get(), "copy_dlpack", detail::read_dlpack_with_any_strides);
  detail::with_name("copy_dlpack", [&] { detail::check_rows(lod, array.rows()); });
  if (array.shape.elements() == 0) {
    return AnyLoDTensor(array.type, std::move(lod), array.shape.without_first(), uninitialized, array.rows());
  }
  const std::vector<detail::DLPackSteps> steps = detail::dlpack_steps(tensor->dl_tensor, array);
  AnyLoDTensor copy(array.type, std::move(lod), array.shape.without_first(), uninitialized, array.rows());
  detail::copy_steps(size_of(array.type), static_cast<const std::byte*>(array.data), copy.mutable_bytes().data(),
                     steps);
  return copy;
}
/// The same. Throws ShapeMismatch for elements of another type than T.
template <class T, DLPackManaged Managed>
LOD_TAGGED LoDTensor<T> copy_dlpack(DLPackHandle<Managed> tensor, LoD lod = LoD()) {
  static_assert(!std::is_const_v<T>, "a copy has values of its own, which can be written to");
  const detail::DLPackArray array =
      detail::read_on_cpu(tensor.get(), "copy_dlpack", detail::read_dlpack_with_any_strides);
  detail::check_element_type<T>(array.type, "copy_dlpack");
  return copy_dlpack(std::move(tensor), std::move(lod)).template take<T>();
}

/// A LoD on arrays of another library, outermost level first: each has one dimension and elements of type INT64, the
/// offsets of a level. They are not copied; their deleters are called when the last owner of the LoD is gone, and if
/// this throws. The other library must not write to them any more. Throws InvalidLoD as `LoD::from_offsets` does,
/// ShapeMismatch and std::invalid_argument as `from_dlpack` does, and ShapeMismatch for any other rank. O(sequences).
template <DLPackManaged Managed>
LOD_TAGGED LoD lod_from_dlpack(std::vector<DLPackHandle<Managed>> offsets) {
  std::vector<LoDTensor<const std::int64_t>> arrays;
  std::vector<std::span<const std::int64_t>> levels;
  arrays.reserve(offsets.size());
  for (auto& level : offsets) {
    const std::string what = detail::text({"lod_from_dlpack: level ", levels.size()});
    auto& array =
        arrays.emplace_back(detail::take_dlpack_on_cpu<const std::int64_t>(std::move(level), LoD(), what.c_str()));
    if (!array.row_shape().empty()) {
      throw ShapeMismatch(
          detail::text({what, " has the shape ", to_string(array.shape()), ", expected one dimension"}));
    }
    levels.push_back(array.values());
  }
  return detail::with_name("lod_from_dlpack", [&] { return LoD::wrap(levels, std::move(arrays)); });
}

}  // namespace lod::inline LOD_INTERFACE
