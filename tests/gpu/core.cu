// SPDX-License-Identifier: Apache-2.0
/// @file
/// The core headers in a translation unit of nvcc: that they compile, and that their templates do.
#include <lod/desc.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/selected_rows.hpp>

template class lod::LoDTensor<float>;
template class lod::SelectedRows<double>;
