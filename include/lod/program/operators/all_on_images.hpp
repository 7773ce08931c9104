// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operators on images that come with the library, by their types: part of all.hpp.
#pragma once

#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/families.hpp>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

template <class E>
inline constexpr detail::BuiltInOperator<E> on_images[] = {
    {"batch_norm", batch_norm<E>,
     gradient<"X, Scale, Bias, SavedMean, SavedVariance, MeanOut, VarianceOut, ReserveSpace, Y@GRAD -> X@GRAD, "
              "Scale@GRAD, Bias@GRAD">},
    {"batch_norm_grad", batch_norm_grad<E>},
    {"conv2d", conv2d<E>, gradient<"Input, Filter, Output@GRAD -> Input@GRAD, Filter@GRAD">},
    {"conv2d_grad", conv2d_grad<E>},
    {"conv2d_transpose", conv2d_transpose<E>, gradient<"Input, Filter, Output@GRAD -> Input@GRAD, Filter@GRAD">},
    {"conv2d_transpose_grad", conv2d_transpose_grad<E>},
    {"depthwise_conv2d", conv2d<E>, gradient<"Input, Filter, Output@GRAD -> Input@GRAD, Filter@GRAD">},
    {"depthwise_conv2d_grad", conv2d_grad<E>},
    {"depthwise_conv2d_transpose", conv2d_transpose<E>,
     gradient<"Input, Filter, Output@GRAD -> Input@GRAD, Filter@GRAD">},
    {"depthwise_conv2d_transpose_grad", conv2d_transpose_grad<E>},
    {"group_norm", group_norm<E, false>,
     gradient<"X, Scale, Bias, Mean, Variance, Y, Y@GRAD -> X@GRAD, Scale@GRAD, Bias@GRAD">},
    {"group_norm_grad", group_norm_grad<E, false>},
    {"instance_norm", group_norm<E, true>,
     gradient<"X, Scale, SavedMean, SavedVariance, Y@GRAD -> X@GRAD, Scale@GRAD, Bias@GRAD">},
    {"instance_norm_grad", group_norm_grad<E, true>},
    {"lrn", lrn<E>, gradient<"X, Out, MidOut, Out@GRAD -> X@GRAD">},
    {"lrn_grad", lrn_grad<E>},
    {"maxout", maxout<E>, gradient<"X, Out, Out@GRAD -> X@GRAD">},
    {"maxout_grad", maxout_grad<E>},
    {"pool2d", pool2d<E>, gradient<"X, Out, Out@GRAD -> X@GRAD">},
    {"pool2d_grad", pool2d_grad<E>},
};

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
