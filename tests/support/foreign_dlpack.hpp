// SPDX-License-Identifier: Apache-2.0
/// @file
/// Arrays as another library hands them over by DLPack.
#pragma once

#include <lod/dlpack.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

// Headers of DLPack before 1.0 lack the struct that newer libraries prefer. Its layout is that of the specification.
#ifndef DLPACK_MAJOR_VERSION
struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
#endif

namespace lod_test {

/// A dense row-major float array; the rest is for a test to change before it is handed over.
template <class Managed = DLManagedTensor>
class ForeignDLPack {
 public:
  /// `deleted` counts the calls of the deleter.
  ForeignDLPack(void* data, std::vector<std::int64_t> shape, int& deleted) : block_(std::make_unique<Block>()) {
    block_->shape = std::move(shape);
    block_->deleted = &deleted;
    DLTensor& array = tensor().dl_tensor;
    array.data = data;
    array.device = {kDLCPU, 0};
    array.ndim = static_cast<int>(block_->shape.size());
    array.dtype = {kDLFloat, 32, 1};
    array.shape = block_->shape.data();
    tensor().manager_ctx = block_.get();
    tensor().deleter = [](Managed* self) {
      auto* const block = static_cast<Block*>(self->manager_ctx);
      ++*block->deleted;
      delete block;
    };
    if constexpr (requires { tensor().version; }) tensor().version = {1, 0};
  }

  Managed& tensor() { return block_->tensor; }
  DLTensor& array() { return tensor().dl_tensor; }
  ForeignDLPack& strides(std::vector<std::int64_t> strides) {
    block_->strides = std::move(strides);
    array().strides = block_->strides.data();
    return *this;
  }
  ForeignDLPack& type(std::uint8_t code, std::uint8_t bits, std::uint16_t lanes = 1) {
    array().dtype = {code, bits, lanes};
    return *this;
  }
  /// Hands it over.
  lod::DLPackHandle<Managed> give() { return lod::DLPackHandle<Managed>(&block_.release()->tensor); }

 private:
  struct Block {
    Managed tensor{};
    std::vector<std::int64_t> shape, strides;
    int* deleted = nullptr;
  };
  std::unique_ptr<Block> block_;
};

}  // namespace lod_test
