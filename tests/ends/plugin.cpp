// SPDX-License-Identifier: Apache-2.0
// A shared library that is loaded and unloaded: operations by the executor of the program that loads it, of whose
// results the program keeps some.
#include "ends/plugin.hpp"
#ifdef LOD_TEST_FILES
#  include <lod/io/paddle.hpp>

#  include <string>
#endif

void plugin_work(const lod::CpuExecutor& executor, const lod::LoDTensor<float>& x, lod::LoDTensor<float>& y) {
  // Scratch memory, kept objects of a type that only the plugin knows, a new LoD and a new row shape.
  struct Mine {
    int number;
  };
  const lod::LoDTensor<float> same = lod::map_sequences(executor, x, [](const auto& sequence) { return sequence; });
  static_cast<void>(lod::sequence_sort(executor, lod::LoDTensor<float>(lod::LoD::from_lengths({{3000}}), {})));
  static_cast<void>(lod::Workspace::Kept<Mine>(executor.workspace()));
  y = lod::concat(x, same);
  // An executor of the plugin's own, whose threads run its code.
  const lod::CpuExecutor own(2);
  const lod::LoDTensor<float> many(lod::LoD::from_lengths({{300000}}), {2});
  static_cast<void>(lod::sequence_pool(own, many, lod::PoolType::SUM));
}

#ifdef LOD_TEST_FILES
void plugin_load(const char* folder, lod::LoDTensor<float>& y, lod::LoDTensor<float>& z,
                 std::optional<lod::File>& file) {
  const lod::LoDTensor<float> x(lod::LoD::from_lengths({{2, 0}, {2, 3}}), {2});
  const std::string path = std::string(folder) + "/ends_plugin";
  lod::save(path, {{"x", x}});
  file = lod::File::open(path);
  y = file->load<lod::LoDTensor<float>>("x");
  lod::paddle::save_tensor(path, x);
  z = lod::paddle::load_tensor(path).take<float>();
}
#endif
