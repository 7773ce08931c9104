// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// Reading a file batch by batch, for training.
///
///     lod::FileBatches batches(lod::File::open("train.lod"), {"words", "labels"}, {.size = 64, .shuffle = 1});
///     for (int pass = 0; pass < 10; ++pass, batches.restart()) {
///       while (auto batch = batches.next()) train((*batch)[0], (*batch)[1]);
///     }
///
/// In a program, a variable of type READER holds one: the operator create_file_reader of <lod/io/reader_operators.hpp>
/// makes it.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/philox.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/io/file.hpp>
#include <lod/program/reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// The options of FileBatches.
struct BatchOptions {
  /// The number of sequences of the outermost level in a batch; of rows for a tensor without levels.
  std::int64_t size = 1;
  /// Whether the last batch is left out if it is smaller than the others.
  bool drop_last = false;
  /// The seed of a random order, which differs from pass to pass and is the same on every machine. None: the order of
  /// the file.
  std::optional<std::uint64_t> shuffle = {};
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// Reads tensors of a file, a batch at a time: tensors with levels by sequences of the outermost level, tensors without
/// levels by rows, such as a label for each sequence. So position i of each tensor belongs to the same example.
///
/// In the order of the file, batches refer to the mapped file, and nothing is copied; shuffled, the rows of a batch are
/// copied together. The offsets of all levels are read when it is made.
class FileBatches final : public Reader {
 public:
  /// Reads the tensors of these names, or all tensors if there are no names. Throws OutOfRange for a name that is not
  /// there; ShapeMismatch for an entry that is not a tensor, and if they have different numbers of sequences;
  /// ParseError for malformed bytes; std::invalid_argument for batches of less than one sequence.
  FileBatches(const File& file, std::vector<std::string> names, const BatchOptions& options)
      : file_(file), names_(std::move(names)), options_(options) {
    if (options_.size < 1) throw std::invalid_argument("FileBatches: batches of less than one sequence");
    if (names_.empty()) names_ = file_.names();
    if (names_.empty()) throw ShapeMismatch("FileBatches: a file without tensors");
    for (const std::string& name : names_) {
      tensors_.push_back(file_.any_tensor(name));
      const AnyLoDTensor& x = tensors_.back();
      const std::int64_t count = x.levels() > 0 ? x.lod().size(0) : x.rows();
      if (tensors_.size() == 1) count_ = count;
      if (count != count_) {
        throw ShapeMismatch(detail::text({"FileBatches: '", name, "' has ", count, " sequences, '", names_[0], "' has ",
                                          count_, ", expected as many"}));
      }
    }
    shuffle();
  }

  /// The number of sequences in a pass.
  std::int64_t size() const noexcept { return count_; }

  ReaderDesc desc() const override {
    ReaderDesc desc;
    for (const AnyLoDTensor& x : tensors_) {
      desc.lod_tensor.push_back(describe(x));
      desc.lod_tensor.back().tensor.dims.front() = -1;
    }
    return desc;
  }
  std::optional<std::vector<AnyLoDTensor>> next() override {
    const std::int64_t end = next_ + std::min(options_.size, count_ - next_);
    if (end == next_ || (options_.drop_last && end - next_ < options_.size)) return std::nullopt;
    std::vector<AnyLoDTensor> batch;
    batch.reserve(names_.size());
    for (std::size_t i = 0; i < names_.size(); ++i) {
      batch.push_back(order_.empty() ? file_.any_between(names_[i], next_, end) : gather(tensors_[i], next_, end));
    }
    next_ = end;
    return batch;
  }
  /// Begins the next pass.
  void restart() override {
    next_ = 0;
    ++pass_;
    shuffle();
  }

 private:
  /// Fisher and Yates' method, from the order of the file.
  void shuffle() {
    if (!options_.shuffle) return;
    order_.resize(static_cast<std::size_t>(count_));
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    const detail::Philox random(*options_.shuffle, pass_);
    for (std::size_t i = order_.size(); i > 1; --i) {
      const auto bits = random.bits(i);
      const std::uint64_t number = bits[0] | std::uint64_t{bits[1]} << 32;
      std::swap(order_[i - 1], order_[static_cast<std::size_t>(number % i)]);
    }
  }
  /// The sequences at positions [begin, end) of the order.
  AnyLoDTensor gather(const AnyLoDTensor& x, std::int64_t begin, std::int64_t end) const {
    const auto chosen =
        std::span(order_).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    std::vector<std::vector<std::int64_t>> lengths(static_cast<std::size_t>(x.levels()));
    std::vector<std::pair<std::int64_t, std::int64_t>> runs;  // of rows
    std::int64_t rows = 0;
    for (const std::int64_t sequence : chosen) {
      std::int64_t from = sequence, to = sequence + 1;
      for (int level = 0; level < x.levels(); ++level) {
        const auto offsets = x.lod().offsets(level);
        auto& own = lengths[static_cast<std::size_t>(level)];
        for (std::int64_t i = from; i < to; ++i) {
          own.push_back(offsets[static_cast<std::size_t>(i + 1)] - offsets[static_cast<std::size_t>(i)]);
        }
        from = offsets[static_cast<std::size_t>(from)];
        to = offsets[static_cast<std::size_t>(to)];
      }
      runs.emplace_back(from, to);
      rows += to - from;
    }
    AnyLoDTensor batch(x.data_type(), x.levels() > 0 ? LoD::from_lengths(lengths) : LoD(), x.row_shape(), uninitialized,
                       rows);
    const std::int64_t row_bytes = x.row_size() * static_cast<std::int64_t>(size_of(x.data_type()));
    auto to = batch.mutable_bytes().begin();
    for (const auto& [first, last] : runs) {
      to = std::copy_n(x.bytes().begin() + first * row_bytes, (last - first) * row_bytes, to);
    }
    return batch;
  }

  File file_;
  std::vector<std::string> names_;
  BatchOptions options_;
  std::vector<AnyLoDTensor> tensors_;  // on the file
  std::int64_t count_ = 0;
  std::vector<std::int64_t> order_;  // of the present pass; empty: the order of the file
  std::int64_t next_ = 0;
  std::uint64_t pass_ = 0;
};

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
