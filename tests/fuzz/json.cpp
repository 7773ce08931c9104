// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tensors as JSON: as the object, and as nested lists of some levels and element types.
#include "target.hpp"
#include <lod/any_tensor.hpp>
#include <lod/error.hpp>
#include <lod/io/json.hpp>
#include <lod/lod_tensor.hpp>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// `0,` is two bytes and 8 of memory, three times that when the values grow, and again in the tensor; `[],` is three,
/// and two numbers of 8 bytes in each of two places.
constexpr lod_fuzz::Bound bound{.times = 32};

void check_object(std::string_view text) {
  const auto tensor = lod_fuzz::attempt<lod::ParseError>(text.size(), bound, [&] { return lod::from_json(text); });
  if (!tensor) return;
  const std::string written = lod::to_json(*tensor, lod::JsonForm::OBJECT);
  // SIZE_T is written as the type that its elements have in C++.
  const lod::AnyLoDTensor again = lod::from_json(written);
  LOD_FUZZ_EXPECT(again.lod() == tensor->lod() && again.shape() == tensor->shape());
  LOD_FUZZ_EXPECT(
      std::equal(again.bytes().begin(), again.bytes().end(), tensor->bytes().begin(), tensor->bytes().end()));
  LOD_FUZZ_EXPECT(lod::to_json(again, lod::JsonForm::OBJECT) == written);
}

template <class T>
void check_nested(std::string_view text, int levels) {
  const auto tensor =
      lod_fuzz::attempt<lod::ParseError>(text.size(), bound, [&] { return lod::from_json<T>(text, levels); });
  if (!tensor) return;
  LOD_FUZZ_EXPECT(tensor->levels() == levels);
  const std::string written = lod::to_json(*tensor);
  const lod::LoDTensor<T> again = lod::from_json<T>(written, levels);
  LOD_FUZZ_EXPECT(lod_fuzz::same(lod::AnyLoDTensor(again), lod::AnyLoDTensor(*tensor)));
  LOD_FUZZ_EXPECT(lod::to_json(again) == written);
  // The other form says the same.
  const std::string object = lod::to_json(*tensor, lod::JsonForm::OBJECT);
  LOD_FUZZ_EXPECT(lod_fuzz::same(lod::from_json(object), lod::AnyLoDTensor(*tensor)));
}

}  // namespace

std::vector<std::string> lod_fuzz::seeds() {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto numbers = lod::LoDTensor<float>::from_values(lod::LoD::from_lengths({{2, 0, 1}, {1, 1, 1}}), {2},
                                                          std::vector<float>{1, -2.5f, infinity, 1e-40f, -0.0f, 3e38f});
  const auto complex = lod::LoDTensor<std::complex<double>>::from_nested(
      std::vector<std::vector<std::complex<double>>>{{{1, 2}, {0, -1e300}}, {}});
  const auto bools = lod::LoDTensor<bool>::from_nested(std::vector<std::vector<bool>>{{true}, {}, {false, true}});
  const lod::LoDTensor<std::uint64_t> none({0, 3});
  std::vector<std::string> all;
  for (const lod::JsonForm form : {lod::JsonForm::NESTED, lod::JsonForm::OBJECT}) {
    all.push_back(lod::to_json(numbers, form));
    all.push_back(lod::to_json(complex, form));
    all.push_back(lod::to_json(bools, form));
    all.push_back(lod::to_json(none, form));
  }
  all.push_back(" [ [ \"NaN\" , \"-Infinity\" , 1.5E+3 , -0e-7 ] ,\n[ ] ] ");
  all.push_back("[[[],[]],[[],[]]]");
  all.push_back("{\"values\":[0.1,1e999999999999999999],\"shape\":[2],\"data_type\":\"BF16\"}");
  return all;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = lod_fuzz::input(data, size);
  check_object(text);
  for (const int levels : {0, 1, 2}) {
    check_nested<float>(text, levels);
    check_nested<std::int64_t>(text, levels);
    check_nested<std::uint8_t>(text, levels);
    check_nested<bool>(text, levels);
    check_nested<lod::float16>(text, levels);
    check_nested<std::complex<double>>(text, levels);
  }
  return 0;
}
