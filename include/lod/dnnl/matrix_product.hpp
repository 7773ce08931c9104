// SPDX-License-Identifier: Apache-2.0
/// @file
/// Products of matrices of bfloat16 by oneDNN: what `kernel::MatrixProduct` and `kernel::JaggedDenseProduct` ask for.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/float16.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/dnnl/block_product.hpp>
#include <lod/dnnl/engine.hpp>
#include <lod/dnnl/instructions.hpp>
#include <lod/dnnl/primitives.hpp>
#include <lod/kernels/cpu/grouped_linear.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/partition_point.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::by_dnnl {

/// What a product weighs when work is shared: as many bytes as take its time, in units in which a product of float
/// takes one for eight terms.
inline std::int64_t product_bytes(std::int64_t rows, std::int64_t columns, std::int64_t terms) noexcept {
  return lod::detail::saturated_product(rows, columns, std::max<std::int64_t>(terms / 16, 1));
}

/// Packs a matrix, by all threads.
template <class T>
void pack(const CpuExecutor& executor, const Products<T>& products, const cpu::ThreadScratch<std::byte>& memory,
          const T* matrix, std::byte* packed) {
  cpu::parallel_for(executor, products.blocks(), products.packed_bytes(), [&](std::int64_t block, int thread) {
    const Team team(1);
    products.pack(thread, memory(thread), block, matrix, packed);
  });
}

/// Multiplies `count` rows with a packed matrix, by all threads: see `Products::run`.
template <class T, class Finish>
void multiply_rows(const CpuExecutor& executor, const Products<T>& products,
                   const cpu::ThreadScratch<std::byte>& memory, const std::byte* packed, const Rows<const T>& rows,
                   bool transposed, std::int64_t count, std::int64_t bytes, const Rows<bfloat16>& to,
                   const Finish& finish) {
  constexpr std::int64_t block = Products<T>::many;
  // As many rows as still leave each thread several tasks.
  const std::int64_t parts_of_rows = 8 * cpu::max_threads(executor) / products.tiles() + 1;
  const std::int64_t blocks = (count / parts_of_rows + block - 1) / block;
  const std::int64_t part = std::clamp<std::int64_t>(blocks, 1, 16) * block, parts = (count + part - 1) / part;
  cpu::parallel_for(executor, parts * products.tiles(), bytes, [&](std::int64_t task, int thread) {
    const Team team(1);
    const std::int64_t begin = task % parts * part, end = std::min(begin + part, count);
    products.run(thread, memory(thread), packed, task / parts, rows, transposed, begin, end, to, finish);
  });
}

/// `operation::matrix_product` of bfloat16. Returns false, and does nothing, where oneDNN does not compute it.
inline bool multiply(const CpuExecutor& executor, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                     std::int64_t k, double alpha, const bfloat16* a, std::int64_t lda, const bfloat16* b,
                     std::int64_t ldb, double beta, bfloat16* c, std::int64_t ldc) {
  if (m == 0 || n == 0 || k == 0 || !dnnl_instructions().bfloat16) return false;
  const int threads = cpu::max_threads(executor);
  const bool is_direct = k <= Products<bfloat16>::leaf_terms && alpha == 1 && (beta == 0 || beta == 1);
  const Workspace::Kept<Primitives> primitives(executor.workspace());
  Products<bfloat16> products(*primitives, threads, k, n,
                              !is_direct  ? Into::FLOAT
                              : beta == 0 ? Into::BFLOAT16
                                          : Into::ADDED_TO_BFLOAT16);
  products.take_weights(*primitives, threads, ldb, transpose_b);
  if (!products.is_possible()) return false;
  const Workspace::Loan<std::byte> packed(executor.workspace(), products.packed_bytes());
  const cpu::ThreadScratch<std::byte> memory(executor, products.thread_bytes());
  pack(executor, products, memory, b, packed.data());
  const auto factor = static_cast<float>(alpha), of_before = static_cast<float>(beta);
  const auto finish = [=](std::int64_t row, std::int64_t column, std::int64_t count, const float* sums) {
    bfloat16* const to = c + row * ldc + column;
    if (of_before == 0) {
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<bfloat16>(factor * sums[i]);
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] = static_cast<bfloat16>(factor * sums[i] + of_before * static_cast<float>(to[i]));
      }
    }
  };
  multiply_rows(executor, products, memory, packed.data(), {a, lda}, transpose_a, m, product_bytes(m, n, k), {c, ldc},
                finish);
  return true;
}

/// Products of the rows of sequences with matrices of bfloat16, of `terms` and of `columns` numbers a row.
class SequenceProducts {
 public:
  /// Takes memory for as many threads as the executor has.
  SequenceProducts(const CpuExecutor& executor, Primitives& primitives, std::int64_t terms, std::int64_t columns,
                   bool transposed)
      : products_(primitives, cpu::max_threads(executor), terms, columns,
                  terms <= Products<bfloat16>::leaf_terms ? Into::BFLOAT16 : Into::FLOAT),
        matrix_size_(terms * columns) {
    products_.take_weights(primitives, cpu::max_threads(executor), transposed ? terms : columns, transposed);
  }
  bool is_possible() const noexcept { return products_.is_possible(); }
  /// The bytes that a thread needs: its own memory, then a packed matrix.
  std::int64_t thread_bytes() const noexcept {
    return lod::detail::saturated_sum(products_.thread_bytes(), products_.packed_bytes());
  }

  /// Packs a matrix for the calling thread.
  void pack(int thread, std::byte* memory, const bfloat16* matrices, std::int64_t matrix) const {
    for (std::int64_t block = 0; block < products_.blocks(); ++block) {
      products_.pack(thread, memory, block, matrices + matrix * matrix_size_, memory + products_.thread_bytes());
    }
  }
  /// Multiplies rows [begin, end) with the packed matrix.
  void multiply(int thread, std::byte* memory, const Rows<const bfloat16>& rows, std::int64_t begin, std::int64_t end,
                const Rows<bfloat16>& to) const {
    const auto finish = [&](std::int64_t row, std::int64_t column, std::int64_t count, const float* sums) {
      bfloat16* const first = to[row] + column;
      for (std::int64_t i = 0; i < count; ++i) first[i] = static_cast<bfloat16>(sums[i]);
    };
    for (std::int64_t tile = 0; tile < products_.tiles(); ++tile) {
      products_.run(thread, memory, memory + products_.thread_bytes(), tile, rows, false, begin, end, to, finish);
    }
  }

 private:
  Products<bfloat16> products_;
  std::int64_t matrix_size_;
};

/// `kernel::JaggedDenseProduct` of bfloat16. Returns false, and does nothing, where oneDNN does not compute it.
///
/// The rows of all sequences that share a matrix are multiplied together, wherever they are in the batch: short
/// sequences would not fill a block, and a matrix is packed for each part of these rows.
inline bool multiply_sequences(const CpuExecutor& executor, const bfloat16* x, const Segments& sequences,
                               std::int64_t terms, const bfloat16* matrices, const std::int64_t* matrix_of,
                               bool transposed, std::int64_t columns, bfloat16* y) {
  if (sequences.rows() == 0 || columns == 0 || terms == 0 || !dnnl_instructions().bfloat16) return false;
  const Workspace::Kept<Primitives> primitives(executor.workspace());
  const SequenceProducts products(executor, *primitives, terms, columns, transposed);
  if (!products.is_possible()) return false;
  const cpu::ThreadScratch<std::byte> memory(executor, products.thread_bytes());
  constexpr std::int64_t block = Products<bfloat16>::many;

  if (!matrix_of) {
    const cpu::MergePath path(sequences, product_bytes(1, columns, terms));
    const std::int64_t parts = cpu::pieces(executor, path.weight());
    // A cut inside a sequence moves to the start of a block.
    const auto cut = [&](std::int64_t part) {
      cpu::MergePath::Position position = path.cut(part, parts);
      position.row -= position.row % block;
      return position;
    };
    cpu::parallel_for(executor, parts, path.weight(), [&](std::int64_t part, int thread) {
      const Team team(1);
      cpu::for_each_row_range(
          sequences, cut(part), cut(part + 1), [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
            const std::int64_t first = sequences.begin(i);
            products.pack(thread, memory(thread), matrices, i);
            products.multiply(thread, memory(thread), {x, terms}, first + begin, first + end, {y, columns});
          });
    });
    return true;
  }

  std::int64_t groups = 0;
  for (std::int64_t i = 0; i < sequences.size; ++i) groups = std::max(groups, matrix_of[i] + 1);
  const Workspace::Loan<std::int64_t> list(executor.workspace(), sequences.rows());
  const Workspace::Loan<std::int64_t> offsets(executor.workspace(), groups + 1),
      parts(executor.workspace(), groups + 1);
  const cpu::ThreadScratch<std::int64_t> packed_matrix(executor, 1);
  cpu::Kernel<RowsByGroup>::run(executor, sequences, matrix_of, groups, offsets.data(), list.data());
  // So many rows that packing takes a small part of the time, but a part for each thread.
  const int threads = cpu::max_threads(executor);
  const std::int64_t share = (sequences.rows() / threads + block - 1) / block;
  const std::int64_t part_rows = std::clamp<std::int64_t>(share, 1, 16) * block;
  parts[0] = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    parts[g + 1] = parts[g] + (offsets[g + 1] - offsets[g] + part_rows - 1) / part_rows;
  }
  for (int thread = 0; thread < threads; ++thread) *packed_matrix(thread) = -1;
  const std::int64_t bytes = product_bytes(sequences.rows(), columns, terms);
  cpu::parallel_for(executor, parts[groups], bytes, [&](std::int64_t part, int thread) {
    const Team team(1);
    const auto group = partition_point<std::int64_t>(0, groups, [&](std::int64_t g) { return parts[g + 1] <= part; });
    if (*packed_matrix(thread) != group) {
      products.pack(thread, memory(thread), matrices, group);
      *packed_matrix(thread) = group;
    }
    const std::int64_t begin = offsets[group] + (part - parts[group]) * part_rows;
    const std::int64_t end = std::min(begin + part_rows, offsets[group + 1]);
    products.multiply(thread, memory(thread), {x, terms, list.data()}, begin, end, {y, columns, list.data()});
  });
  return true;
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::by_dnnl
