// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Numbers of int8 in place of floats: rows with a scale each, and weights with a scale for each column, packed once.
#pragma once

#include <lod/core/buffer.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/float16.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/dnnl/block_product.hpp>
#include <lod/dnnl/instructions.hpp>
#include <lod/dnnl/matrix_product.hpp>
#include <lod/dnnl/primitives.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

namespace lod::inline LOD_INTERFACE {

/// Tensors and views of floats that become int8: float and bfloat16.
template <class X>
concept QuantizableTensor = LoDTensorLike<X> &&
    (std::same_as<value_type_t<X>, float> || std::same_as<value_type_t<X>, bfloat16>);

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::by_dnnl {

/// The greatest number of terms whose sums of products of any int8 with -127 to 127 fit int32.
inline constexpr std::int64_t most_terms = std::numeric_limits<std::int32_t>::max() / (128 * 127);

/// The magnitude of a number, as bits, which compare as magnitudes do, with NaN beyond infinity.
template <class T>
std::uint32_t magnitude(T number) noexcept {
  return lod::detail::bits_of(static_cast<float>(number)) & 0x7fffffffu;
}
/// What a unit of int8 is worth, where `greatest` is the greatest magnitude: NaN if it is not finite.
inline float scale_of(std::uint32_t greatest) noexcept {
  if (greatest >= 0x7f800000u) return std::numeric_limits<float>::quiet_NaN();
  return lod::detail::float_of(greatest) / 127;
}
/// The int8 of a number where `greatest` is the greatest magnitude: rounded to nearest, ties to even; 0 if there is no
/// finite scale other than 0.
class Quantizer {
 public:
  explicit Quantizer(std::uint32_t greatest) noexcept
      : is_usable_(greatest > 0 && greatest < 0x7f800000u),
        greatest_(is_usable_ ? lod::detail::float_of(greatest) : 1) {}
  template <class T>
  std::int8_t operator()(T number) const noexcept {
    // Of this sum the last bits are the integer. A quotient first, since the scale of small numbers is subnormal.
    const float sum = static_cast<float>(number) / greatest_ * 127 + shift;
    const auto integer = static_cast<std::int32_t>(lod::detail::bits_of(sum) - lod::detail::bits_of(shift));
    return is_usable_ ? static_cast<std::int8_t>(integer) : std::int8_t{};
  }

 private:
  static constexpr float shift = 0x1.8p23f;

  bool is_usable_;
  float greatest_;
};

/// Quantises a row, and returns its scale.
template <class T>
float quantize_row(const T* from, std::int64_t count, std::int8_t* to) noexcept {
  std::uint32_t greatest = 0;
  for (std::int64_t i = 0; i < count; ++i) greatest = std::max(greatest, magnitude(from[i]));
  const Quantizer quantized(greatest);
  for (std::int64_t i = 0; i < count; ++i) to[i] = quantized(from[i]);
  return scale_of(greatest);
}
/// Quantises rows: each has a scale of its own.
template <class T>
void quantize_rows(const CpuExecutor& executor, const T* x, std::int64_t rows, std::int64_t row_size,
                   std::int8_t* values, float* scales) {
  const std::int64_t bytes = lod::detail::bytes_of<T>(rows, std::max<std::int64_t>(row_size, 1));
  cpu::parallel_ranges(executor, rows, bytes, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      scales[row] = quantize_row(x + row * row_size, row_size, values + row * row_size);
    }
  });
}

/// Quantises a matrix whose columns have a scale each. Values are written in tiles of so many columns, the last one of
/// fewer: first all rows of one tile, then those of the next.
template <class T>
void quantize_columns(const CpuExecutor& executor, const T* matrix, std::int64_t rows, std::int64_t columns,
                      std::int64_t tile_columns, std::int8_t* values, float* scales) {
  const Workspace::Loan<std::uint32_t> greatest(executor.workspace(), columns);
  std::fill_n(greatest.data(), columns, 0u);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < columns; ++i) {
      greatest[i] = std::max(greatest[i], magnitude(matrix[row * columns + i]));
    }
  }
  const auto quantize = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = 0; first < columns; first += tile_columns) {
      const std::int64_t width = std::min(tile_columns, columns - first);
      for (std::int64_t row = begin; row < end; ++row) {
        std::int8_t* const to = values + first * rows + row * width;
        for (std::int64_t i = 0; i < width; ++i) {
          to[i] = Quantizer(greatest[first + i])(matrix[row * columns + first + i]);
        }
      }
    }
  };
  cpu::parallel_ranges(executor, rows, lod::detail::bytes_of<T>(rows, columns), quantize);
  for (std::int64_t i = 0; i < columns; ++i) scales[i] = scale_of(greatest[i]);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::by_dnnl

namespace lod::inline LOD_INTERFACE {

/// Weights of int8 for `quantized_linear`, made once of a matrix of float or bfloat16: column j consists of the numbers
/// round(weight[k, j] / s) for the scale s of the column, its greatest magnitude / 127, so that all are from -127 to
/// 127. A column of zeros has the scale 0; one that contains infinity or NaN has the scale NaN, and so have its
/// results.
///
/// They lie in the order in which oneDNN multiplies them on this processor, where `dnnl_instructions` says that it
/// multiplies int8 (AVX-512 VNNI, or AMX); otherwise row by row. So they are for this process alone, and no file holds
/// them. Copies share them, and they never change.
class QuantizedWeights {
 public:
  /// Of a matrix as `linear` takes it: a row for each number in a row of x, with the row shape of the results. Its
  /// levels do not matter. Memory comes from the executor's resource. Throws ShapeMismatch for more than 132,104 rows,
  /// whose sums might not fit int32.
  template <QuantizableTensor Weight>
  LOD_TAGGED QuantizedWeights(const CpuExecutor& executor, const Weight& weight)
      : rows_(weight.rows()),
        row_shape_(weight.row_shape()),
        columns_(weight.row_size()),
        is_packed_(false),
        numbers_(executor.resource()),
        scales_(columns_, executor.resource()) {
    namespace own = kernel::by_dnnl;
    if (rows_ > own::most_terms) {
      throw ShapeMismatch(detail::text(
          {"QuantizedWeights: ", rows_, " rows, expected at most ", own::most_terms, ", whose sums fit int32"}));
    }
    const std::int64_t count = detail::saturated_product(rows_, columns_);
    const auto view = weight.view();
    const bool is_asked = count > 0 && dnnl_instructions().int8;
    const int threads = kernel::cpu::max_threads(executor);
    const Workspace::Kept<own::Primitives> primitives(executor.workspace());
    own::Products<std::int8_t> products(*primitives, threads, is_asked ? rows_ : 0, is_asked ? columns_ : 0,
                                        own::Into::INT32);
    products.take_weights(*primitives, threads, columns_, false);
    is_packed_ = is_asked && products.is_possible();
    if (!is_packed_) {
      numbers_ = Buffer<std::byte>(count, executor.resource());
      own::quantize_columns(executor, view.data(), rows_, columns_, columns_,
                            reinterpret_cast<std::int8_t*>(numbers_.data()), scales_.data());
      return;
    }
    const Workspace::Loan<std::int8_t> plain(executor.workspace(), count);
    const kernel::cpu::ThreadScratch<std::byte> memory(executor, products.thread_bytes());
    numbers_ = Buffer<std::byte>(products.packed_bytes(), executor.resource());
    own::quantize_columns(executor, view.data(), rows_, columns_, products.tile_columns, plain.data(), scales_.data());
    own::pack(executor, products, memory, static_cast<const std::int8_t*>(plain.data()), numbers_.data());
  }
  // No moves: weights that were moved from still have their numbers.
  LOD_TAGGED QuantizedWeights(const QuantizedWeights&) noexcept = default;
  LOD_TAGGED QuantizedWeights& operator=(const QuantizedWeights&) noexcept = default;
  LOD_TAGGED ~QuantizedWeights() = default;

  /// The numbers in a row of x.
  LOD_TAGGED std::int64_t rows() const noexcept { return rows_; }
  /// The row shape of results.
  LOD_TAGGED const Shape& row_shape() const noexcept { return row_shape_; }
  /// The numbers in a row of results.
  LOD_TAGGED std::int64_t row_size() const noexcept { return columns_; }
  /// The scale of each column.
  LOD_TAGGED std::span<const float> scales() const noexcept {
    return {scales_.data(), static_cast<std::size_t>(columns_)};
  }
  /// The memory that they take: about a byte for each number where these are packed, in blocks of 64 columns.
  LOD_TAGGED std::int64_t bytes() const noexcept {
    return numbers_.size() + columns_ * static_cast<std::int64_t>(sizeof(float));
  }
  /// Whether they are in oneDNN's order.
  LOD_TAGGED bool is_packed() const noexcept { return is_packed_; }
  /// The numbers, in an order that only `quantized_product` knows.
  LOD_TAGGED const std::byte* data() const noexcept { return numbers_.data(); }

 private:
  std::int64_t rows_;
  Shape row_shape_;
  std::int64_t columns_;
  bool is_packed_;
  Buffer<std::byte> numbers_;
  Buffer<float> scales_;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::by_dnnl {

/// Calls finish(row, column, count, sums) for all sums of products of rows of int8 with quantised weights, in parts.
/// Takes all memory before that.
class QuantizedProduct {
 public:
  QuantizedProduct(const CpuExecutor& executor, const QuantizedWeights& weights)
      : executor_(executor),
        weights_(weights),
        primitives_(executor.workspace()),
        products_(*primitives_, cpu::max_threads(executor), weights.is_packed() ? weights.rows() : 0,
                  weights.is_packed() ? weights.row_size() : 0, Into::INT32),
        memory_(executor, weights.is_packed() ? products_.thread_bytes() : 4 * tile) {}

  template <class Finish>
  void run(const std::int8_t* values, std::int64_t rows, const Finish& finish) const {
    const std::int64_t terms = weights_.rows(), columns = weights_.row_size();
    // Four times as fast as float.
    const std::int64_t bytes = product_bytes(rows, columns, terms / 2);
    if (weights_.is_packed()) {
      multiply_rows<std::int8_t>(executor_, products_, memory_, weights_.data(), {values, terms}, false, rows, bytes,
                                 {nullptr, 0}, finish);
      return;
    }
    const auto* const numbers = reinterpret_cast<const std::int8_t*>(weights_.data());
    const std::int64_t tiles = (columns + tile - 1) / tile;
    cpu::parallel_for(executor_, lod::detail::saturated_product(rows, tiles), 4 * bytes,
                      [&](std::int64_t task, int thread) {
                        const std::int64_t row = task / tiles, first = task % tiles * tile;
                        const std::int64_t width = std::min(tile, columns - first);
                        auto* const sums = reinterpret_cast<std::int32_t*>(memory_(thread));
                        std::fill_n(sums, width, 0);
                        for (std::int64_t term = 0; term < terms; ++term) {
                          const std::int32_t factor = values[row * terms + term];
                          const std::int8_t* const line = numbers + term * columns + first;
                          for (std::int64_t i = 0; i < width; ++i) sums[i] += factor * line[i];
                        }
                        finish(row, first, width, sums);
                      });
  }

 private:
  static constexpr std::int64_t tile = 512;

  const CpuExecutor& executor_;
  const QuantizedWeights& weights_;
  Workspace::Kept<Primitives> primitives_;
  Products<std::int8_t> products_;
  cpu::ThreadScratch<std::byte> memory_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::by_dnnl
