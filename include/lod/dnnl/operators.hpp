// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Operators of programs that oneDNN runs. The library runs all of them without it too, those on images mostly more
/// slowly. A program that links oneDNN (the target lodtensor::dnnl) turns it on by:
///
///     lod::use_dnnl();    // <lod/run.hpp> is included as well
///     lod::run(program, scope, {.feed = feed});
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/dnnl/convolution.hpp>
#include <lod/dnnl/pooling.hpp>
#include <lod/program/operator.hpp>

#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// Lets oneDNN run conv2d, conv2d_transpose, their depthwise forms and pool2d, with their gradients, on numbers of
/// float, in all programs that are prepared from now on. Other types, empty images, and what oneDNN does not support
/// are still run by this library.
///
/// oneDNN uses as many threads as the executor has, by OpenMP; if it was built for other threads, it chooses their
/// number itself. It adds in another order, so results differ in the last digits, also between processors. The maximum
/// of a window that contains NaN need not be NaN.
inline void use_dnnl() {
  using Prepare = RunOperator<>(const OperatorArguments&, const RunOperator<>&);
  const std::pair<const char*, Prepare*> replaced[] = {
      {"conv2d", operators_by_dnnl::convolve<operators_by_dnnl::Direct>},
      {"conv2d_grad", operators_by_dnnl::convolve_grad<operators_by_dnnl::Direct>},
      {"conv2d_transpose", operators_by_dnnl::convolve<operators_by_dnnl::Transposed>},
      {"conv2d_transpose_grad", operators_by_dnnl::convolve_grad<operators_by_dnnl::Transposed>},
      {"depthwise_conv2d_transpose", operators_by_dnnl::convolve<operators_by_dnnl::Transposed>},
      {"depthwise_conv2d_transpose_grad", operators_by_dnnl::convolve_grad<operators_by_dnnl::Transposed>},
      {"depthwise_conv2d", operators_by_dnnl::convolve<operators_by_dnnl::Direct>},
      {"depthwise_conv2d_grad", operators_by_dnnl::convolve_grad<operators_by_dnnl::Direct>},
      {"pool2d", operators_by_dnnl::pool2d},
      {"pool2d_grad", operators_by_dnnl::pool2d_grad}};
  for (const auto& [type, prepare] : replaced) {
    auto made = operators().built_in(type).value();
    made.prepare = detail::with_standard_control<CpuExecutor>(
        [own = made.prepare, prepare = prepare](const OperatorArguments& op) { return prepare(op, own(op)); });
    operators().replace(type, std::move(made));
  }
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
