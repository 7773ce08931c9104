// SPDX-License-Identifier: Apache-2.0
#include "exchange.hpp"

#include <lod/arrow.hpp>
#include <lod/dlpack.hpp>

#include <cerrno>
#include <complex>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace py = pybind11;

namespace lod_python {

// ---- DLPack ----

namespace {

/// DLManagedTensorVersioned, which headers of DLPack before 1.0 lack.
struct Versioned {
  struct Version {
    std::uint32_t major;
    std::uint32_t minor;
  };
  Version version;
  void* manager_ctx;
  void (*deleter)(Versioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
constexpr std::uint64_t is_copied_flag = 2;

/// What the capsules of a struct are called: as they are given, and once their content is taken.
template <class Managed>
inline constexpr const char* capsule_name = "dltensor";
template <class Managed>
inline constexpr const char* used_name = "used_dltensor";
template <>
inline constexpr const char* capsule_name<Versioned> = "dltensor_versioned";
template <>
inline constexpr const char* used_name<Versioned> = "used_dltensor_versioned";

template <class Managed>
py::capsule give(lod::DLPackHandle<Managed> tensor) {
  PyObject* const capsule = PyCapsule_New(tensor.get(), capsule_name<Managed>, [](PyObject* self) noexcept {
    if (!PyCapsule_IsValid(self, capsule_name<Managed>)) return;  // somebody has taken the content
    const lod::DLPackHandle<Managed> left(static_cast<Managed*>(PyCapsule_GetPointer(self, capsule_name<Managed>)));
  });
  if (!capsule) throw py::error_already_set();
  static_cast<void>(tensor.release());
  return py::reinterpret_steal<py::capsule>(capsule);
}

template <class Managed>
lod::DLPackHandle<Managed> take(const py::object& capsule) {
  lod::DLPackHandle<Managed> tensor(static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), capsule_name<Managed>)));
  if (!tensor) throw py::error_already_set();
  if (PyCapsule_SetName(capsule.ptr(), used_name<Managed>) != 0) {
    static_cast<void>(tensor.release());  // it is the capsule's still
    throw py::error_already_set();
  }
  return tensor;
}

lod::AnyLoDTensor copy_of(const lod::AnyLoDTensor& rows) {
  lod::AnyLoDTensor copy(rows.data_type(), lod::LoD(), rows.row_shape(), lod::uninitialized, rows.rows());
  if (!rows.bytes().empty()) std::memcpy(copy.mutable_bytes().data(), rows.bytes().data(), rows.bytes().size());
  return copy;
}

/// What `__dlpack__` of an object gives for a consumer that knows version 1, and for one that does not if the object
/// has not heard of versions.
py::object ask_for_dlpack(const py::object& values) {
  try {
    return values.attr("__dlpack__")(py::arg("max_version") = py::make_tuple(1, 1));
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return values.attr("__dlpack__")();
}

}  // namespace

std::pair<int, int> dlpack_device() noexcept { return {kDLCPU, 0}; }

py::capsule to_dlpack(const Tensor& tensor, const py::object& stream, std::optional<std::pair<int, int>> max_version,
                      std::optional<std::pair<int, int>> device, std::optional<bool> copy) {
  if (!stream.is_none()) throw py::buffer_error("the values are in memory of the CPU, where there are no streams");
  if (device.value_or(dlpack_device()) != dlpack_device()) {
    throw py::buffer_error("the values are in memory of the CPU, and go to no other device");
  }
  const bool copied = copy.value_or(false);
  const lod::AnyLoDTensor rows = copied ? copy_of(tensor.rows()) : tensor.rows();
  if (max_version && max_version->first >= 1) {
    auto managed = lod::to_dlpack<Versioned>(rows);
    if (copied) managed->flags |= is_copied_flag;
    return give(std::move(managed));
  }
  if (rows.read_only()) {
    throw py::buffer_error("the values are read-only, which DLPack before version 1 cannot say; ask for copy=True");
  }
  return give(lod::to_dlpack(rows));
}

Tensor from_dlpack(const py::object& values, const py::object& lod, const py::object& lengths) {
  lod::LoD levels = to_lod(lod, lengths);
  const py::object capsule = py::isinstance<py::capsule>(values) ? values : ask_for_dlpack(values);
  if (PyCapsule_IsValid(capsule.ptr(), capsule_name<Versioned>)) {
    return Tensor(lod::from_dlpack(take<Versioned>(capsule), std::move(levels)));
  }
  return Tensor(lod::from_dlpack(take<DLManagedTensor>(capsule), std::move(levels)));
}

// ---- Arrow ----

// Arrow's C stream interface: an ABI, as the specification lays it out.
#ifndef ARROW_C_STREAM_INTERFACE
#  define ARROW_C_STREAM_INTERFACE
extern "C" {
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
}
#endif

namespace {

template <class Struct>
inline constexpr const char* arrow_name = nullptr;
template <>
inline constexpr const char* arrow_name<ArrowSchema> = "arrow_schema";
template <>
inline constexpr const char* arrow_name<ArrowArray> = "arrow_array";

template <class Struct>
py::capsule give(lod::ArrowHandle<Struct> handle) {
  auto kept = std::make_unique<Struct>();
  handle.move_to(kept.get());
  PyObject* const capsule = PyCapsule_New(kept.get(), arrow_name<Struct>, [](PyObject* self) noexcept {
    const std::unique_ptr<Struct> left(static_cast<Struct*>(PyCapsule_GetPointer(self, arrow_name<Struct>)));
    lod::ArrowHandle<Struct>(left.get()).reset();
  });
  if (!capsule) throw py::error_already_set();
  static_cast<void>(kept.release());
  return py::reinterpret_steal<py::capsule>(capsule);
}

/// The struct in a capsule, which owns it.
template <class Struct>
Struct* content(const py::object& capsule, const char* name) {
  void* const found = PyCapsule_GetPointer(capsule.ptr(), name);
  if (!found) throw py::error_already_set();
  return static_cast<Struct*>(found);
}

/// The only array of a stream.
Tensor from_stream(ArrowArrayStream& stream) {
  const auto check = [&](int error) {
    if (error == 0) return;
    const char* const why = stream.get_last_error(&stream);
    throw py::value_error(std::string("from_arrow: ") + (why ? why : std::strerror(error)));
  };
  lod::ArrowHandle<ArrowSchema> schema;
  lod::ArrowHandle<ArrowArray> array, further;
  check(stream.get_schema(&stream, schema.get()));
  check(stream.get_next(&stream, array.get()));
  if (array) check(stream.get_next(&stream, further.get()));
  if (!array || further) {
    throw py::value_error(std::string("from_arrow: a stream of ") + (further ? "several arrays" : "no array") +
                          ", expected one: combine its chunks first");
  }
  return Tensor(lod::from_arrow(std::move(array), *schema));
}

}  // namespace

py::capsule to_arrow_schema(const Tensor& tensor) {
  return give(lod::arrow_schema(tensor.data_type(), tensor.part().levels(), tensor.whole().row_shape()));
}

py::tuple to_arrow(const Tensor& tensor, const py::object&) {
  auto schema = to_arrow_schema(tensor);  // which throws for element types that Arrow lacks
  auto array = tensor.visit([&](const auto& view) -> lod::ArrowHandle<ArrowArray> {
    using T = typename std::remove_cvref_t<decltype(view)>::value_type;
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      return {};
    } else {
      return lod::to_arrow(view, tensor.whole());
    }
  });
  return py::make_tuple(std::move(schema), give(std::move(array)));
}

Tensor from_arrow(const py::object& array) {
  if (py::hasattr(array, "__arrow_c_array__")) {
    const py::tuple capsules = array.attr("__arrow_c_array__")();
    auto* const schema = content<const ArrowSchema>(capsules[0], arrow_name<ArrowSchema>);
    lod::ArrowHandle<ArrowArray> handle(content<ArrowArray>(capsules[1], arrow_name<ArrowArray>));
    return Tensor(lod::from_arrow(std::move(handle), *schema));
  }
  const py::object capsule = array.attr("__arrow_c_stream__")();
  return from_stream(*content<ArrowArrayStream>(capsule, "arrow_array_stream"));
}

}  // namespace lod_python
