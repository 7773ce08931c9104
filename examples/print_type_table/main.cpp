// SPDX-License-Identifier: Apache-2.0
/// @file
/// Prints which operation takes which elements, and which there are for GPUs, as a table in Markdown, from
/// `lod::supports`.
#include <lod/lod.hpp>

#include <cstdint>
#include <iostream>

namespace {

template <class... T>
struct Types {};

using ElementTypes = Types<bool, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t, lod::float16,
                           lod::bfloat16, float, double>;

template <class Op, class... T>
void print_row(Types<T...>) {
  std::cout << "| `" << lod::operation::name_of<Op> << "` |";
  ((std::cout << (lod::supports<Op, T> ? " yes |" : " |")), ...);
  std::cout << (!lod::on_cpu_only<Op> ? " yes |" : " |") << '\n';
}

}  // namespace

int main() {
  std::cout
      << "| operation | bool | int8 | uint8 | int16 | int32 | int64 | float16 | bfloat16 | float | double | GPU |\n"
         "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  lod::operation::for_each_operation(lod::AllOperations(), []<class Op>() { print_row<Op>(ElementTypes()); });
}
