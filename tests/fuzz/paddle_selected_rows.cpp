// SPDX-License-Identifier: Apache-2.0
/// @file
/// The bytes in which PaddlePaddle saves selected rows, in both orders.
#include "target.hpp"
#include <lod/any_tensor.hpp>
#include <lod/error.hpp>
#include <lod/io/paddle.hpp>
#include <lod/io/paddle_stream.hpp>
#include <lod/selected_rows.hpp>

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
  const lod::SelectedRows<float> rows({4, 0, 4}, 10, {2});
  std::vector<std::string> all{paddle::encode_selected_rows(rows),
                               paddle::encode_selected_rows(lod::SelectedRows<double>({}, 3, {})),
                               paddle::encode_selected_rows(lod::SelectedRows<bool>({0}, 1, {3}))};
  // As they were written until February 2018: the value is a whole tensor, which begins with a version and no level.
  constexpr std::size_t before_value = 4 + 8 + 3 * 8 + 8;
  std::string old = all[0];
  old.insert(before_value, std::string(12, '\0'));
  all.push_back(old);
  return all;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = lod_fuzz::input(data, size);
  std::string_view rest = bytes;
  const auto rows = lod_fuzz::attempt<lod::ParseError>(size, bound, [&] { return paddle::decode_selected_rows(rest); });

  // A file holds one variable and nothing else.
  const lod_fuzz::UnnamedFile file(bytes);
  const auto loaded = lod_fuzz::attempt<lod::ParseError>(
      size, bound_of_files, [path = file.path()] { return paddle::load_selected_rows(path); });
  LOD_FUZZ_EXPECT(loaded.has_value() == (rows && rest.empty()));
  if (!rows) {
    LOD_FUZZ_EXPECT(rest.size() == size);
    return 0;
  }
  if (loaded) LOD_FUZZ_EXPECT(lod_fuzz::same(*loaded, *rows));

  const std::string encoded = paddle::encode_selected_rows(*rows);
  std::string_view again = encoded;
  LOD_FUZZ_EXPECT(lod_fuzz::same(paddle::decode_selected_rows(again), *rows));
  LOD_FUZZ_EXPECT(again.empty());
  return 0;
}
