// SPDX-License-Identifier: Apache-2.0
/// @file
/// Arrays as another library hands them over by Arrow's C data interface.
#pragma once

#include <lod/arrow.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lod_test {

/// One struct of an array that is nested without branches: as it is said to be, right or wrong.
struct ForeignLevel {
  std::string format = {};
  std::int64_t length = 0;
  std::vector<const void*> buffers = {};
  std::int64_t offset = 0;
  std::int64_t null_count = 0;
  std::string metadata = {};
};

/// An array and its schema. The outermost level comes first; each is the child of the one before.
class ForeignArrow {
 public:
  /// `released` counts the calls of the array's release callback.
  ForeignArrow(std::vector<ForeignLevel> levels, int& released)
      : levels_(std::move(levels)), schemas_(levels_.size()), fields_(levels_.size()) {
    block_ = std::make_unique<Block>();
    block_->released = &released;
    block_->arrays.resize(levels_.size());
    for (std::size_t i = levels_.size(); i-- > 0;) {
      const bool parent = i + 1 < levels_.size();
      block_->buffers.push_back(std::make_unique<std::vector<const void*>>(levels_[i].buffers));
      ArrowArray& array = block_->arrays[i];
      array.length = levels_[i].length;
      array.null_count = levels_[i].null_count;
      array.offset = levels_[i].offset;
      array.n_buffers = static_cast<std::int64_t>(levels_[i].buffers.size());
      array.buffers = block_->buffers.back()->data();
      array.release = [](ArrowArray* child) { child->release = nullptr; };
      ArrowSchema& schema = schemas_[i];
      schema.format = levels_[i].format.c_str();
      schema.metadata = levels_[i].metadata.empty() ? nullptr : levels_[i].metadata.data();
      schema.release = [](ArrowSchema* field) { field->release = nullptr; };
      if (parent) {
        array.n_children = schema.n_children = 1;
        array.children = block_->children.emplace_back(std::make_unique<ArrowArray*>(&block_->arrays[i + 1])).get();
        fields_[i] = &schemas_[i + 1];
        schema.children = &fields_[i];
      }
    }
    block_->arrays[0].private_data = block_.get();
    block_->arrays[0].release = [](ArrowArray* base) {
      const std::unique_ptr<Block> block(static_cast<Block*>(base->private_data));
      ++*block->released;
      base->release = nullptr;
    };
  }

  /// @{
  /// The structs, to be changed before they are handed over.
  ArrowArray& array(std::size_t level) { return block_->arrays[level]; }
  ArrowSchema& schema(std::size_t level) { return schemas_[level]; }
  /// @}

  /// Hands the array over.
  lod::ArrowHandle<ArrowArray> give() { return lod::ArrowHandle<ArrowArray>(block_.release()->arrays.data()); }
  /// @{
  /// Hands it over to from_arrow.
  template <class T>
  lod::LoDTensor<const T> import() {
    return lod::from_arrow<T>(give(), schemas_[0]);
  }
  lod::AnyLoDTensor import_any() { return lod::from_arrow(give(), schemas_[0]); }
  /// @}

 private:
  struct Block {
    std::vector<ArrowArray> arrays;
    std::vector<std::unique_ptr<ArrowArray*>> children;
    std::vector<std::unique_ptr<std::vector<const void*>>> buffers;
    int* released = nullptr;
  };
  std::vector<ForeignLevel> levels_;
  std::vector<ArrowSchema> schemas_;
  std::vector<ArrowSchema*> fields_;
  std::unique_ptr<Block> block_;
};

}  // namespace lod_test
