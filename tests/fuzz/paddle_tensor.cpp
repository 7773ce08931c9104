// SPDX-License-Identifier: Apache-2.0
/// @file
/// The bytes in which PaddlePaddle saves a tensor, in both orders.
#include "target.hpp"
#include <lod/any_tensor.hpp>
#include <lod/error.hpp>
#include <lod/io/paddle.hpp>
#include <lod/io/paddle_stream.hpp>
#include <lod/lod_tensor.hpp>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paddle = lod::paddle;

namespace {

/// A dimension may take one byte and 8 of memory, three times that when their vector grows.
constexpr lod_fuzz::Bound bound{.times = 24};
/// Of a file small parts are read through a buffer.
constexpr lod_fuzz::Bound bound_of_files{.times = 24, .plus = std::size_t{48} << 10};

}  // namespace

std::vector<std::string> lod_fuzz::seeds() {
  const auto lod = lod::LoD::from_lengths({{2, 0, 1}, {3, 1, 2}});
  std::vector<lod::AnyLoDTensor> tensors;
  tensors.push_back(lod::LoDTensor<float>(lod, {2}));
  tensors.push_back(lod::LoDTensor<std::int64_t>(lod, {}));
  tensors.push_back(lod::LoDTensor<bool>({3}));
  tensors.push_back(lod::LoDTensor<lod::float16>({2, 2, 2}));
  tensors.push_back(lod::LoDTensor<std::complex<double>>(lod::LoD::from_lengths({{0, 0}}), {4}));
  std::vector<std::string> all;
  for (const lod::AnyLoDTensor& tensor : tensors) {
    all.push_back(paddle::encode_tensor(tensor));
    all.push_back(paddle::encode_tensor(tensor, paddle::Layout::OF_2017));
  }
  all.push_back(all[0] + all[1]);
  return all;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = lod_fuzz::input(data, size);
  std::string_view rest = bytes;
  const auto tensor = lod_fuzz::attempt<lod::ParseError>(size, bound, [&] { return paddle::decode_tensor(rest); });

  // A file holds one tensor and nothing else.
  const lod_fuzz::UnnamedFile file(bytes);
  const auto loaded = lod_fuzz::attempt<lod::ParseError>(size, bound_of_files,
                                                         [path = file.path()] { return paddle::load_tensor(path); });
  LOD_FUZZ_EXPECT(loaded.has_value() == (tensor && rest.empty()));
  if (!tensor) {
    LOD_FUZZ_EXPECT(rest.size() == size);
    return 0;
  }
  if (loaded) LOD_FUZZ_EXPECT(lod_fuzz::same(*loaded, *tensor));

  for (const paddle::Layout layout : {paddle::Layout::CURRENT, paddle::Layout::OF_2017}) {
    const std::string encoded = paddle::encode_tensor(*tensor, layout);
    std::string_view again = encoded;
    LOD_FUZZ_EXPECT(lod_fuzz::same(paddle::decode_tensor(again), *tensor));
    LOD_FUZZ_EXPECT(again.empty());
  }
  return 0;
}
