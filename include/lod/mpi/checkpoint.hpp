// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// Checkpoints: one of the library's own files, which all ranks write together, and any number of ranks reads.
///
///     lod::mpi::CheckpointWriter writer(ranks, "training.lod");
///     writer.add("weights", weights);        // the same on all ranks: written once
///     writer.add_joined("words", my_words);  // each rank has rows of its own: all of them, one after the other
///     writer.add("epoch", epoch);            // and whatever else the next step depends on
///     writer.commit();
///
///     const lod::File file = lod::mpi::open_checkpoint(ranks, "training.lod");
///     auto weights = file.load<lod::LoDTensor<float>>("weights");
///     auto my_words = lod::mpi::load_rows<float>(file, "words", [&](std::int64_t id) { return is_mine(id); });
///
/// Nothing in the file tells how many ranks wrote it. Needs lodtensor::mpi and lodtensor::file.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/io/checksum.hpp>
#include <lod/io/file.hpp>
#include <lod/io/file_writer.hpp>
#include <lod/io/stored_values.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/exchange.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/mpi/together.hpp>
#include <lod/ops/select.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// The bytes that other ranks have of a variable, on their way to rank 0, which writes them: a piece at a time, each
/// when rank 0 asks for it, so that it needs memory for one, and can tell the others to keep the rest.
class PiecesToRoot {
 public:
  PiecesToRoot(Group& group, int tag) : group_(group), tag_(tag), piece_(std::min(group.piece, most)) {}
  /// Takes memory for so many calls of `expect`.
  void reserve(std::size_t count) { expected_.reserve(count); }

  /// On another rank: sends these bytes, until rank 0 says that it will not have any more. Whether it has taken all.
  bool send(std::span<const std::byte> bytes) {
    return each_piece(static_cast<std::int64_t>(bytes.size()), [&](std::int64_t first, std::int64_t count) {
      std::int64_t wanted = 0;
      transfer([&](Messages& messages) { messages.receive(0, tag_, &wanted, sizeof wanted); });
      if (wanted == 0) return false;
      transfer([&](Messages& messages) { messages.send(0, tag_, bytes.data() + first, count); });
      return true;
    });
  }

  /// On rank 0: that another rank is about to send so many bytes, in one call of `send`.
  void expect(int rank, std::int64_t bytes) {
    if (bytes > 0) expected_.push_back({rank, (bytes - 1) / piece_ + 1});
  }
  /// Gives put() the bytes of a rank.
  template <class Put>
  void receive(int rank, std::int64_t bytes, const Put& put) {
    if (bytes > 0 && memory_.empty()) memory_.resize(static_cast<std::size_t>(piece_));
    each_piece(bytes, [&](std::int64_t, std::int64_t count) {
      ask(rank, 1);
      if (--expected_[next_].pieces == 0) ++next_;
      transfer([&](Messages& messages) { messages.receive(rank, tag_, memory_.data(), count); });
      put(std::span<const std::byte>(memory_).first(static_cast<std::size_t>(count)));
      return true;
    });
  }
  /// Tells all ranks from which something is expected still that they can keep it.
  void decline() {
    const auto first = expected_.begin() + static_cast<std::ptrdiff_t>(next_);
    for (auto one = first; one != expected_.end(); ++one) {
      const auto is_same = [&](const Expected& before) { return before.rank == one->rank; };
      if (std::none_of(first, one, is_same)) ask(one->rank, 0);
    }
  }

 private:
  static constexpr std::int64_t most = std::int64_t{4} << 20;
  struct Expected {
    int rank;
    std::int64_t pieces;
  };

  template <class F>
  bool each_piece(std::int64_t bytes, const F& f) const {
    for (std::int64_t first = 0; first < bytes; first += piece_) {
      if (!f(first, std::min(bytes - first, piece_))) return false;
    }
    return true;
  }
  template <class Begin>
  void transfer(const Begin& begin) {
    Messages messages(group_);
    begin(messages);
    finish(group_, nullptr, [&](bool wait) { return messages.complete(wait); });
  }
  void ask(int rank, std::int64_t wanted) {
    transfer([&](Messages& messages) { messages.send(rank, tag_, &wanted, sizeof wanted); });
  }

  Group& group_;
  int tag_;
  std::int64_t piece_;
  std::vector<std::byte> memory_;
  std::vector<Expected> expected_;  // in the order in which they are received
  std::size_t next_ = 0;
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET {

/// Writes one file of named variables from all ranks, as FileWriter does from one process: to a file beside `path` that
/// takes its name in `commit`, so that whoever opens `path` finds either all of it or what was there before, whichever
/// ranks are killed at whichever moment. What is to be the same after a restart has to be in it: parameters, the states
/// of optimizers, the epoch, the order of the data, the state of random numbers.
///
/// The constructor, all `add...` and `commit` are collective: all ranks must call them, with the same names. An
/// exception on one rank, such as rank 0's std::system_error if the disk is full, is a RankError with its text on the
/// others in the same call; the old file is still there then, and nothing can be added or committed any more unless it
/// was the arguments that were wrong. `path`, and what is added but to `add_joined`, count on rank 0 only, which alone
/// needs the file system. To be destroyed before MPI is finalized, as the communicator.
class CheckpointWriter {
 public:
  /// Begins such a file. Throws std::system_error.
  explicit CheckpointWriter(Communicator ranks, std::string path, const SaveOptions& options = {})
      : ranks_(std::move(ranks)) {
    together(ranks_, [&] {
      if (is_root()) writer_ = std::make_unique<FileWriter>(std::move(path), options);
    });
  }

  /// Writes a variable that is the same on all ranks, which is not checked: rank 0's. X is what FileWriter::add takes,
  /// and throws for.
  template <Storable X>
  void add(std::string name, const X& x) {
    together(ranks_, [&] {
      if (is_root()) writer_->add(std::move(name), x);
    });
  }

  /// Writes the rows of all ranks as one variable, one after the other in the order of ranks: of tensors without
  /// levels, or row-sparse values, whose ids are joined likewise; a rank may have none. Rows go to rank 0 a piece at a
  /// time: it takes 4 MiB, however many there are. Throws InvalidLoD for a tensor with levels, ShapeMismatch for
  /// row-sparse values with levels, for other element types, row shapes or heights than rank 0's and for elements that
  /// files do not have, std::invalid_argument for a bool that is neither 0 nor 1, if another rank names another
  /// variable, and as FileWriter::add does.
  template <between_ranks::Carried X>
  void add_joined(const std::string& name, const X& mine) {
    static_assert(!std::is_same_v<X, LoD>, "CheckpointWriter: a LoD has no rows; add it as a tensor of its lengths");
    auto& group = between_ranks::group_of(ranks_);
    between_ranks::Agreement agreement(group, between_ranks::Operation::SAVE);
    between_ranks::PiecesToRoot pieces(group, agreement.tag());
    between_ranks::Outgoing part;
    agreement.prepare([&] {
      pieces.reserve(2 * static_cast<std::size_t>(group.size));
      if constexpr (detail::StorableRows<X>) detail::check_stored_rows(mine, place_of(name).c_str());
      part = between_ranks::outgoing(mine);
      check_part(name, part);
      part.header.samples[0] = number_of(name);
      agreement.to_all(part.header);
    });
    {
      between_ranks::Messages messages(group);
      agreement.exchange(messages);
      between_ranks::finish(group, nullptr, [&](bool wait) { return messages.complete(wait); });
    }
    agreement.check();
    check_ranks(name, agreement, group.size);

    std::exception_ptr error;
    if (!is_root()) {
      for (const std::span<const std::byte> buffer : buffers_of(part)) {
        if (!pieces.send(buffer)) break;
      }
    } else {
      try {
        write_joined(name, agreement, part, pieces);
      } catch (...) {
        error = std::current_exception();
        pieces.decline();
      }
    }
    together(ranks_, [&] {
      if (error) std::rethrow_exception(error);
    });
  }

  /// Puts the file in its place, on all ranks' behalf, once all its bytes are on the disk (see SaveOptions). Throws
  /// what FileWriter::commit does; the file that was there is then still there. Nothing can be added afterwards.
  void commit() {
    together(ranks_, [&] {
      if (is_root()) writer_->commit();
    });
  }

 private:
  using Buffers = std::vector<std::span<const std::byte>>;

  bool is_root() const noexcept { return ranks_.rank() == 0; }
  static bool is_sparse(const between_ranks::Header& header) noexcept {
    return header.kind == static_cast<std::int64_t>(between_ranks::Kind::ROWS);
  }
  static std::int64_t number_of(const std::string& name) noexcept {
    detail::Checksum checksum;
    checksum.add(name.data(), name.size());
    return static_cast<std::int64_t>(checksum.value());
  }
  static std::string place_of(const std::string& name) { return detail::text({"CheckpointWriter: '", name, "'"}); }

  /// The buffers of a variable, in the order of files: ids, where there are any, and values.
  static Buffers buffers_of(const between_ranks::Outgoing& part) {
    Buffers buffers;
    if (is_sparse(part.header)) buffers.push_back(std::as_bytes(part.numbers));
    const auto size = static_cast<std::size_t>(between_ranks::bytes_of_values(part.header));
    buffers.emplace_back(static_cast<const std::byte*>(part.values), size);
    return buffers;
  }
  /// Throws for what this rank has and a file could not.
  static void check_part(const std::string& name, const between_ranks::Outgoing& part) {
    const between_ranks::Header& header = part.header;
    if (header.levels > 0) {
      throw InvalidLoD(detail::text({place_of(name), ": ", header.levels, " levels, expected none"}));
    }
    if (header.type < 0) {
      throw ShapeMismatch(detail::text(
          {place_of(name), ": ", between_ranks::type_name(header.type), ", expected one that has a DataType"}));
    }
    const Buffers buffers = buffers_of(part);
    detail::check_stored_values(static_cast<DataType>(header.type), buffers.back(), place_of(name).c_str());
  }
  /// Throws on all ranks if what one of them has does not fit rank 0's.
  static void check_ranks(const std::string& name, const between_ranks::Agreement& agreement, int size) {
    const between_ranks::Header& first = agreement.from(0);
    for (int rank = 1; rank < size; ++rank) {
      const between_ranks::Header& header = agreement.from(rank);
      const std::string which = detail::text({place_of(name), ": rank ", rank});
      if (header.samples[0] != first.samples[0]) {
        throw std::invalid_argument(detail::text({which, ": another name than that of rank 0"}));
      }
      between_ranks::check_alike(header, first, which);
    }
  }

  /// On rank 0: writes the variable of all ranks, of which this one has `own`.
  void write_joined(const std::string& name, const between_ranks::Agreement& agreement,
                    const between_ranks::Outgoing& own, between_ranks::PiecesToRoot& pieces) {
    const int size = ranks_.size();
    const bool has_ids = is_sparse(own.header);
    const auto bytes_of = [&](int rank, std::size_t buffer) {
      const between_ranks::Header& header = agreement.from(rank);
      return has_ids && buffer == 0 ? detail::bytes_of<std::int64_t>(header.rows)
                                    : between_ranks::bytes_of_values(header);
    };
    const Buffers buffers = buffers_of(own);
    std::int64_t rows = 0;
    for (int rank = 0; rank < size; ++rank) rows = detail::saturated_sum(rows, agreement.from(rank).rows);
    for (std::size_t buffer = 0; buffer < buffers.size(); ++buffer) {
      for (int rank = 1; rank < size; ++rank) pieces.expect(rank, bytes_of(rank, buffer));
    }

    VarDesc description{.name = name};
    const Shape row_shape = between_ranks::row_shape_of(own.header);
    TensorDesc tensor{static_cast<DataType>(own.header.type), {has_ids ? own.header.height : rows}};
    tensor.dims.insert(tensor.dims.end(), row_shape.begin(), row_shape.end());
    description.type.type = has_ids ? VarType::SELECTED_ROWS : VarType::LOD_TENSOR;
    if (has_ids) {
      description.type.selected_rows = std::move(tensor);
    } else {
      description.type.lod_tensor = LoDTensorDesc{std::move(tensor), 0};
    }
    std::size_t next = 0;
    writer_->add_in_pieces(std::move(description), rows, [&](const auto& put) {
      const std::size_t buffer = next++;
      put(buffers[buffer]);
      for (int rank = 1; rank < size; ++rank) pieces.receive(rank, bytes_of(rank, buffer), put);
    });
  }

  Communicator ranks_;
  std::unique_ptr<FileWriter> writer_;  // on rank 0
};

/// Opens a checkpoint, or any of the library's own files, on all ranks, which must all see it. Between them they read
/// it once, and verify all checksums, so that the file's tensors can be used in place. Collective: what is wrong, as
/// lod::File says, is thrown by the rank that has found it; the others throw RankError.
[[nodiscard]] inline File open_checkpoint(const Communicator& ranks, const std::string& path) {
  std::optional<File> file;
  together(ranks, [&] {
    file = File::open(path);
    const std::vector<std::string> names = file->names();
    const auto size = static_cast<std::size_t>(ranks.size());
    for (auto i = static_cast<std::size_t>(ranks.rank()); i < names.size(); i += size) file->verify(names[i]);
  });
  return *std::move(file);
}

/// Of row-sparse values in a file, such as those that add_joined has written, the rows whose ids are this rank's, those
/// for which is_mine(id) is true; in the order of the file. Reads all ids and only these rows. Not collective. Throws
/// as lod::File does.
template <class T, class IsMine>
[[nodiscard]] SelectedRows<T> load_rows(const File& file, std::string_view name, const IsMine& is_mine) {
  const SelectedRows<const T> all = file.selected_rows<T>(name);
  std::vector<std::int64_t> ids, places;
  for (std::size_t i = 0; i < all.rows().size(); ++i) {
    if (!is_mine(all.rows()[i])) continue;
    ids.push_back(all.rows()[i]);
    places.push_back(static_cast<std::int64_t>(i));
  }
  return {std::move(ids), all.height(), select(all.value(), places)};
}

}  // namespace lod::inline LOD_INTERFACE::mpi::inline LOD_TARGET
