// SPDX-License-Identifier: Apache-2.0
/// @file
/// The headers of several GPUs in a translation unit of nvcc: that they compile, and templates of theirs that call no
/// kernel.
#include <lod/nccl.hpp>

template void lod::nccl::broadcast_into(const lod::nccl::Communicator&, int, lod::LoDTensor<float, lod::Cuda>&);
template void lod::nccl::send(const lod::nccl::Communicator&, const lod::SelectedRows<float, lod::Cuda>&, int);
