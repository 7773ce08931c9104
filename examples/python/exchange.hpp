// SPDX-License-Identifier: Apache-2.0
/// @file
/// LoDTensors to other libraries and back, by the protocols that these have in Python: DLPack and Arrow's capsules.
#pragma once

#include "tensor.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <utility>

namespace lod_python {

/// {kDLCPU, 0}.
std::pair<int, int> dlpack_device() noexcept;

/// LoDTensor.__dlpack__: the rows, without levels. BufferError for another device than the CPU, and where the values
/// are read-only and the consumer's version of the protocol cannot say so.
pybind11::capsule to_dlpack(const Tensor& tensor, const pybind11::object& stream,
                            std::optional<std::pair<int, int>> max_version, std::optional<std::pair<int, int>> device,
                            std::optional<bool> copy);
/// LoDTensor.from_dlpack.
Tensor from_dlpack(const pybind11::object& values, const pybind11::object& lod, const pybind11::object& lengths);

/// LoDTensor.__arrow_c_schema__.
pybind11::capsule to_arrow_schema(const Tensor& tensor);
/// LoDTensor.__arrow_c_array__. Other types than our own are not made: a schema that is asked for is not looked at.
pybind11::tuple to_arrow(const Tensor& tensor, const pybind11::object& requested_schema);
/// LoDTensor.from_arrow.
Tensor from_arrow(const pybind11::object& array);

}  // namespace lod_python
