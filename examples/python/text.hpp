// SPDX-License-Identifier: Apache-2.0
/// @file
/// Texts of the library as Python's.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace lod_python {

/// A text of the library, which is of any bytes. Python's has those that are not UTF-8 as it has them in paths
/// ("surrogateescape"), so that all come back as they were.
struct Text {
  std::string bytes;
};

}  // namespace lod_python

template <>
struct pybind11::detail::type_caster<lod_python::Text> {
  PYBIND11_TYPE_CASTER(lod_python::Text, const_name("str"));

  bool load(handle from, bool) {
    if (!PyUnicode_Check(from.ptr())) return false;
    const auto encoded =
        reinterpret_steal<pybind11::bytes>(PyUnicode_AsEncodedString(from.ptr(), "utf-8", "surrogateescape"));
    if (!encoded) throw error_already_set();
    value.bytes = encoded;
    return true;
  }
  static handle cast(const lod_python::Text& text, return_value_policy, handle) {
    return PyUnicode_DecodeUTF8(text.bytes.data(), static_cast<Py_ssize_t>(text.bytes.size()), "surrogateescape");
  }
};
