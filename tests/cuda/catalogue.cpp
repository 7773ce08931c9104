// SPDX-License-Identifier: Apache-2.0
/// @file
/// Each operation on random batches of every row size: a GPU gives what the CPU gives, a second call allocates nothing
/// and waits for nothing, and so does a graph.
#include "catalogue/catalogue.hpp"

#include "support/check_on_gpu.hpp"
#include "support/gpu_batches.hpp"
#include "support/register_cases.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace lod_test;

// Sums of products round as often as the processor's flags say, and the compiled library has its own.
#if defined(LOD_TEST_EMULATED_GPU) && defined(LOD_CUDA_LIBRARY)
template <class Op>
constexpr bool depends_on_flags =
    is_one_of<Op, op::sequence_conv, op::sequence_conv_grad, op::row_conv, op::row_conv_grad, op::lstm, op::lstm_grad,
              op::lstm_cell, op::lstm_cell_grad, op::gru, op::gru_grad, op::gru_cell, op::gru_cell_grad,
              op::stacked_lstm, op::stacked_lstm_grad, op::stacked_gru, op::stacked_gru_grad, op::jagged_dense_bmm,
              op::jagged_dense_bmm_grad, op::jagged_jagged_bmm, op::jagged_jagged_bmm_grad, op::grouped_linear,
              op::grouped_linear_grad>;
#else
template <class Op>
constexpr bool depends_on_flags = false;
#endif

struct SameOnGpu {
  static constexpr const char* name = "on a GPU, random batches";
  template <class Op>
  static constexpr bool holds_for = !lod::on_cpu_only<Op> && !depends_on_flags<Op>;
  template <class Op>
  static constexpr Checked what = waits<Op> || calls_users<Op> ? Checked::RESULTS : Checked::ALL;
  template <class Op>
  static void check() {
    // All is checked of one batch, with 40 listed rows, where kernels are interpreted: the rest is the host's doing.
    int batch = 0;
    for_each_gpu_batch([&](const Draws& draws) {
      const Checked checked = kernels_are_interpreted() && batch++ != 2 ? Checked::RESULTS : what<Op>;
      for_each_variant<Op, ElementOf<Op>>(draws, [&](Draws& drawn, const auto& run) {
        check_on_gpu("form " + std::to_string(drawn.variant), run, checked);
      });
    });
  }
};
[[maybe_unused]] const bool registered_same_on_gpu = register_cases<SameOnGpu>(__FILE__, __LINE__);

}  // namespace
