// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that Python owns and that tensors stand on.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

namespace lod_python {

/// Gives a buffer back, from any thread, whether it holds Python's lock or not: the last who shares a tensor's memory
/// may be a thread of another library. At the end of the program, when there is no Python any more, nothing is left to
/// be given back.
struct ReleaseBuffer {
  void operator()(Py_buffer* buffer) const noexcept {
    if (!Py_IsInitialized()) return;
    const pybind11::gil_scoped_acquire lock;
    PyBuffer_Release(buffer);
    delete buffer;
  }
};

/// Keeps the memory of an object by the buffer protocol, and with it the object.
using BufferOwner = std::unique_ptr<Py_buffer, ReleaseBuffer>;

/// Asks the object for its buffer, as it is. Throws TypeError where it has none.
inline BufferOwner get_buffer(pybind11::handle object) {
  auto buffer = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), buffer.get(), PyBUF_FULL_RO) != 0) throw pybind11::error_already_set();
  return BufferOwner(buffer.release());
}

}  // namespace lod_python
