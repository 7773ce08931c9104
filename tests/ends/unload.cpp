// SPDX-License-Identifier: Apache-2.0
// unload <shared library> <folder>: loads it, works with it, unloads it; then all that it has made is used and goes.
// Ends with status 0 where nothing goes wrong.
#include "ends/plugin.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#ifdef LOD_TEST_FILES
#  include <optional>
#endif

namespace {

/// A function of a loaded library.
template <class Function>
Function* function(void* library, const char* name) {
  void* const symbol = dlsym(library, name);
  Function* found = nullptr;
  std::memcpy(&found, &symbol, sizeof found);
  return found;
}

}  // namespace

int main(int, char** arguments) {
  const lod::CpuExecutor executor(2);
  const lod::LoDTensor<float> x(lod::LoD::from_lengths({{2, 0, 3}}), {2});
  lod::LoDTensor<float> y;
  for (int round = 0; round < 2; ++round) {
    void* const plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) return std::puts(dlerror()), 1;
    function<decltype(plugin_work)>(plugin, "plugin_work")(executor, x, y);
#ifdef LOD_TEST_FILES
    lod::LoDTensor<float> loaded, of_paddle;
    std::optional<lod::File> file;
    function<decltype(plugin_load)>(plugin, "plugin_load")(arguments[2], loaded, of_paddle, file);
#endif
    dlclose(plugin);
    if (dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD)) return std::puts("it is still loaded"), 1;
    // Scratch memory that the plugin has left is lent; what it made is copied, shared and given back.
    const auto sorted = lod::sequence_sort(executor, lod::LoDTensor<float>(lod::LoD::from_lengths({{4000}}), {}));
    const lod::LoD shared = y.lod();
    const lod::LoDTensor<float> copy = y;
    y = lod::LoDTensor<float>();
    if (shared.size(0) != copy.size() || sorted.rows() != 4000) return 1;
    executor.workspace().release();
#ifdef LOD_TEST_FILES
    if (file->load<lod::LoDTensor<float>>("x").lod() != loaded.lod() || loaded.lod() != of_paddle.lod()) return 1;
#endif
  }
}
