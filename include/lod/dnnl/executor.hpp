// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// An executor for CPUs whose products of bfloat16 are oneDNN's, by the instructions that the processor has for them.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>
#include <lod/dnnl/instructions.hpp>
#include <lod/dnnl/matrix_product.hpp>
#include <lod/kernels/cpu/for_each_range.hpp>
#include <lod/kernels/cpu/row_filter.hpp>
#include <lod/ops/jagged_bmm.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/new_offsets.hpp>
#include <lod/ops/sequence_erase.hpp>

#include <concepts>
#include <cstdint>
#include <memory_resource>

namespace lod::inline LOD_INTERFACE {

/// A CpuExecutor whose products of matrices of bfloat16 are computed by oneDNN, where `dnnl_instructions` says that the
/// processor multiplies bfloat16 (AVX-512 BF16 or AMX): those of `linear`, `lstm`, `gru`, `lstm_cell`, `gru_cell` and
/// their gradients, and those with a matrix for each group or sequence, `grouped_linear`, `jagged_dense_bmm` and the
/// gradients with respect to x of these. Everything else is as on a CpuExecutor: other types, other operations, sums
/// over the rows of a sequence (`jagged_jagged_bmm`, the gradients with respect to weights of `grouped_linear`), other
/// processors.
///
/// Sums are of float, rounded once, and as exact as those of a CpuExecutor, to four times the error: up to 1024 terms
/// are added in pairs one after the other, sums of these with compensation. They have other bits than a CpuExecutor's.
/// The processor's instructions count subnormal numbers as 0, arguments, results and in between. As everywhere, a row's
/// bits depend on that row and the weights alone, neither on other rows nor on threads, and those of `grouped_linear`
/// are those of `linear`; they may differ between processors, versions of oneDNN, and ONEDNN_MAX_CPU_ISA in the
/// environment, which limits the instructions that oneDNN takes.
///
/// Weights are packed for oneDNN in each call, which takes as long as the products of some twenty rows, of up to 140
/// with transposed weights, as in gradients: a product of few rows takes longer than on a CpuExecutor. Primitives are
/// made when a shape of weights is first multiplied, for some tenths of a millisecond; an executor and its copies keep
/// those of the last shapes. Memory comes from the executor's resource, and on a second call none does; oneDNN itself
/// takes and returns some hundred bytes for each 64 rows. The threads are those of a CpuExecutor, not oneDNN's own.
class DnnlExecutor : public CpuExecutor {
 public:
  /// As many threads as a CpuExecutor has.
  LOD_TAGGED DnnlExecutor() = default;
  /// Throws OutOfRange for fewer than one thread. Results and scratch memory come from `resource`.
  LOD_TAGGED explicit DnnlExecutor(int threads, std::pmr::memory_resource* resource = Cpu::default_resource())
      : CpuExecutor(threads, resource) {}
  /// The same threads, memory resource and workspace.
  LOD_TAGGED explicit DnnlExecutor(const CpuExecutor& executor) noexcept : CpuExecutor(executor) {}

  // No moves: a moved-from executor still works.
  LOD_TAGGED DnnlExecutor(const DnnlExecutor&) noexcept = default;
  LOD_TAGGED DnnlExecutor& operator=(const DnnlExecutor&) noexcept = default;
  LOD_TAGGED ~DnnlExecutor() = default;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// @{
/// Kernels are a CpuExecutor's.
template <class Tag, class... A>
auto launch(Tag tag, const DnnlExecutor& executor, const A&... arguments) {
  return launch(tag, static_cast<const CpuExecutor&>(executor), arguments...);
}
inline std::int64_t launch(RangeCount tag, const DnnlExecutor& executor, std::int64_t count) noexcept {
  return launch(tag, static_cast<const CpuExecutor&>(executor), count);
}
inline std::int64_t launch(RangeCount tag, const DnnlExecutor& executor, std::int64_t count,
                           std::int64_t bytes) noexcept {
  return launch(tag, static_cast<const CpuExecutor&>(executor), count, bytes);
}
template <class Body>
void launch(ForEachRange tag, const DnnlExecutor& executor, std::int64_t count, const Body& body) {
  launch(tag, static_cast<const CpuExecutor&>(executor), count, body);
}
template <class Body>
void launch(ForEachRange tag, const DnnlExecutor& executor, std::int64_t count, std::int64_t bytes, const Body& body) {
  launch(tag, static_cast<const CpuExecutor&>(executor), count, bytes, body);
}
inline std::int64_t launch(FilterScratch tag, const DnnlExecutor& executor, std::int64_t rows) noexcept {
  return launch(tag, static_cast<const CpuExecutor&>(executor), rows);
}
/// @}

/// @{
/// Products of bfloat16 are oneDNN's, where it has them.
template <std::same_as<bfloat16> T>
void launch(MatrixProduct tag, const DnnlExecutor& executor, bool transpose_a, bool transpose_b, std::int64_t m,
            std::int64_t n, std::int64_t k, double alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
            double beta, T* c, std::int64_t ldc) {
  const CpuExecutor& cpu = executor;
  if (by_dnnl::multiply(cpu, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
  launch(tag, cpu, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
template <std::same_as<bfloat16> T>
void launch(JaggedDenseProduct tag, const DnnlExecutor& executor, const T* x, const Segments& sequences,
            std::int64_t terms, const T* matrices, const std::int64_t* matrix_of, bool transposed, std::int64_t columns,
            T* y) {
  const CpuExecutor& cpu = executor;
  if (by_dnnl::multiply_sequences(cpu, x, sequences, terms, matrices, matrix_of, transposed, columns, y)) return;
  launch(tag, cpu, x, sequences, terms, matrices, matrix_of, transposed, columns, y);
}
/// @}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
