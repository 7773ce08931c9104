// SPDX-License-Identifier: Apache-2.0
/// @file
/// NumPy's archives of named arrays.
#include "npz.hpp"

#include "target.hpp"
#include <lod/io/npz.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/selected_rows.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

std::vector<std::string> lod_fuzz::seeds() {
  const lod::LoDTensor<float> words(lod::LoD::from_lengths({{2, 0, 1}, {3, 1, 2}}), {2});
  const lod::SelectedRows<double> gradient({4, 0, 4}, 10, {2});
  const lod::LoDTensor<std::int8_t> zeros({4000});
  return {lod::encode_npz({}), lod::encode_npz({{"words", words}, {"gradient", gradient}}),
          lod::encode_npz({{"words", words}, {"gradient", gradient}}, lod::NpzCompression::DEFLATED),
          lod::encode_npz({{"zeros", zeros}}, lod::NpzCompression::DEFLATED)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lod_fuzz::check_archive(lod_fuzz::input(data, size));
  return 0;
}
