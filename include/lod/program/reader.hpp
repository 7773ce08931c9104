// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// What a variable of the type READER holds: a source of tensors, one step after the other. Those of files are in
/// <lod/io/batches.hpp>, those that read from others in <lod/program/readers.hpp>.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/target.hpp>
#include <lod/program/waiting_time.hpp>

#include <optional>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// Delivers the tensors of one step after the other: the contents of a READER. It is held by a shared pointer, since
/// all who read share its position in the data. Derive from it to read from a source of your own.
class Reader {
 public:
  LOD_TAGGED Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  LOD_TAGGED virtual ~Reader() = default;

  /// The tensors that each step has.
  LOD_TAGGED virtual ReaderDesc desc() const = 0;
  /// The tensors of the next step; nothing after the last one.
  LOD_TAGGED virtual std::optional<std::vector<AnyLoDTensor>> next() = 0;
  /// The same, but waits for other threads for at most `longest`, then throws LimitExceeded. By default it waits for
  /// none.
  LOD_TAGGED virtual std::optional<std::vector<AnyLoDTensor>> next_within(WaitingTime longest) {
    static_cast<void>(longest);
    return next();
  }
  /// Goes back to before the first step.
  LOD_TAGGED virtual void restart() = 0;
  /// Ends a `next` that waits in another thread, as if there were no further step. Does nothing if none waits.
  LOD_TAGGED virtual void interrupt() noexcept {}
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// A reader without steps: the contents of a READER before it is given another.
class EmptyReader final : public Reader {
 public:
  /// Would deliver what is described.
  explicit EmptyReader(ReaderDesc desc = {}) : desc_(std::move(desc)) {}
  ReaderDesc desc() const override { return desc_; }
  std::optional<std::vector<AnyLoDTensor>> next() override { return std::nullopt; }
  void restart() override {}

 private:
  ReaderDesc desc_;
};

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
