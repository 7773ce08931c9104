// SPDX-License-Identifier: Apache-2.0
// copy_numpy <from> <to>...: loads files of NumPy, .npy or .npz, and saves what it has loaded. For numpy_test.py.
#include <lod/any_tensor.hpp>
#include <lod/io/npy.hpp>
#ifdef LOD_TEST_NPZ
#  include <lod/io/npz.hpp>
#endif

#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace {

void copy_npz([[maybe_unused]] const std::string& from, [[maybe_unused]] const std::string& to) {
#ifdef LOD_TEST_NPZ
  const auto file = lod::NpzFile::open(from);
  std::map<std::string, lod::AnyLoDTensor> tensors;
  std::map<std::string, lod::AnySelectedRows> rows;
  for (const std::string& name : file.names()) {
    if (file.describe(name).type.type == lod::VarType::SELECTED_ROWS) {
      rows[name] = file.load<lod::AnySelectedRows>(name);
    } else {
      tensors[name] = file.load<lod::AnyLoDTensor>(name);
    }
  }
  std::vector<lod::NpzValue> values;
  for (const auto& [name, value] : tensors) values.emplace_back(name, value);
  for (const auto& [name, value] : rows) values.emplace_back(name, value);
  const bool compress = to.find("compressed") != std::string::npos;
  lod::save_npz(to, values, compress ? lod::NpzCompression::DEFLATED : lod::NpzCompression::STORED);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> paths(argv + 1, argv + argc);
  try {
    for (std::size_t i = 0; i + 1 < paths.size(); i += 2) {
      if (paths[i].ends_with(".npz")) {
        copy_npz(paths[i], paths[i + 1]);
      } else {
        lod::save_npy(paths[i + 1], lod::load_npy(paths[i]));
      }
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
