// SPDX-License-Identifier: Apache-2.0
/// @file
/// Products with a matrix by oneDNN, block by block. oneDNN sees blocks of 64 rows and, without AMX, of 16, the last
/// one filled up with zeros, and works on the thread that calls it; threads share the blocks. So neither the number of
/// rows nor that of threads makes it choose another way, and a product of any number of rows needs no new primitives.
///
/// Sums of more than `leaf_terms` products consist of leaves, which are added with compensation.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/dnnl/engine.hpp>
#include <lod/dnnl/instructions.hpp>
#include <lod/dnnl/primitives.hpp>
#include <lod/kernels/sum_tree.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::by_dnnl {

/// Rows of numbers, `stride` numbers apart. Those from `begin` on are the rows of `first`, or, where there is a list,
/// those that it names.
template <class T>
struct Rows {
  T* first;
  std::int64_t stride;
  const std::int64_t* list = nullptr;

  T* operator[](std::int64_t row) const noexcept { return first + (list ? list[row] : row) * stride; }
  /// Whether `count` rows from `row` on follow each other. The rows of a list ascend.
  bool is_run(std::int64_t row, std::int64_t count) const noexcept {
    return !list || list[row + count - 1] - list[row] == count - 1;
  }
};

/// Copies numbers; the compiler knows how to copy few of them.
template <class T>
void copy_numbers(const T* from, std::int64_t count, T* to) noexcept {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
}

/// How many numbers there are of which whole cache lines are made.
constexpr std::int64_t whole_lines(std::int64_t bytes) noexcept {
  return lod::detail::saturated_sum(bytes, 63) / 64 * 64;
}

/// Products of rows of `terms` numbers with a matrix of terms x columns numbers, of bfloat16 or int8.
template <class T>
class Products {
 public:
  static constexpr bool of_int8 = std::same_as<T, std::int8_t>;
  /// In which sums are computed.
  using Sum = std::conditional_t<of_int8, std::int32_t, float>;
  /// The terms that oneDNN adds up. Integers are exact, however many they are: so many fit the cache.
  static constexpr std::int64_t leaf_terms = of_int8 ? 4096 : 1024;
  /// The columns that oneDNN computes at a time.
  static constexpr std::int64_t tile_columns = 512;
  /// The rows of a block.
  static constexpr std::int64_t many = 64;

  /// `into` is BFLOAT16 or ADDED_TO_BFLOAT16 for results of one leaf that need no factor, otherwise FLOAT or INT32.
  /// Takes memory, for so many threads, unless the executor has made the same before.
  Products(Primitives& primitives, int threads, std::int64_t terms, std::int64_t columns, Into into)
      : terms_(terms),
        columns_(columns),
        is_direct_(into != Into::FLOAT && into != Into::INT32),
        adds_(into == Into::ADDED_TO_BFLOAT16) {
    for (int shape = 0; shape < 4; ++shape) {
      if (!is_used(shape)) continue;
      for (const bool is_few : {false, true}) {
        BlockProduct* const made = primitives.product(threads, {is_few ? few_ : many, terms_of(is_tail_of_terms(shape)),
                                                                columns_of(is_tail_of_columns(shape)), into});
        // All must have one layout of weights.
        if (!made || (is_few && made->weights() != of(shape, false)->weights())) return;
        products_[static_cast<std::size_t>(2 * shape + (is_few ? 1 : 0))] = made;
        scratchpad_bytes_ = std::max(scratchpad_bytes_, made->primitive().scratchpad_bytes());
      }
      packed_bytes_[static_cast<std::size_t>(shape)] =
          whole_lines(static_cast<std::int64_t>(of(shape, false)->weights().get_size()));
    }
    is_possible_ = true;
  }
  /// Prepares to pack matrices that are transposed or not, `stride` numbers from row to row. Those of int8 are not, and
  /// their rows lie one after the other, first those of one tile, then those of the next: oneDNN packs no others.
  void take_weights(Primitives& primitives, int threads, std::int64_t stride, bool transposed) {
    row_stride_ = transposed ? 1 : stride;
    column_stride_ = transposed ? stride : 1;
    for (int shape = 0; shape < 4 && is_possible_; ++shape) {
      if (!is_used(shape)) continue;
      const std::int64_t columns = columns_of(is_tail_of_columns(shape));
      Packing* const made = primitives.packing(
          threads,
          {terms_of(is_tail_of_terms(shape)), columns, of_int8 ? columns : row_stride_, column_stride_, of_int8},
          *of(shape, false));
      packings_[static_cast<std::size_t>(shape)] = made;
      is_possible_ = made != nullptr;
      if (made) scratchpad_bytes_ = std::max(scratchpad_bytes_, made->primitive().scratchpad_bytes());
    }
  }

  /// Whether oneDNN has all that it takes. It depends on terms and columns alone, not on rows.
  bool is_possible() const noexcept { return is_possible_; }
  std::int64_t width_of(std::int64_t tile) const noexcept {
    return std::min(tile_columns, columns_ - tile * tile_columns);
  }
  std::int64_t tiles() const noexcept { return (columns_ + tile_columns - 1) / tile_columns; }
  std::int64_t leaves() const noexcept { return (terms_ + leaf_terms - 1) / leaf_terms; }
  /// The bytes of a packed matrix.
  std::int64_t packed_bytes() const noexcept { return place(leaves(), 0); }
  /// The bytes that a thread needs.
  std::int64_t thread_bytes() const noexcept {
    const std::int64_t sums = block_bytes<Sum>(std::min(columns_, tile_columns));
    return block_bytes<T>(std::min(terms_, leaf_terms)) + (leaves() > 1 ? 3 : 1) * sums +
           whole_lines(scratchpad_bytes_);
  }

  /// The blocks of a matrix, each of which is packed by itself.
  std::int64_t blocks() const noexcept { return leaves() * tiles(); }
  /// Packs one of them, on a thread with scratch memory of `thread_bytes`.
  void pack(int thread, std::byte* memory, std::int64_t block, const T* matrix, std::byte* packed) const {
    const std::int64_t leaf = block / tiles(), tile = block % tiles();
    const std::int64_t first_term = leaf * leaf_terms, first = tile * tile_columns;
    const T* const from = matrix + (of_int8 ? first * terms_ + first_term * width_of(tile)
                                            : first_term * row_stride_ + first * column_stride_);
    packings_[static_cast<std::size_t>(shape_of(leaf, tile))]->primitive().run(
        thread, std::array<const void*, 3>{from, packed + place(leaf, tile), memory});
  }

  /// Multiplies rows [begin, end) with a tile of the packed matrix. With `transposed`, `rows` has a row for each term,
  /// and no list. Where results are bfloat16 at once, they are written to `to`, or added to it. Otherwise
  /// finish(row, column, count, sums) is called for all of them, in parts.
  template <class Finish>
  void run(int thread, std::byte* memory, const std::byte* packed, std::int64_t tile, const Rows<const T>& rows,
           bool transposed, std::int64_t begin, std::int64_t end, const Rows<bfloat16>& to,
           const Finish& finish) const {
    const std::int64_t first = tile * tile_columns, width = width_of(tile);
    const Scratch own(*this, memory);
    for (std::int64_t row = begin, size = many; row < end; row += size) {
      if (end - row <= many - few_) size = few_;
      const std::int64_t count = std::min(size, end - row);
      if (is_direct_) {
        const T* const left = left_block(rows, transposed, row, count, size, 0, own.left);
        const bool in_place = count == size && tiles() == 1 && to.stride == width && to.is_run(row, count);
        auto* const block = in_place ? to[row] : reinterpret_cast<bfloat16*>(own.sums);
        if (adds_ && !in_place) load(to, row, count, size, first, width, block);
        multiply(thread, own, packed, 0, tile, size, left, block);
        for (std::int64_t r = 0; r < count && !in_place; ++r)
          copy_numbers(block + r * width, width, to[row + r] + first);
        continue;
      }
      for (std::int64_t leaf = 0; leaf < leaves(); ++leaf) {
        const T* const left = left_block(rows, transposed, row, count, size, leaf, own.left);
        Sum* const sums = leaf == 0 ? own.sums : own.leaf;
        multiply(thread, own, packed, leaf, tile, size, left, sums);
        if (leaf == 1) std::fill_n(own.errors, count * width, Sum{});
        for (std::int64_t i = 0; leaf > 0 && i < count * width; ++i) {
          add_compensated(own.sums[i], own.errors[i], own.leaf[i]);
        }
      }
      for (std::int64_t i = 0; leaves() > 1 && !of_int8 && i < count * width; ++i) own.sums[i] += own.errors[i];
      for (std::int64_t r = 0; r < count; ++r) finish(row + r, first, width, own.sums + r * width);
    }
  }

 private:
  // A shape of blocks: 1 for the last leaf if it has fewer terms, 2 for the last tile if it has fewer columns, or both.
  static bool is_tail_of_terms(int shape) noexcept { return (shape & 1) != 0; }
  static bool is_tail_of_columns(int shape) noexcept { return (shape & 2) != 0; }
  bool is_used(int shape) const noexcept {
    return (is_tail_of_terms(shape) ? terms_ % leaf_terms != 0 : terms_ >= leaf_terms) &&
           (is_tail_of_columns(shape) ? columns_ % tile_columns != 0 : columns_ >= tile_columns);
  }
  std::int64_t terms_of(bool tail) const noexcept { return tail ? terms_ % leaf_terms : leaf_terms; }
  std::int64_t columns_of(bool tail) const noexcept { return tail ? columns_ % tile_columns : tile_columns; }
  int shape_of(std::int64_t leaf, std::int64_t tile) const noexcept {
    return ((leaf + 1) * leaf_terms > terms_ ? 1 : 0) + ((tile + 1) * tile_columns > columns_ ? 2 : 0);
  }
  BlockProduct* of(int shape, bool is_few) const noexcept {
    return products_[static_cast<std::size_t>(2 * shape + (is_few ? 1 : 0))];
  }
  /// Where a block of the packed matrix begins.
  std::int64_t place(std::int64_t leaf, std::int64_t tile) const noexcept {
    const auto before = [&](int tail_of_terms, std::int64_t count) {
      const std::int64_t whole = std::min(count, columns_ / tile_columns);
      return whole * packed_bytes_[static_cast<std::size_t>(tail_of_terms)] +
             (count - whole) * packed_bytes_[static_cast<std::size_t>(2 + tail_of_terms)];
    };
    const std::int64_t whole = std::min(leaf, terms_ / leaf_terms);
    return whole * before(0, tiles()) + (leaf - whole) * before(1, tiles()) +
           before((leaf + 1) * leaf_terms > terms_ ? 1 : 0, tile);
  }

  template <class Number>
  static std::int64_t block_bytes(std::int64_t numbers) noexcept {
    return whole_lines(many * numbers * static_cast<std::int64_t>(sizeof(Number)));
  }
  /// The memory of a thread.
  struct Scratch {
    Scratch(const Products& of, std::byte* memory) noexcept
        : scratchpad(memory), left(reinterpret_cast<T*>(memory + whole_lines(of.scratchpad_bytes_))) {
      const std::int64_t bytes = block_bytes<Sum>(std::min(of.columns_, tile_columns));
      std::byte* const after = reinterpret_cast<std::byte*>(left) + block_bytes<T>(std::min(of.terms_, leaf_terms));
      sums = reinterpret_cast<Sum*>(after);
      leaf = reinterpret_cast<Sum*>(after + bytes);
      errors = reinterpret_cast<Sum*>(after + 2 * bytes);
    }
    std::byte* scratchpad;
    T* left;      ///< rows of a leaf, one after the other
    Sum* sums;    ///< of a block
    Sum* leaf;    ///< the sums of a further leaf, if there are several
    Sum* errors;  ///< what was lost in adding them
  };

  void multiply(int thread, const Scratch& own, const std::byte* packed, std::int64_t leaf, std::int64_t tile,
                std::int64_t size, const T* left, void* to) const {
    of(shape_of(leaf, tile), size == few_)
        ->primitive()
        .run(thread, std::array<const void*, 4>{left, packed + place(leaf, tile), to, own.scratchpad});
  }
  /// `count` rows of a leaf one after the other, and zeros for the other rows of a block: in place if they are there.
  const T* left_block(const Rows<const T>& rows, bool transposed, std::int64_t row, std::int64_t count,
                      std::int64_t size, std::int64_t leaf, T* to) const noexcept {
    const std::int64_t first = leaf * leaf_terms, terms = std::min(leaf_terms, terms_ - first);
    if (!transposed && count == size && rows.stride == terms && rows.is_run(row, count)) return rows[row];
    if (transposed) {
      constexpr std::int64_t few_terms = 32;  // so that what is written stays in the first-level cache
      for (std::int64_t begin = 0; begin < terms; begin += few_terms) {
        const std::int64_t end = std::min(begin + few_terms, terms);
        for (std::int64_t r = 0; r < count; ++r) {
          for (std::int64_t term = begin; term < end; ++term) to[r * terms + term] = rows[first + term][row + r];
        }
      }
    } else {
      for (std::int64_t r = 0; r < count; ++r) copy_numbers(rows[row + r] + first, terms, to + r * terms);
    }
    std::fill_n(to + count * terms, (size - count) * terms, T{});
    return to;
  }
  /// The results so far, if the new ones are added to them; zeros for the other rows of a block.
  static void load(const Rows<bfloat16>& from, std::int64_t row, std::int64_t count, std::int64_t size,
                   std::int64_t first, std::int64_t width, bfloat16* to) noexcept {
    for (std::int64_t r = 0; r < count; ++r) copy_numbers(from[row + r] + first, width, to + r * width);
    std::fill_n(to + count * width, (size - count) * width, bfloat16{});
  }

  std::int64_t terms_, columns_;
  // The rows of a block of few rows. With AMX oneDNN adds in another order there, or packs weights in another.
  std::int64_t few_ = dnnl_instructions().amx ? many : 16;
  bool is_direct_, adds_;
  bool is_possible_ = false;
  std::int64_t row_stride_ = 0, column_stride_ = 0;
  std::int64_t scratchpad_bytes_ = 0;
  std::array<BlockProduct*, 8> products_{};
  std::array<Packing*, 4> packings_{};
  std::array<std::int64_t, 4> packed_bytes_{};
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::by_dnnl
