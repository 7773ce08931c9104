// SPDX-License-Identifier: Apache-2.0
/// @file
/// NumPy's files of one array.
#include "target.hpp"
#include <lod/any_tensor.hpp>
#include <lod/error.hpp>
#include <lod/io/npy.hpp>
#include <lod/lod_tensor.hpp>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// A dimension may take two bytes and 8 of memory, three times that when their vector grows.
constexpr lod_fuzz::Bound bound{.times = 12};
/// Of a file small parts are read through a buffer.
constexpr lod_fuzz::Bound bound_of_files{.times = 12, .plus = std::size_t{48} << 10};

/// An array with any header.
std::string npy(const std::string& dictionary, std::size_t bytes_of_values) {
  const char size[] = {static_cast<char>(dictionary.size()), '\0'};
  return std::string("\x93NUMPY\1\0", 8) + std::string(size, 2) + dictionary + std::string(bytes_of_values, '\1');
}

}  // namespace

std::vector<std::string> lod_fuzz::seeds() {
  return {lod::encode_npy(lod::LoDTensor<float>({2, 3})),
          lod::encode_npy(lod::LoDTensor<std::int64_t>({4})),
          lod::encode_npy(lod::LoDTensor<bool>({0, 5})),
          lod::encode_npy(lod::LoDTensor<std::complex<double>>({1, 2, 1})),
          npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3L, 2)}", 24),
          npy("{'shape': (), 'fortran_order': False, 'descr': '|b1'}", 1)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = lod_fuzz::input(data, size);
  const auto tensor = lod_fuzz::attempt<lod::ParseError>(size, bound, [&] { return lod::decode_npy(bytes); });
  const lod_fuzz::UnnamedFile file(bytes);
  const auto loaded =
      lod_fuzz::attempt<lod::ParseError>(size, bound_of_files, [path = file.path()] { return lod::load_npy(path); });
  LOD_FUZZ_EXPECT(loaded.has_value() == tensor.has_value());
  if (!tensor) return 0;
  LOD_FUZZ_EXPECT(tensor->levels() == 0);
  LOD_FUZZ_EXPECT(lod_fuzz::same(*loaded, *tensor));
  LOD_FUZZ_EXPECT(lod_fuzz::same(lod::decode_npy(lod::encode_npy(*tensor)), *tensor));
  return 0;
}
