// SPDX-License-Identifier: Apache-2.0
/// @file
/// What ranks tell each other through MPI before values are enqueued, and where values arrive: nothing here waits for a
/// GPU.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/cuda/selected_rows.hpp>
#include <lod/cuda/stream.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/carried.hpp>
#include <lod/mpi/exchange.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/nccl/communicator.hpp>
#include <lod/ops/output.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_gpus::inline LOD_TARGET {

using between_ranks::Arriving;
using between_ranks::Header;
using between_ranks::Operation;

/// @{
/// Whether X is row-sparse values on a GPU.
template <class X>
inline constexpr bool is_rows = false;
template <class T>
inline constexpr bool is_rows<SelectedRows<T, Cuda>> = true;
/// @}
/// A tensor on a GPU, or a view of one.
template <class X>
concept DeviceTensor = LoDTensorLike<X> && std::same_as<device_t<X>, Cuda>;
/// What can be sent.
template <class X>
concept Carried = DeviceTensor<X> || is_rows<X>;

/// A value that is sent: levels, and addresses on the GPU. Row-sparse values have ids there.
struct Outgoing : between_ranks::Outgoing {
  const void* ids = nullptr;
};

/// x as it is sent; its memory must stay.
template <Carried X>
Outgoing outgoing(const X& x) {
  Outgoing out;
  if constexpr (is_rows<X>) {
    detail::check_value_rows(x, "SelectedRows");
    between_ranks::put_view(std::as_const(x.value()).view(), out);
    out.header.kind = static_cast<std::int64_t>(between_ranks::Kind::ROWS);
    out.header.height = x.height();
    out.ids = x.rows().data();
  } else {
    between_ranks::put_view(x.view(), out);
  }
  return out;
}
/// What a rank that only receives says of itself.
template <class Y>
Outgoing expected() noexcept {
  Outgoing out;
  out.header.type = between_ranks::type_of<typename Y::value_type>();
  if constexpr (is_rows<Y>) out.header.kind = static_cast<std::int64_t>(between_ranks::Kind::ROWS);
  return out;
}

/// The bytes of a row in each block of memory: in the values, and in the ids, of which tensors have none.
inline std::array<std::int64_t, 2> row_bytes_of(const Header& header) {
  const std::int64_t bytes =
      detail::saturated_product(between_ranks::row_shape_of(header).elements(), between_ranks::type_size(header.type));
  return std::array<std::int64_t, 2>{
      bytes, header.kind == static_cast<std::int64_t>(between_ranks::Kind::ROWS) ? std::int64_t{8} : 0};
}
/// Calls f(bytes of a row, block of what is sent, block of what arrives) for each block. Either may be null, if this
/// rank has none.
template <class Y, class F>
void for_each_block(const Header& header, const Outgoing* out, Y* to, const F& f) {
  const auto row_bytes = row_bytes_of(header);
  const void* const from[2] = {out ? out->values : nullptr, out ? out->ids : nullptr};
  std::byte* const into[2] = {to ? to->values() : nullptr, to ? to->ids() : nullptr};
  for (std::size_t i = 0; i < 2; ++i) {
    if (row_bytes[i] > 0) f(row_bytes[i], static_cast<const std::byte*>(from[i]), into[i]);
  }
}
/// `base` and `bytes` after it; null has none.
template <class Byte>
Byte* after(Byte* base, std::int64_t bytes) noexcept {
  return base ? base + bytes : nullptr;
}

/// Where a value arrives. The output is changed by `finish` only, except that its memory may hold other values from
/// `prepare` on, where that suffices.
template <class Y>
class Landing {
 public:
  explicit Landing(Y& y) noexcept : y_(&y) {}

  /// Takes memory for `header.rows` rows.
  void prepare(const Header& header, CudaStream* of_new) {
    height_ = header.height;
    const auto take = [&](const auto& before, const Shape& row_shape) {
      return before.resized(LoD(), row_shape, header.rows, before.resource() ? before.resource() : of_new);
    };
    const Shape row_shape = between_ranks::row_shape_of(header);
    if constexpr (is_rows<Y>) {
      ids_ = take(y_->rows(), Shape());
      values_ = take(y_->value(), row_shape);
    } else {
      values_ = take(*y_, row_shape);
    }
  }
  std::byte* values() noexcept { return reinterpret_cast<std::byte*>(values_.data()); }
  std::byte* ids() noexcept { return reinterpret_cast<std::byte*>(ids_.data()); }
  void finish(LoD lod) {
    if constexpr (is_rows<Y>) {
      *y_ = Y(std::move(ids_), height_, std::move(values_));
    } else {
      *y_ = std::move(values_).with_lod(std::move(lod));
    }
  }

 private:
  Y* y_;
  std::int64_t height_ = 0;
  LoDTensor<typename Y::value_type, Cuda> values_;
  LoDTensor<std::int64_t, Cuda> ids_;
};

/// Throws std::invalid_argument if what is sent overlaps what is received.
template <class X, class Y>
void check_apart(const char* what, const X& x, const Y& y) {
  const auto values = [](const auto& of) -> decltype(auto) {
    if constexpr (is_rows<std::remove_cvref_t<decltype(of)>>) {
      return std::as_const(of.value()).view();
    } else {
      return of.view();
    }
  };
  if constexpr (is_rows<Y>) {
    operation::check_apart(what, y.value(), {{"x", values(x)}});
    if constexpr (is_rows<X>) operation::check_apart(what, y.rows(), {{"x", x.rows().view()}});
  } else {
    operation::check_apart(what, y, {{"x", values(x)}});
  }
}

/// Both exchanges of a collective operation.
class Sizes {
 public:
  Sizes(const nccl::Communicator& communicator, Operation operation, int root = 0)
      : group_(&group_of(communicator)),
        hosts_(&between_ranks::group_of(group_->hosts)),
        root_(root),
        agreement_(*hosts_, operation, root),
        numbers_(static_cast<std::size_t>(hosts_->size)) {}

  /// The first: prepare() gives this rank's part for each rank, or one for all. Throws on all ranks if it throws on
  /// one.
  template <class Prepare>
  void tell(const Prepare& prepare) {
    between_ranks::Messages messages(*hosts_);
    agreement_.prepare([&] {
      between_ranks::check_rank(*hosts_, root_, what());
      group_->check_work();
      parts_ = prepare();
      for (int rank = 0; rank < hosts_->size; ++rank) agreement_.tell(rank, part(rank).header);
    });
    agreement_.exchange(messages);
    wait(messages);
    agreement_.check();
  }
  /// The second: levels, and whether take_memory() has thrown, which then all ranks do.
  template <class TakeMemory>
  void agree(const TakeMemory& take_memory) {
    std::vector<std::int64_t> failed(numbers_.size());
    std::exception_ptr error;
    try {
      take_memory();
      for (int rank = 0; rank < hosts_->size; ++rank) {
        of(rank).resize(detail::checked_count<std::int64_t>(from(rank).numbers, what()));
      }
    } catch (...) {
      error = std::current_exception();
      failed[static_cast<std::size_t>(hosts_->rank)] = 1;
    }
    between_ranks::Messages messages(*hosts_);
    const int tag = agreement_.tag();
    for (int rank = 0; rank < hosts_->size; ++rank) {
      const auto numbers = part(rank).numbers;
      if (rank == hosts_->rank) {
        if (!error) of(rank).assign(numbers.begin(), numbers.end());
        continue;
      }
      messages.receive(rank, tag, &failed[static_cast<std::size_t>(rank)], sizeof failed[0]);
      messages.receive(rank, tag, error ? nullptr : of(rank).data(),
                       detail::bytes_of<std::int64_t>(from(rank).numbers));
      messages.send(rank, tag, &failed[static_cast<std::size_t>(hosts_->rank)], sizeof failed[0]);
      messages.send(rank, tag, numbers.data(), static_cast<std::int64_t>(numbers.size_bytes()));
    }
    wait(messages);
    const auto is_set = [](std::int64_t one) { return one != 0; };
    if (std::any_of(failed.begin(), failed.end(), is_set)) between_ranks::throw_together(*hosts_, tag, failed, error);
  }

  const char* what() const noexcept { return agreement_.what(); }
  const between_ranks::Agreement& agreement() const noexcept { return agreement_; }
  int ranks() const noexcept { return hosts_->size; }
  int own() const noexcept { return hosts_->rank; }
  /// What a rank sends here; what this one sends there.
  const Header& from(int rank) const noexcept { return agreement_.from(rank); }
  const Outgoing& part(int rank) const noexcept {
    return parts_[parts_.size() == 1 ? 0 : static_cast<std::size_t>(rank)];
  }

  /// All that arrives, described as one. Throws, on all ranks, unless the parts of all can be joined.
  Header joined() const {
    Header all = from(0);
    all.rows = 0;
    for (int rank = 0; rank < hosts_->size; ++rank) {
      between_ranks::check_alike(from(rank), from(0), between_ranks::of_rank(what(), rank));
      all.rows = detail::saturated_sum(all.rows, from(rank).rows);
    }
    return all;
  }
  /// Its levels; those from one rank.
  LoD lod() const {
    const std::vector<std::span<const std::int64_t>> parts(numbers_.begin(), numbers_.end());
    return between_ranks::joined_levels(hosts_->executor.workspace(), from(0).levels, parts, LoD());
  }
  LoD lod_from(int rank) const {
    const std::span<const std::int64_t> part = numbers_[static_cast<std::size_t>(rank)];
    return between_ranks::joined_levels(hosts_->executor.workspace(), from(rank).levels, {&part, 1}, LoD());
  }

 private:
  std::vector<std::int64_t>& of(int rank) noexcept { return numbers_[static_cast<std::size_t>(rank)]; }
  void wait(between_ranks::Messages& messages) {
    between_ranks::finish(*hosts_, nullptr, [&](bool wait) { return messages.complete(wait); });
  }

  Group* group_;
  between_ranks::Group* hosts_;
  int root_;
  between_ranks::Agreement agreement_;
  std::vector<Outgoing> parts_;
  std::vector<std::vector<std::int64_t>> numbers_;  // from each rank
};

/// One part for all ranks.
inline std::vector<Outgoing> for_all(Outgoing part) {
  std::vector<Outgoing> parts;
  parts.push_back(std::move(part));
  return parts;
}

}  // namespace lod::inline LOD_INTERFACE::between_gpus::inline LOD_TARGET
