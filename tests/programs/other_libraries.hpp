// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests of operators by the library's own code and by other libraries: oneDNN, and a BLAS.
#pragma once

namespace lod_test {

/// Whether another library runs some operators now, and whether oneDNN does. It allocates some KiB in each run.
inline bool is_by_another = false;
inline bool is_by_dnnl = false;
/// Puts the operators of oneDNN in the place of the library's; false if the tests are built without it.
bool replace_by_dnnl();
/// The same for products of matrices by a BLAS.
bool replace_by_blas();
/// Puts the library's back.
void restore_own_operators();

/// Calls f() with the library's own operators, and with those of another library where it is there.
template <class F>
void by_each_library(const F& f, bool (*replace)() = replace_by_dnnl) {
  struct Own {
    Own() = default;
    Own(const Own&) = delete;
    Own& operator=(const Own&) = delete;
    ~Own() { restore_own_operators(); }
  };
  f();
  const Own again;
  is_by_another = replace();
  if (is_by_another) f();
}

}  // namespace lod_test
