// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// What a variable of the type READER holds: a source of tensors, one step after the other. Readers of files are in
/// <lod/io/batches.hpp>, readers of channels and of other readers in <lod/program/readers.hpp>.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/target.hpp>
#include <lod/program/waiting_time.hpp>

#include <optional>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// Delivers tensors, one step at a time: the contents of a READER. Variables hold it by a shared pointer, since
/// everything that reads from it shares its position in the data. Derive from it to read from a source of your own.
class Reader {
 public:
  LOD_TAGGED Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  LOD_TAGGED virtual ~Reader() = default;

  /// Describes the tensors of each step.
  LOD_TAGGED virtual ReaderDesc desc() const = 0;
  /// The tensors of the next step; nothing after the last one.
  LOD_TAGGED virtual std::optional<std::vector<AnyLoDTensor>> next() = 0;
  /// The same, but waits for other threads no longer than `longest`, then throws LimitExceeded. The default calls
  /// `next`, for readers that never wait.
  LOD_TAGGED virtual std::optional<std::vector<AnyLoDTensor>> next_within(WaitingTime longest) {
    static_cast<void>(longest);
    return next();
  }
  /// Starts again from the first step.
  LOD_TAGGED virtual void restart() = 0;
  /// Ends a `next` that waits in another thread, as if there were no further step. Does nothing if none waits.
  LOD_TAGGED virtual void interrupt() noexcept {}
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// A reader without steps: what a READER holds until it is given another.
class EmptyReader final : public Reader {
 public:
  /// `desc` is what desc() returns.
  explicit EmptyReader(ReaderDesc desc = {}) : desc_(std::move(desc)) {}
  ReaderDesc desc() const override { return desc_; }
  std::optional<std::vector<AnyLoDTensor>> next() override { return std::nullopt; }
  void restart() override {}

 private:
  ReaderDesc desc_;
};

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
