// SPDX-License-Identifier: Apache-2.0
/// @file
/// How values travel: a header that describes them, numbers (the lengths of all levels, ids, or the lengths of encoded
/// descriptions), and their bytes as they lie in memory. What arrives from several ranks becomes one value, in the
/// order of ranks.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/agreement.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/ops/output.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <memory_resource>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks {

/// What a message holds. Any-typed values travel as typed ones do, so each may be received as the other.
enum class Kind : std::int64_t { TENSOR, ROWS, LOD, DESCRIPTIONS };
LOD_TAGGED constexpr const char* to_string(Kind kind) noexcept {
  constexpr const char* names[] = {"a tensor", "row-sparse values", "a LoD", "descriptions"};
  return names[static_cast<std::size_t>(kind)];
}

/// The type in a header of any value.
inline constexpr std::int64_t any_type = std::numeric_limits<std::int64_t>::min();

}  // namespace lod::inline LOD_INTERFACE::between_ranks

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

template <class T>
constexpr std::int64_t type_of() noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  if constexpr (has_data_type_v<T>) {
    return static_cast<std::int64_t>(data_type_v<T>);
  } else {
    return -static_cast<std::int64_t>(sizeof(T));
  }
}
inline std::string type_name(std::int64_t type) {
  if (type < 0) return detail::text({"a type of ", -type, " bytes"});
  return lod::to_string(static_cast<DataType>(type));
}
inline std::int64_t type_size(std::int64_t type) noexcept {
  return type < 0 ? -type : static_cast<std::int64_t>(size_of(static_cast<DataType>(type)));
}
inline bool same_type(std::int64_t a, std::int64_t b) noexcept {
  const auto plain = [](std::int64_t type) {
    constexpr auto other_name = static_cast<std::int64_t>(DataType::SIZE_T);
    return type == other_name ? static_cast<std::int64_t>(DataType::UINT64) : type;
  };
  return plain(a) == plain(b);
}

inline void set_row_shape(Header& header, const Shape& shape) noexcept {
  header.rank = static_cast<std::int64_t>(shape.size());
  std::copy(shape.begin(), shape.end(), header.row_shape);
}
inline Shape row_shape_of(const Header& header) {
  return Shape(std::span<const std::int64_t>{header.row_shape, static_cast<std::size_t>(header.rank)});
}
/// The bytes of its values, which are in the sender's memory.
inline std::int64_t bytes_of_values(const Header& header) {
  if (header.kind == static_cast<std::int64_t>(Kind::LOD)) return 0;
  return detail::saturated_product(header.rows, row_shape_of(header).elements(), type_size(header.type));
}

/// The bytes of its numbers. Of levels without sequences nothing is sent: all their sizes are zero.
inline std::int64_t bytes_of_numbers(const Header& header) noexcept {
  return header.numbers == header.levels ? 0 : detail::bytes_of<std::int64_t>(header.numbers);
}

/// A value that is sent.
struct Outgoing {
  Header header;
  std::span<const std::int64_t> numbers;
  const void* values = nullptr;
  std::vector<std::int64_t> own;                 ///< what `numbers` are in, unless they are the value's
  std::shared_ptr<const std::string> own_bytes;  ///< what `values` are in, likewise
};

/// The lengths of all levels: the sizes of the levels, then their lengths.
inline void put_levels(const LoDView& lod, Outgoing& to) {
  to.header.levels = lod.levels();
  std::int64_t count = lod.levels();
  for (int level = 0; level < lod.levels(); ++level) count += lod.size(level);
  to.own.resize(detail::checked_count<std::int64_t>(count, "levels"));
  auto next = to.own.begin();
  for (int level = 0; level < lod.levels(); ++level) *next++ = lod.size(level);
  for (int level = 0; level < lod.levels(); ++level) {
    const auto offsets = lod.offsets(level);
    for (std::size_t i = 1; i < offsets.size(); ++i) *next++ = offsets[i] - offsets[i - 1];
  }
  to.numbers = to.own;
  to.header.numbers = count;
}
/// The LoD of several parts, one after the other, from such numbers: `before`, if that is the same.
inline LoD joined_levels(Workspace& workspace, std::int64_t levels,
                         std::span<const std::span<const std::int64_t>> parts, const LoD& before) {
  if (levels == 0) return LoD();
  std::int64_t sequences = 0;
  for (const auto& part : parts) sequences += static_cast<std::int64_t>(part.size()) - levels;
  operation::NewLevels joined(workspace, static_cast<int>(levels), sequences);
  std::vector<std::ptrdiff_t> next(parts.size(), static_cast<std::ptrdiff_t>(levels));
  for (std::size_t level = 0; level < static_cast<std::size_t>(levels); ++level) {
    std::int64_t size = 0;
    for (const auto& part : parts) size += part[level];
    std::int64_t* offset = joined.add(size).data();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto lengths =
          parts[i].subspan(static_cast<std::size_t>(next[i]), static_cast<std::size_t>(parts[i][level]));
      for (const std::int64_t length : lengths) {
        offset[1] = offset[0] + length;
        ++offset;
      }
      next[i] += static_cast<std::ptrdiff_t>(lengths.size());
    }
  }
  return joined.is(before.view()) ? before : joined.make();
}

template <class X>
inline constexpr bool is_typed_rows = false;
template <class T>
inline constexpr bool is_typed_rows<SelectedRows<T>> = true;

/// How a description is encoded and decoded: `name`, `encode(description, bytes)`, which appends, and `decode(bytes)`.
/// <lod/mpi_descriptions.hpp> has it for all that have a wire format; without that header no description can be sent.
template <class D>
struct Described;
template <class D>
concept Description = requires {
  Described<D>::name;
};
/// Descriptions travel in lists, of which one description is a list of one.
template <class X>
struct ListOf {
  using Element = X;
};
template <class D>
struct ListOf<std::vector<D>> {
  using Element = D;
};
template <class X>
using ElementOf = typename ListOf<X>::Element;
template <class X>
concept Descriptions = Description<ElementOf<X>>;

/// What a header says of descriptions; the name is where sums have their samples.
template <class D>
Header header_of_descriptions() noexcept {
  Header header;
  header.kind = static_cast<std::int64_t>(Kind::DESCRIPTIONS);
  header.type = static_cast<std::int64_t>(DataType::UINT8);
  constexpr std::string_view name = Described<D>::name;
  static_assert(name.size() < sizeof header.samples);
  std::memcpy(header.samples, name.data(), name.size());
  return header;
}
inline const char* name_of_descriptions(const Header& header) noexcept {
  return reinterpret_cast<const char*>(header.samples);
}

/// Refuses what is not in CPU memory.
template <class X>
constexpr void check_device() noexcept {
  if constexpr (requires { typename X::device; }) {
    static_assert(std::same_as<typename X::device, Cpu>,
                  "lod::mpi: ranks exchange values in CPU memory; those of GPUs by <lod/nccl.hpp>, or copy them first");
  }
}

/// The part of a tensor that is in the memory of the CPU, wherever its values are, and their address.
template <class T, class Device>
void put_view(const LoDTensorView<T, Device>& view, Outgoing& to) {
  to.header.type = type_of<std::remove_const_t<T>>();
  to.header.rows = view.rows();
  set_row_shape(to.header, view.row_shape());
  put_levels(view.lod_view(), to);
  to.values = view.data();
}

/// A value as it is sent. The value must stay where it is.
template <class X>
Outgoing outgoing(const X& x) {
  check_device<X>();
  Outgoing out;
  Header& header = out.header;
  if constexpr (std::same_as<X, LoD>) {
    header.kind = static_cast<std::int64_t>(Kind::LOD);
    header.rows = x.rows();
    put_levels(x.view(), out);
  } else if constexpr (Descriptions<X>) {
    using D = ElementOf<X>;
    header = header_of_descriptions<D>();
    std::string bytes;
    const auto add = [&](const D& one) {
      const std::size_t before = bytes.size();
      Described<D>::encode(one, bytes);
      out.own.push_back(static_cast<std::int64_t>(bytes.size() - before));
    };
    if constexpr (std::same_as<X, D>) {
      add(x);
    } else {
      for (const D& one : x) add(one);
    }
    header.numbers = static_cast<std::int64_t>(out.own.size());
    out.numbers = out.own;
    header.rows = static_cast<std::int64_t>(bytes.size());
    out.own_bytes = std::make_shared<const std::string>(std::move(bytes));
    out.values = out.own_bytes->data();
  } else if constexpr (is_typed_rows<X> || std::same_as<X, AnySelectedRows>) {
    detail::check_value_rows(static_cast<std::int64_t>(x.rows().size()), x.value().rows(), "SelectedRows");
    out = outgoing(x.value());
    header.kind = static_cast<std::int64_t>(Kind::ROWS);
    header.height = x.height();
    header.levels = 0;
    header.numbers = header.rows;
    out.numbers = x.rows();
  } else if constexpr (std::same_as<X, AnyLoDTensor>) {
    header.type = static_cast<std::int64_t>(x.data_type());
    header.rows = x.rows();
    set_row_shape(header, x.row_shape());
    put_levels(x.lod().view(), out);
    out.values = x.bytes().data();
  } else {
    put_view(x.view(), out);
  }
  return out;
}

/// What a rank that only receives says of itself: the kind and the type that its output has.
template <class Y>
Header expected() noexcept {
  check_device<Y>();
  Header header;
  if constexpr (std::same_as<Y, LoD>) {
    header.kind = static_cast<std::int64_t>(Kind::LOD);
  } else if constexpr (Descriptions<Y>) {
    header = header_of_descriptions<ElementOf<Y>>();
  } else if constexpr (is_typed_rows<Y>) {
    header.kind = static_cast<std::int64_t>(Kind::ROWS);
    header.type = type_of<typename Y::value_type>();
  } else if constexpr (std::same_as<Y, AnySelectedRows>) {
    header.kind = static_cast<std::int64_t>(Kind::ROWS);
    header.type = any_type;
  } else if constexpr (std::same_as<Y, AnyLoDTensor>) {
    header.type = any_type;
  } else {
    header.type = type_of<typename Y::value_type>();
  }
  return header;
}

inline std::string of_rank(const char* what, int rank) { return detail::text({what, ": rank ", rank}); }
/// Throws ShapeMismatch unless an output of this kind and type can take what is described; `which` names it.
inline void check_takes(const Header& output, const Header& found, const std::string& which) {
  if (output.kind != found.kind) {
    throw ShapeMismatch(detail::text({which, ": expected ", to_string(static_cast<Kind>(output.kind)), ", found ",
                                      to_string(static_cast<Kind>(found.kind))}));
  }
  if (found.kind == static_cast<std::int64_t>(Kind::DESCRIPTIONS)) {
    const std::string_view name = name_of_descriptions(output);
    if (name != name_of_descriptions(found)) {
      throw ShapeMismatch(detail::text(
          {which, ": descriptions: expected ", name_of_descriptions(output), ", found ", name_of_descriptions(found)}));
    }
  }
  const bool is_typed = output.type != any_type && found.type != any_type;
  if (is_typed ? !same_type(output.type, found.type) : output.type != any_type && found.type < 0) {
    throw ShapeMismatch(
        detail::text({which, ": data type: expected ", type_name(output.type), ", found ", type_name(found.type)}));
  }
}

/// Where one value arrives that consists of the parts of several ranks, one after the other. The output is changed by
/// `finish` only, except that its memory may hold other values from `prepare` on, where that suffices.
template <class Y>
class Incoming {
 public:
  explicit Incoming(Y& y) noexcept : y_(&y) {}

  /// Takes memory for what is described: all parts together.
  void prepare(const Header& all, std::pmr::memory_resource* of_new) {
    all_ = all;
    if constexpr (std::same_as<Y, LoD>) {
    } else if constexpr (Descriptions<Y>) {
      value_.resize(detail::checked_count<char>(all.rows, "descriptions"));
    } else if constexpr (is_typed_rows<Y>) {
      ids_.reserve(detail::checked_count<std::int64_t>(all.rows, "ids"));
      value_ = y_->value().resized(LoD(), row_shape_of(all), all.rows, resource(y_->value().resource(), of_new));
    } else if constexpr (std::same_as<Y, AnySelectedRows>) {
      ids_.reserve(detail::checked_count<std::int64_t>(all.rows, "ids"));
      value_ = y_->value().resized(static_cast<DataType>(all.type), LoD(), row_shape_of(all), all.rows,
                                   resource(y_->value().resource(), of_new));
    } else if constexpr (std::same_as<Y, AnyLoDTensor>) {
      value_ = y_->resized(static_cast<DataType>(all.type), LoD(), row_shape_of(all), all.rows,
                           resource(y_->resource(), of_new));
    } else {
      value_ = y_->resized(LoD(), row_shape_of(all), all.rows, resource(y_->resource(), of_new));
    }
  }
  /// The first byte of the values.
  std::byte* values() {
    if constexpr (std::same_as<Y, LoD>) {
      return nullptr;
    } else if constexpr (requires { value_.mutable_bytes(); }) {
      return value_.mutable_bytes().data();
    } else {
      return reinterpret_cast<std::byte*>(value_.data());
    }
  }
  /// Lets the output be what has arrived; the numbers of each part.
  void finish(Workspace& workspace, std::span<const std::span<const std::int64_t>> parts) {
    if constexpr (is_typed_rows<Y> || std::same_as<Y, AnySelectedRows>) {
      for (const auto& part : parts) ids_.insert(ids_.end(), part.begin(), part.end());
      *y_ = Y(std::move(ids_), all_.height, std::move(value_));
    } else if constexpr (std::same_as<Y, LoD>) {
      *y_ = joined_levels(workspace, all_.levels, parts, *y_);
    } else if constexpr (Descriptions<Y>) {
      *y_ = decoded(parts);
    } else if constexpr (std::same_as<Y, AnyLoDTensor>) {
      *y_ = value_.with_lod(joined_levels(workspace, all_.levels, parts, y_->lod()));
    } else {
      LoD lod = joined_levels(workspace, all_.levels, parts, y_->lod());
      *y_ = std::move(value_).with_lod(std::move(lod));
    }
  }

 private:
  struct None {};
  template <class Of>
  static auto value_of() {
    if constexpr (std::same_as<Of, LoD>) {
      return None();
    } else if constexpr (Descriptions<Of>) {
      return std::string();
    } else if constexpr (is_typed_rows<Of>) {
      return LoDTensor<typename Of::value_type>();
    } else if constexpr (std::same_as<Of, AnySelectedRows>) {
      return AnyLoDTensor();
    } else {
      return Of();
    }
  }
  /// The descriptions, whose encoded lengths are the numbers.
  Y decoded(std::span<const std::span<const std::int64_t>> parts) const {
    using D = ElementOf<Y>;
    std::vector<D> all;
    std::string_view left = value_;
    for (const auto& part : parts) {
      for (const std::int64_t length : part) {
        all.push_back(Described<D>::decode(left.substr(0, static_cast<std::size_t>(length))));
        left.remove_prefix(static_cast<std::size_t>(length));
      }
    }
    if constexpr (std::same_as<Y, D>) {
      if (all.size() != 1) {
        throw ShapeMismatch(detail::text({Described<D>::name, ": ", all.size(), " descriptions, expected one"}));
      }
      return std::move(all.front());
    } else {
      return all;
    }
  }
  static std::pmr::memory_resource* resource(std::pmr::memory_resource* own, std::pmr::memory_resource* of_new) {
    return own ? own : of_new;
  }

  Y* y_;
  Header all_;
  decltype(value_of<Y>()) value_{};
  std::vector<std::int64_t> ids_;
};

template <class X>
struct ArrivingAs {
  using type = X;
};
template <LoDTensorLike X>
struct ArrivingAs<X> {
  using type = LoDTensor<value_type_t<X>, device_t<X>>;
};
template <Descriptions X>
struct ArrivingAs<X> {
  using type = std::vector<ElementOf<X>>;
};
/// What a value is where it arrives: views and slices become tensors, a description a list.
template <class X>
using Arriving = typename ArrivingAs<X>::type;

/// What can be sent.
template <class X>
concept Carried = LoDTensorLike<X> || is_typed_rows<X> || std::same_as<X, AnyLoDTensor> ||
    std::same_as<X, AnySelectedRows> || std::same_as<X, LoD> || Descriptions<X>;

/// Throws std::invalid_argument if what is sent overlaps what is received.
template <class X, class Y>
void check_apart(const char* what, const X& x, const Y& y) {
  const auto same = [what] {
    throw std::invalid_argument(detail::text({what, ": the output is the argument, expected another"}));
  };
  if constexpr (std::same_as<X, Y>) {
    if (&x == &y) same();
  }
  if constexpr (LoDTensorLike<X>) {
    operation::check_apart(what, y, {{"x", x.view()}});
  } else if constexpr (is_typed_rows<X>) {
    operation::check_apart(what, y.value(), {{"x", x.value()}});
  }
}

/// A new value, which will have memory of the executor's.
template <class Y>
Y made(const mpi::Communicator& communicator) {
  std::pmr::memory_resource* const resource = communicator.executor().resource();
  if constexpr (std::constructible_from<Y, std::pmr::memory_resource*>) {
    return Y(resource);
  } else {
    return Y();
  }
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
