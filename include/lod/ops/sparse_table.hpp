// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// A table whose rows are created when they are first requested: for ids that are not known in advance.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/floating_point_control.hpp>
#include <lod/core/keyed_hash.hpp>
#include <lod/core/lifetime.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/philox.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/output.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// Finds the position of an id: a hash table with open addressing, at most half full.
///
/// Ids come from outside. The hash spreads ordinary ids, which are mostly consecutive, evenly; but ids chosen to
/// collide would make each lookup visit all of them. So when an id lands farther from its place than random ids do, the
/// table switches to a hash with a secret key.
class IdIndex {
 public:
  /// The greatest number of slots that `find` examines while no key is used. Random ids do not get that far: of a
  /// hundred million, the farthest examines some 95.
  static constexpr std::int64_t most_probes = 128;

  LOD_TAGGED IdIndex() = default;
  LOD_TAGGED_COPIES(IdIndex);

  /// The position of an id; -1 if it is not there.
  LOD_TAGGED std::int64_t find(std::int64_t id) const noexcept {
    return slots_.empty() ? -1 : slots_[slot_of(id)].position;
  }
  /// How many slots `find` examines for this id.
  LOD_TAGGED std::int64_t probes(std::int64_t id) const noexcept {
    return slots_.empty() ? 0 : probes_to(id, slot_of(id));
  }
  /// Prefetches the memory that `find` will read. Always inlined: see `prefetch` of kernels/cpu/vector.hpp.
  LOD_TAGGED [[gnu::always_inline]] void prefetch(std::int64_t id) const noexcept {
    if (!slots_.empty()) __builtin_prefetch(&slots_[start_of(id)]);
  }
  /// Makes room for `count` ids; `ids` are the present ones, by position. If it throws, nothing is changed.
  LOD_TAGGED void reserve(std::int64_t count, std::span<const std::int64_t> ids) {
    const bool fits = count <= static_cast<std::int64_t>(slots_.size() / 2);
    if (fits && !crowded_) return;
    IdIndex next;
    next.bits_ = fits ? bits_ : std::max(bits_ + 1, 4);
    while ((std::int64_t{1} << next.bits_) / 2 < count) ++next.bits_;
    next.keyed_ = keyed_ || crowded_;
    if (next.keyed_) next.key_ = HashKey::draw();
    next.slots_.resize(std::size_t{1} << next.bits_);
    // In the order of insertion, so that `remove` leaves no hole before an older id.
    for (std::size_t i = 0; i < ids.size(); ++i) next.insert(ids[i], static_cast<std::int64_t>(i));
    *this = std::move(next);
  }
  /// The id must not be there, and there must be room for it.
  LOD_TAGGED void insert(std::int64_t id, std::int64_t position) noexcept {
    const std::size_t slot = slot_of(id);
    slots_[slot] = {id, position};
    if (!keyed_ && probes_to(id, slot) >= most_probes) crowded_ = true;
  }
  /// The id must be the last one inserted: no other was placed after it.
  LOD_TAGGED void remove(std::int64_t id) noexcept { slots_[slot_of(id)].position = -1; }

 private:
  struct Slot {
    LOD_TAGGED Slot() = default;
    LOD_TAGGED Slot(std::int64_t the_id, std::int64_t the_position) noexcept : id(the_id), position(the_position) {}

    std::int64_t id = 0;
    std::int64_t position = -1;
  };

  LOD_TAGGED std::size_t start_of(std::int64_t id) const noexcept {
    const auto number = static_cast<std::uint64_t>(id);
    if (keyed_) [[unlikely]]
      return keyed_start_of(number);
    // The high bits of a product with 2^64 / golden ratio: neighbouring ids end up far apart.
    return static_cast<std::size_t>((number * 0x9E3779B97F4A7C15U) >> (64 - bits_));
  }
  /// Never inlined, to keep the loops that call it short.
  LOD_TAGGED [[gnu::noinline, gnu::cold]] std::size_t keyed_start_of(std::uint64_t number) const noexcept {
    return static_cast<std::size_t>(key_.of(number) >> (64 - bits_));
  }
  /// The slot of the id, or the free slot where it would be inserted.
  LOD_TAGGED std::size_t slot_of(std::int64_t id) const noexcept {
    std::size_t slot = start_of(id);
    while (slots_[slot].position >= 0 && slots_[slot].id != id) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }
  LOD_TAGGED std::int64_t probes_to(std::int64_t id, std::size_t slot) const noexcept {
    return static_cast<std::int64_t>((slot - start_of(id)) & (slots_.size() - 1)) + 1;
  }

  std::vector<Slot> slots_;
  HashKey key_;
  int bits_ = 0;
  bool keyed_ = false;
  bool crowded_ = false;  // some id is far from its place
};

}  // namespace detail

/// How a table treats ids that it does not have.
struct SparseTableOptions {
  bool grow = true;  ///< whether missing ids are added
};

/// New rows stay zero.
struct ZeroRow {
  /// Does nothing.
  template <class T>
  LOD_TAGGED void operator()(std::int64_t, std::span<T>) const noexcept {}
};

/// New rows are random numbers, evenly distributed over [-limit, limit), of integers those without their fractions: the
/// same ones for the same seed and id, whichever rows there are already, and on any number of processes. They are
/// rounded to the nearest T; float16 and bfloat16 not beyond, nor to the limit. Of floats, about one in 2^26 is the
/// limit, which is rounded, too, and may so be a bit greater than the number given.
struct UniformRow {
  std::uint64_t seed = 1;
  double limit = 0.1;

  /// Writes the numbers of the row of an id. Throws OutOfRange for a limit of which a T can hold not both signs.
  template <class T>
  LOD_TAGGED void operator()(std::int64_t id, std::span<T> row) const {
    for (const double end : {limit, -limit}) {
      static_cast<void>(detail::checked<T>(std::integral<T> ? std::trunc(end) : end, "UniformRow", "limit"));
    }
    const detail::FloatingPointControl standard;
    detail::pin(*this);
    const detail::Philox random(seed, static_cast<std::uint64_t>(id));
    for (std::size_t i = 0; i < row.size(); ++i) {
      // Exact but for the product, so that no compiler's flags change it.
      const double number = static_cast<double>(random.bits(i / 4)[i % 4]) * 0x1p-31 - 1;
      row[i] = static_cast<T>(limit * number);
      if constexpr (detail::Half<T>) row[i] = below_limit(row[i]);
    }
  }

 private:
  /// What rounding has brought to the limit, or beyond either one, is the next number towards 0.
  template <class T>
  LOD_TAGGED T below_limit(T rounded) const noexcept {
    const double sign = limit < 0 ? -1 : 1, number = sign * static_cast<double>(rounded), most = sign * limit;
    const bool is_within = number < most && number >= -most;
    return is_within || most == 0 ? rounded : T::from_bits(static_cast<std::uint16_t>(rounded.bits() - 1));
  }
};

/// Rows of one shape for arbitrary 64-bit ids. A row is added after the others when its id is first requested;
/// initialize(id, row), which receives it filled with zeros, writes its initial values. To train such a table, take the
/// `positions` of a batch: with these, `embedding`, `embedding_pool` and the optimizers work on `value()` as on any
/// other table.
///
/// There is room for `capacity()` rows. Adding more throws OutOfRange, so ids from outside cannot use up the memory,
/// and rows never move. `reserve` makes more room. The memory for all rows is allocated at once, but not touched until
/// they are added.
///
/// Errors: whatever throws, including `initialize`, leaves the table unchanged: no id has been added. Copies and moves
/// as LoDTensor; a moved-from table is empty, with capacity 0. Const members may be called by several threads at a
/// time. Ids are int64, in a tensor, a view, a span or braces. Semantics: PaddlePaddle's SelectedRows with an id map
/// (AutoGrownIndex, Get), except that rows grow in place.
template <class T, class Device = Cpu, class Initialize = ZeroRow>
class SparseTable;

/// A table in CPU memory.
template <class T, class Initialize>
class SparseTable<T, Cpu, Initialize> {
 public:
  using value_type = T;  ///< the type of the elements
  using device = Cpu;    ///< the device whose memory holds them

  /// No rows, and room for `capacity` rows. Throws ShapeMismatch for a negative capacity, and if sizes overflow.
  LOD_TAGGED SparseTable(const Shape& row_shape, std::int64_t capacity, Initialize initialize = Initialize(),
                         std::pmr::memory_resource* resource = Cpu::default_resource())
      : rows_(room_for(checked(capacity), row_shape, resource)), initialize_(std::move(initialize)) {}

  LOD_TAGGED SparseTable(const SparseTable&) = default;
  LOD_TAGGED SparseTable(SparseTable&&) = default;
  /// A move to itself changes nothing.
  LOD_TAGGED SparseTable& operator=(SparseTable&& other) noexcept(
      std::is_nothrow_move_assignable_v<Initialize>) requires(std::is_move_assignable_v<Initialize>) {
    if (this == &other) return *this;  // a vector that is moved to itself may lose everything
    initialize_ = std::move(other.initialize_);
    rows_ = std::move(other.rows_);
    ids_ = std::move(other.ids_);
    index_ = std::move(other.index_);
    return *this;
  }
  /// Keeps its own memory resource. If it throws, this is unchanged, unless the assignment of `Initialize` threw.
  LOD_TAGGED SparseTable& operator=(const SparseTable& other) requires(std::is_copy_assignable_v<Initialize>) {
    LoDTensor<T, Cpu> rows(rows_.resource());
    rows = other.rows_;
    std::vector<std::int64_t> ids = other.ids_;
    detail::IdIndex index = other.index_;
    initialize_ = other.initialize_;
    rows_ = std::move(rows);
    ids_ = std::move(ids);
    index_ = std::move(index);
    return *this;
  }
  LOD_TAGGED ~SparseTable() = default;

  /// The number of rows.
  LOD_TAGGED std::int64_t size() const noexcept { return static_cast<std::int64_t>(ids_.size()); }
  /// The number of rows for which there is room.
  LOD_TAGGED std::int64_t capacity() const noexcept { return rows_.rows(); }
  /// The shape of a row.
  LOD_TAGGED const Shape& row_shape() const noexcept { return rows_.row_shape(); }
  /// The number of elements in a row.
  LOD_TAGGED std::int64_t row_size() const noexcept { return rows_.row_size(); }
  /// The ids in the order in which they were added: ids()[i] has row i of `value()`.
  LOD_TAGGED const std::vector<std::int64_t>& ids() const noexcept LOD_LIFETIMEBOUND { return ids_; }
  /// The rows, {size(), row shape...}: a view, valid until `reserve`, and until the table is destroyed or assigned to.
  LOD_TAGGED LoDTensorView<T, Cpu> value() noexcept LOD_LIFETIMEBOUND { return rows_.view().between(0, size()); }
  LOD_TAGGED LoDTensorView<const T, Cpu> value() const noexcept LOD_LIFETIMEBOUND {
    return rows_.view().between(0, size());
  }

  /// The row of an id, or -1.
  LOD_TAGGED std::int64_t find(std::int64_t id) const noexcept { return index_.find(id); }
  /// Whether the id has a row.
  LOD_TAGGED bool contains(std::int64_t id) const noexcept { return find(id) >= 0; }

  /// Makes room for at least `capacity` rows. Rows move, and views of them become invalid.
  LOD_TAGGED void reserve(std::int64_t capacity) {
    if (capacity <= this->capacity()) return;
    LoDTensor<T, Cpu> rows = room_for(capacity, row_shape(), rows_.resource());
    std::copy_n(rows_.data(), size() * row_size(), rows.data());
    rows_ = std::move(rows);
  }

  /// Removes the rows that were added last, as long as there are more than `size`. Their memory stays.
  LOD_TAGGED void shrink(std::int64_t size) noexcept {
    while (this->size() > size) {
      index_.remove(ids_.back());
      ids_.pop_back();
    }
  }

  /// For each id its row, with the LoD and the row shape of the ids; -1 for an id that is missing and is not to be
  /// added. Throws std::invalid_argument if `y` overlaps the ids.
  template <LoDTensorLike Ids>
  LOD_TAGGED void positions_into(const Ids& ids, const SparseTableOptions& options, LoDTensor<std::int64_t, Cpu>& y) {
    const auto list = ids.view();
    operation::check_apart("SparseTable::positions_into", y, {{"ids", list}});
    Growth growth(*this, list.values(), options);
    y.resize(list.lod(), list.row_shape(), list.rows());
    growth.keep();
    for_each_position(list.values(), [out = y.data()](std::int64_t i, std::int64_t position) { out[i] = position; });
  }
  template <LoDTensorLike Ids>
  LOD_TAGGED LoDTensor<std::int64_t, Cpu> positions(const Ids& ids, const SparseTableOptions& options = {}) {
    LoDTensor<std::int64_t, Cpu> y;
    positions_into(ids, options, y);
    return y;
  }
  LOD_TAGGED LoDTensor<std::int64_t, Cpu> positions(std::span<const std::int64_t> ids,
                                                    const SparseTableOptions& options = {}) {
    return positions(plain(ids), options);
  }
  LOD_TAGGED LoDTensor<std::int64_t, Cpu> positions(std::initializer_list<std::int64_t> ids,
                                                    const SparseTableOptions& options = {}) {
    return positions(plain(ids), options);
  }

  /// The rows of the ids, as `embedding` returns them: the LoD of the ids, rows of the shape {ids' row shape..., row
  /// shape...}; zeros for an id that is missing and is not to be added. Works on one thread; `embedding(table.value(),
  /// table.positions(ids))` copies with all threads. Throws std::invalid_argument if `y` overlaps the ids or the table.
  template <LoDTensorLike Ids>
  LOD_TAGGED void get_into(const Ids& ids, const SparseTableOptions& options, LoDTensor<T, Cpu>& y) {
    const auto list = ids.view();
    operation::check_apart("SparseTable::get_into", y, {{"ids", list}, {"the table", rows_}});
    Growth growth(*this, list.values(), options);
    resize(list, y);
    growth.keep();
    copy_rows(list.values(), y.data());
  }
  template <LoDTensorLike Ids>
  LOD_TAGGED LoDTensor<T, Cpu> get(const Ids& ids, const SparseTableOptions& options = {}) {
    LoDTensor<T, Cpu> y;
    get_into(ids, options, y);
    return y;
  }
  LOD_TAGGED LoDTensor<T, Cpu> get(std::span<const std::int64_t> ids, const SparseTableOptions& options = {}) {
    return get(plain(ids), options);
  }
  LOD_TAGGED LoDTensor<T, Cpu> get(std::initializer_list<std::int64_t> ids, const SparseTableOptions& options = {}) {
    return get(plain(ids), options);
  }
  /// Nothing is added to a const table.
  template <LoDTensorLike Ids>
  LOD_TAGGED LoDTensor<T, Cpu> get(const Ids& ids) const {
    LoDTensor<T, Cpu> y;
    resize(ids.view(), y);
    copy_rows(ids.view().values(), y.data());
    return y;
  }
  LOD_TAGGED LoDTensor<T, Cpu> get(std::span<const std::int64_t> ids) const { return get(plain(ids)); }
  LOD_TAGGED LoDTensor<T, Cpu> get(std::initializer_list<std::int64_t> ids) const { return get(plain(ids)); }

  /// Overwrites the rows of the ids; missing ones are added and initialized. For an id that is listed repeatedly, the
  /// last row wins. `rows` has one row for each id, of the shape that `get` returns, and must not overlap the table;
  /// its levels are ignored. Throws ShapeMismatch for a wrong number or shape of rows.
  template <LoDTensorLike Ids, LoDTensorLike Rows>
  LOD_TAGGED void set(const Ids& ids, const Rows& rows) {
    const auto list = ids.view();
    const auto from = rows.view();
    const Shape expected = list.shape().followed_by(row_shape());
    if (from.shape() != expected) {
      throw ShapeMismatch(detail::text(
          {"SparseTable: rows of shape ", to_string(from.shape()), " to set, expected ", to_string(expected)}));
    }
    Growth growth(*this, list.values(), {});
    growth.keep();
    for_each_position(list.values(), [&](std::int64_t i, std::int64_t position) {
      std::copy_n(from.data() + i * row_size(), row_size(), rows_.data() + position * row_size());
    });
  }
  template <LoDTensorLike Rows>
  LOD_TAGGED void set(std::span<const std::int64_t> ids, const Rows& rows) {
    set(plain(ids), rows);
  }
  template <LoDTensorLike Rows>
  LOD_TAGGED void set(std::initializer_list<std::int64_t> ids, const Rows& rows) {
    set(plain(ids), rows);
  }

 private:
  LOD_TAGGED static std::int64_t checked(std::int64_t capacity) {
    if (capacity < 0) {
      throw ShapeMismatch(detail::text({"SparseTable: capacity ", capacity, ", expected 0 or more"}));
    }
    return capacity;
  }
  LOD_TAGGED static LoDTensor<T, Cpu> room_for(std::int64_t capacity, const Shape& row_shape,
                                               std::pmr::memory_resource* resource) {
    try {
      return LoDTensor<T, Cpu>(Shape(capacity, row_shape), uninitialized, resource);
    } catch (const ShapeMismatch& error) {
      throw ShapeMismatch(detail::text(
          {"SparseTable: capacity ", capacity, " for rows of shape ", to_string(row_shape), ": ", error.what()}));
    }
  }
  static constexpr Shape scalar_row{};
  LOD_TAGGED static LoDTensorView<const std::int64_t, Cpu> plain(std::span<const std::int64_t> ids) noexcept {
    return {ids.data(), LoDView::plain(0, static_cast<std::int64_t>(ids.size())), &scalar_row, 1};
  }
  LOD_TAGGED static LoDTensorView<const std::int64_t, Cpu> plain(std::initializer_list<std::int64_t> ids) noexcept {
    return plain(std::span<const std::int64_t>{ids.begin(), ids.size()});
  }

  /// Adds ids. Unless they are kept, they are removed again at the end, the last first.
  class Growth {
   public:
    LOD_TAGGED Growth(SparseTable& table, std::span<const std::int64_t> ids, const SparseTableOptions& options)
        : table_(table), before_(table.size()) {
      if (!options.grow) return;
      try {
        table_.for_each_position(ids, [&](std::int64_t i, std::int64_t position) {
          if (position < 0) table_.append(ids[static_cast<std::size_t>(i)]);
        });
      } catch (...) {
        table_.shrink(before_);
        throw;
      }
    }
    Growth(const Growth&) = delete;
    Growth& operator=(const Growth&) = delete;
    LOD_TAGGED ~Growth() {
      if (!kept_) table_.shrink(before_);
    }
    LOD_TAGGED void keep() noexcept { kept_ = true; }

   private:
    SparseTable& table_;
    std::int64_t before_;
    bool kept_ = false;
  };

  LOD_TAGGED void append(std::int64_t id) {
    if (size() == capacity()) {
      throw OutOfRange(detail::text({"SparseTable: id ", id, " has no row, and all ", capacity(), " are taken"}));
    }
    index_.reserve(size() + 1, ids_);
    T* const row = rows_.data() + size() * row_size();
    std::fill_n(row, row_size(), T{});
    ids_.push_back(id);
    index_.insert(id, size() - 1);
    initialize_(id, std::span<T>{row, static_cast<std::size_t>(row_size())});
  }

  /// Calls body(i, position of ids[i]) in order. Prefetches what will be read soon.
  template <class Body>
  LOD_TAGGED void for_each_position(std::span<const std::int64_t> ids, const Body& body) const {
    constexpr std::size_t distance = 16;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i + distance < ids.size()) index_.prefetch(ids[i + distance]);
      body(static_cast<std::int64_t>(i), index_.find(ids[i]));
    }
  }

  LOD_TAGGED void resize(const LoDTensorView<const std::int64_t, Cpu>& ids, LoDTensor<T, Cpu>& y) const {
    y.resize(ids.lod(), ids.row_shape().followed_by(row_shape()), ids.rows());
  }
  LOD_TAGGED void copy_rows(std::span<const std::int64_t> ids, T* y) const {
    for_each_position(ids, [&](std::int64_t i, std::int64_t position) {
      T* const to = y + i * row_size();
      if (position < 0) {
        std::fill_n(to, row_size(), T{});
      } else {
        std::copy_n(rows_.data() + position * row_size(), row_size(), to);
      }
    });
  }

  LoDTensor<T, Cpu> rows_;  // `capacity()` rows
  std::vector<std::int64_t> ids_;
  detail::IdIndex index_;
  Initialize initialize_;
};

}  // namespace lod::inline LOD_INTERFACE
