// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests of operators on images, by the library's own code and by oneDNN.
#pragma once

namespace lod_test {

/// Whether oneDNN runs them now. It allocates some KiB in each run.
inline bool is_by_dnnl = false;
/// Puts the operators of oneDNN in the place of the library's; false if the tests are built without it.
bool replace_by_dnnl();
/// Puts the library's back.
void restore_own_operators();

/// Calls f() with the library's own operators, and with oneDNN's where it is there.
template <class F>
void by_each_library(const F& f) {
  struct Own {
    Own() = default;
    Own(const Own&) = delete;
    Own& operator=(const Own&) = delete;
    ~Own() { restore_own_operators(); }
  };
  f();
  const Own again;
  if (replace_by_dnnl()) f();
}

}  // namespace lod_test
