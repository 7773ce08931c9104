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

/// `kernel::JaggedDenseProduct` of bfloat16. Returns false, and does nothing, where oneDNN does not compute it.
///
/// The rows of all sequences with one matrix are multiplied together, wherever they are in the batch: short ones would
/// not fill a block, and a matrix is packed for each part of so many rows.
inline bool multiply_sequences(const CpuExecutor& executor, const bfloat16* x, const Segments& sequences,
                               std::int64_t terms, const bfloat16* matrices, const std::int64_t* matrix_of,
                               bool transposed, std::int64_t columns, bfloat16* y) {
  if (sequences.rows() == 0 || columns == 0 || terms == 0 || !dnnl_instructions().bfloat16) return false;
  const int threads = cpu::max_threads(executor);
  const bool is_direct = terms <= Products<bfloat16>::leaf_terms;
  const Workspace::Kept<Primitives> primitives(executor.workspace());
  Products<bfloat16> products(*primitives, threads, terms, columns, is_direct ? Into::BFLOAT16 : Into::FLOAT);
  products.take_weights(*primitives, threads, transposed ? terms : columns, transposed);
  if (!products.is_possible()) return false;

  std::int64_t groups = sequences.size;
  if (matrix_of) groups = *std::max_element(matrix_of, matrix_of + sequences.size) + 1;
  const Workspace::Loan<std::int64_t> list(executor.workspace(), matrix_of ? sequences.rows() : 0);
  const Workspace::Loan<std::int64_t> offsets(executor.workspace(), groups + 1),
      parts(executor.workspace(), groups + 1);
  // Of a thread: its own memory, then the matrix that it has packed.
  const std::int64_t own_bytes = products.thread_bytes();
  const cpu::ThreadScratch<std::byte> memory(executor, lod::detail::saturated_sum(own_bytes, products.packed_bytes()));
  const cpu::ThreadScratch<std::int64_t> packed_group(executor, 1);

  if (matrix_of) {
    cpu::Kernel<RowsByGroup>::run(executor, sequences, matrix_of, groups, offsets.data(), list.data());
  } else {
    for (std::int64_t i = 0; i <= groups; ++i) offsets[i] = sequences.offsets[i] - sequences.first;
  }
  const std::int64_t bytes = product_bytes(sequences.rows(), columns, terms);
  // A part is as long as packing takes a small part of its time, but there is one for each thread.
  constexpr std::int64_t block = Products<bfloat16>::many;
  const std::int64_t share = (sequences.rows() / threads + block - 1) / block;
  const std::int64_t part_rows = std::clamp<std::int64_t>(share, 1, 16) * block;
  parts[0] = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    parts[g + 1] = parts[g] + (offsets[g + 1] - offsets[g] + part_rows - 1) / part_rows;
  }
  for (int thread = 0; thread < threads; ++thread) *packed_group(thread) = -1;
  const Rows<const bfloat16> rows{x, terms, matrix_of ? list.data() : nullptr};
  const Rows<bfloat16> to{y, columns, rows.list};
  const auto finish = [=](std::int64_t row, std::int64_t column, std::int64_t count, const float* sums) {
    bfloat16* const first = to[row] + column;
    for (std::int64_t i = 0; i < count; ++i) first[i] = static_cast<bfloat16>(sums[i]);
  };
  cpu::parallel_for(executor, parts[groups], bytes, [&](std::int64_t part, int thread) {
    const Team team(1);
    const auto group = partition_point<std::int64_t>(0, groups, [&](std::int64_t g) { return parts[g + 1] <= part; });
    std::byte* const packed = memory(thread) + own_bytes;
    if (*packed_group(thread) != group) {
      for (std::int64_t one = 0; one < products.blocks(); ++one) {
        products.pack(thread, memory(thread), one, matrices + group * terms * columns, packed);
      }
      *packed_group(thread) = group;
    }
    const std::int64_t begin = offsets[group] + (part - parts[group]) * part_rows;
    const std::int64_t end = std::min(begin + part_rows, offsets[group + 1]);
    for (std::int64_t tile = 0; tile < products.tiles(); ++tile) {
      products.run(thread, memory(thread), packed, tile, rows, false, begin, end, to, finish);
    }
  });
  return true;
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::by_dnnl
