// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that read and write elements at positions given by other tensors: gather_nd, scatter, scatter_nd_add,
/// multiplex, where, where_index, and their gradients.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/arithmetic.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/movement.hpp>
#include <lod/program/operators/shapes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The parts of a tensor that an index names: each line along the last dimension of the index holds the first
/// coordinates of one part.
template <class I>
struct IndexedParts {
  std::span<const I> index;
  Shape whole;
  std::int64_t coordinates;  ///< of each part
  std::int64_t count;        ///< of parts
  Shape result;              ///< the shape of all parts
  std::int64_t size;         ///< elements of a part

  /// Throws ShapeMismatch for an index with more coordinates than there are dimensions, and OutOfRange for a coordinate
  /// beyond its dimension.
  template <class E>
  IndexedParts(const OperatorCall<E>& call, const Slot& slot, const Shape& shape)
      : index(call.template view<I>(slot).values()), whole(shape) {
    const Shape dims = call.tensor(slot).shape();
    coordinates = dims.empty() ? 0 : dims.back();
    if (dims.empty() || coordinates > static_cast<std::int64_t>(shape.size())) {
      throw ShapeMismatch(detail::text({call.name(slot), " of shape ", to_string(dims), ", expected at most ",
                                        shape.size(), " coordinates along its last dimension"}));
    }
    const Shape before = part(dims, 0, dims.size() - 1);
    const Shape each = part(shape, static_cast<std::size_t>(coordinates), shape.size());
    if (before.size() + each.size() > Shape::max_rank) {
      throw ShapeMismatch(
          detail::text({call.name(slot), " of shape ", to_string(dims), ", expected fewer dimensions"}));
    }
    count = before.elements();
    result = before.followed_by(each);
    size = each.elements();
    for (std::int64_t i = 0; i < count * coordinates; ++i) {
      const std::int64_t place = index[static_cast<std::size_t>(i)],
                         most = shape[static_cast<std::size_t>(i % coordinates)];
      if (place < 0 || place >= most) {
        throw OutOfRange(detail::text({call.name(slot), ": place ", place, " at ", i, ", expected 0 to ", most - 1}));
      }
    }
  }
  /// The place of the first element of a part.
  std::int64_t first(std::int64_t i) const {
    std::int64_t place = 0;
    for (std::int64_t k = 0; k < coordinates; ++k) {
      place = place * whole[static_cast<std::size_t>(k)] + index[static_cast<std::size_t>(i * coordinates + k)];
    }
    return place * size;
  }
};

/// Writes an output that consists of these parts of a tensor.
template <class I, class E>
void write_parts(const OperatorCall<E>& call, const AnyLoDTensor& from, const IndexedParts<I>& parts, const Slot& out) {
  const std::int64_t bytes = static_cast<std::int64_t>(size_of(from.data_type())) * parts.size;
  auto y = call.output_bytes(out, from.data_type(), parts.result, AnyLoDTensor());
  for (std::int64_t i = 0; i < parts.count; ++i) {
    copy_blocks(from.bytes().data(), {.first = parts.first(i) / std::max<std::int64_t>(parts.size, 1) * bytes},
                y.data(), {.first = i * bytes}, bytes, 1);
  }
}

/// gather_nd: X, Index -> Out: the parts that Index names. No levels.
template <Executor E>
RunOperator<E> gather_nd(const OperatorArguments& op) {
  const Slot x = op.input("X"), index = op.input("Index"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    call.with_id(index, [&](auto id) {
      const IndexedParts<typename decltype(id)::type> parts(call, index, from.shape());
      write_parts(call, from, parts, out);
    });
  };
}
/// scatter_nd_add: X, Index, Updates -> Out: X, to whose parts that Index names Updates are added.
template <Executor E>
RunOperator<E> scatter_nd_add(const OperatorArguments& op) {
  const Slot x = op.input("X"), index = op.input("Index"), updates = op.input("Updates"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    call.with_id(index, [&](auto id) {
      const IndexedParts<typename decltype(id)::type> parts(call, index, call.tensor(x).shape());
      call.with_number(x, [&](auto element) {
        using T = typename decltype(element)::type;
        const T* given = numbers_of<T>(call, updates, parts.result);
        Changed<T, E> y(call, x, out);
        T* const to = y.data();
        for (std::int64_t i = 0; i < parts.count; ++i) {
          T* const at = to + parts.first(i);
          for (std::int64_t k = 0; k < parts.size; ++k, ++given) at[k] = kernel::Add()(at[k], *given);
        }
      });
    });
  };
}
/// scatter_nd_add_grad: Index, Updates, Out@GRAD -> X@GRAD?, Updates@GRAD?. Of Updates nothing is used.
template <Executor E>
RunOperator<E> scatter_nd_add_grad(const OperatorArguments& op) {
  const Slot index = op.input("Index"), dy = op.input("Out@GRAD");
  const Slot dx = op.optional_output("X@GRAD"), dupdates = op.optional_output("Updates@GRAD");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(dy);
    call.with_id(index, [&](auto id) {
      const IndexedParts<typename decltype(id)::type> parts(call, index, from.shape());
      if (dupdates) write_parts(call, from, parts, dupdates);
      if (!dx) return;
      auto y = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      std::copy_n(from.bytes().data(), from.bytes().size(), y.data());
    });
  };
}
/// gather_nd_grad: X, Index, Out@GRAD -> X@GRAD: sums for parts that were taken several times.
template <Executor E>
RunOperator<E> gather_nd_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), index = op.input("Index"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& whole = call.tensor(x);
    call.with_id(index, [&](auto id) {
      const IndexedParts<typename decltype(id)::type> parts(call, index, whole.shape());
      call.with_floating(x, [&](auto element) {
        using T = typename decltype(element)::type;
        const T* given = some_numbers<T>(call, dy, parts.count * parts.size);
        write_sums<T>(call, dx, whole, [&](double* sums) {
          for (std::int64_t i = 0; i < parts.count; ++i) {
            double* const to = sums + parts.first(i);
            for (std::int64_t k = 0; k < parts.size; ++k) to[k] += static_cast<double>(*given++);
          }
        });
      });
    });
  };
}

/// scatter: X, Ids, Updates -> Out; overwrite = true: X with the rows that Ids names replaced by those of Updates, by
/// the last one if there are several for a row; with overwrite = false by their sum.
template <Executor E>
RunOperator<E> scatter(const OperatorArguments& op) {
  const Slot x = op.input("X"), ids = op.input("Ids"), updates = op.input("Updates"), out = op.output("Out");
  const bool overwrites = op.attr("overwrite", true);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& whole = call.tensor(x);
    const std::int64_t size = whole.row_size();
    call.with_id(ids, [&](auto id) {
      const auto rows = row_numbers<typename decltype(id)::type>(call, ids, whole.rows());
      call.with_number(x, [&](auto element) {
        using T = typename decltype(element)::type;
        const T* given = some_numbers<T>(call, updates, static_cast<std::int64_t>(rows.size()) * size);
        Changed<T, E> y(call, x, out);
        T* const to = y.data();
        if (!overwrites) {
          for (const auto row : rows) std::fill_n(to + row * size, size, T{0});
        }
        for (const auto row : rows) {
          T* const at = to + row * size;
          for (std::int64_t k = 0; k < size; ++k, ++given) at[k] = overwrites ? *given : kernel::Add()(at[k], *given);
        }
      });
    });
  };
}
/// scatter_grad: Ids, Updates, Out@GRAD -> X@GRAD?, which is 0 in the rows that Ids names, Updates@GRAD?: these rows.
template <Executor E>
RunOperator<E> scatter_grad(const OperatorArguments& op) {
  const Slot ids = op.input("Ids"), dy = op.input("Out@GRAD");
  const Slot dx = op.optional_output("X@GRAD"), dupdates = op.optional_output("Updates@GRAD");
  const Slot updates = op.input("Updates");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(dy), like = call.tensor(updates);
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(from.data_type())) * from.row_size();
    call.with_id(ids, [&](auto id) {
      const auto rows = row_numbers<typename decltype(id)::type>(call, ids, from.rows());
      if (like.data_type() != from.data_type() ||
          like.rows() * like.row_size() != static_cast<std::int64_t>(rows.size()) * from.row_size()) {
        throw ShapeMismatch(detail::text({call.name(updates), ": ", to_string(like.data_type()), " of shape ",
                                          to_string(like.shape()), ", expected ", to_string(from.data_type()), " and ",
                                          rows.size(), " rows of ", from.row_size(), " numbers"}));
      }
      if (dupdates) {
        auto rows_of = call.output_bytes(dupdates, like.data_type(), like.lod(), like.row_shape(), like.rows());
        for (std::size_t i = 0; i < rows.size(); ++i) {
          copy_blocks(from.bytes().data(), {.first = rows[i] * bytes}, rows_of.data(),
                      {.first = static_cast<std::int64_t>(i) * bytes}, bytes, 1);
        }
      }
      if (dx) {
        auto all = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
        std::copy_n(from.bytes().data(), from.bytes().size(), all.data());
        for (const auto row : rows) std::fill_n(all.data() + row * bytes, bytes, std::byte{0});
      }
    });
  };
}

/// multiplex: X..., Ids, INT32 -> Out: row i is row i of the X whose number is Ids[i]. No levels.
template <Executor E>
RunOperator<E> multiplex(const OperatorArguments& op) {
  const Slot x = op.inputs("X"), ids = op.input("Ids"), out = op.output("Out");
  if (!x) op.refuse({"input 'X' has no argument, expected one or more"});
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& first = call.tensor(x);
    const auto chosen = row_numbers<std::int32_t>(call, ids, static_cast<std::int64_t>(x.size));
    const auto rows = static_cast<std::int64_t>(chosen.size());
    for (std::size_t i = 0; i < x.size; ++i) {
      const AnyLoDTensor& one = call.tensor(x, i);
      if (one.row_shape() != first.row_shape() || one.data_type() != first.data_type() || one.rows() != rows) {
        throw ShapeMismatch(detail::text({call.name(x, i), ": ", to_string(one.data_type()), " of shape ",
                                          to_string(one.shape()), ", expected ", to_string(first.data_type()), " and ",
                                          rows, " rows of shape ", to_string(first.row_shape())}));
      }
    }
    const auto bytes = static_cast<std::int64_t>(size_of(first.data_type())) * first.row_size();
    auto y = call.output_bytes(out, first.data_type(), LoD(), first.row_shape(), rows);
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto one = static_cast<std::size_t>(chosen[static_cast<std::size_t>(i)]);
      copy_blocks(call.tensor(x, one).bytes().data(), {.first = i * bytes}, y.data(), {.first = i * bytes}, bytes, 1);
    }
  };
}
/// multiplex_grad: Ids, Out@GRAD -> X@GRAD...: each row goes back to the tensor that it came from; zeros elsewhere.
template <Executor E>
RunOperator<E> multiplex_grad(const OperatorArguments& op) {
  const Slot ids = op.input("Ids"), dy = op.input("Out@GRAD"), dx = op.outputs("X@GRAD");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(dy);
    const auto chosen = row_numbers<std::int32_t>(call, ids, static_cast<std::int64_t>(dx.size));
    if (static_cast<std::int64_t>(chosen.size()) != from.rows()) {
      throw ShapeMismatch(detail::text(
          {call.name(ids), ": ", chosen.size(), " numbers, expected ", from.rows(), ", one for each row"}));
    }
    const auto bytes = static_cast<std::int64_t>(size_of(from.data_type())) * from.row_size();
    for (std::size_t k = 0; k < dx.size; ++k) {
      if (!call.has(dx, k)) continue;
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows(), k);
      std::fill_n(out.data(), from.bytes().size(), std::byte{0});
      for (std::int64_t i = 0; i < from.rows(); ++i) {
        if (static_cast<std::size_t>(chosen[static_cast<std::size_t>(i)]) != k) continue;
        copy_blocks(from.bytes().data(), {.first = i * bytes}, out.data(), {.first = i * bytes}, bytes, 1);
      }
    }
  };
}

/// where: Condition, X, Y -> Out: at each place the number of X where the condition holds, else that of Y.
template <Executor E>
RunOperator<E> where(const OperatorArguments& op) {
  const Slot condition = op.input("Condition"), x = op.input("X"), y = op.input("Y"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const bool* const holds = numbers_of<bool>(call, condition, from.shape());
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const yes = call.template view<T>(x).data(), *const no = numbers_of<T>(call, y, from.shape());
      auto made = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      for (std::int64_t i = 0; i < from.rows() * from.row_size(); ++i) {
        made.template elements<T>()[i] = holds[i] ? yes[i] : no[i];
      }
    });
  };
}
/// where_grad: Condition, Out@GRAD -> X@GRAD?, Y@GRAD?: the gradient of the numbers that were taken from each, else 0.
template <Executor E>
RunOperator<E> where_grad(const OperatorArguments& op) {
  const Slot condition = op.input("Condition"), dy = op.input("Out@GRAD");
  const Slot to[] = {op.optional_output("X@GRAD"), op.optional_output("Y@GRAD")};
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(dy);
    const bool* const holds = numbers_of<bool>(call, condition, from.shape());
    call.with_floating(dy, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const given = from.template view<T>().data();
      for (const bool is_x : {true, false}) {
        if (!to[is_x ? 0 : 1]) continue;
        auto made = call.output_bytes(to[is_x ? 0 : 1], from.data_type(), from.lod(), from.row_shape(), from.rows());
        for (std::int64_t i = 0; i < from.rows() * from.row_size(); ++i) {
          made.template elements<T>()[i] = holds[i] == is_x ? given[i] : T{0};
        }
      }
    });
  };
}
/// where_index: Condition -> Out: the coordinates of each place where it holds, one row each, INT64.
template <Executor E>
RunOperator<E> where_index(const OperatorArguments& op) {
  const Slot condition = op.input("Condition"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const Shape shape = call.tensor(condition).shape();
    const auto holds = call.template view<bool>(condition).values();
    const auto rank = static_cast<std::int64_t>(shape.size());
    auto made = call.output_bytes(out, DataType::INT64, LoD(), {rank}, std::count(holds.begin(), holds.end(), true));
    auto* to = made.template elements<std::int64_t>();
    for (std::size_t i = 0; i < holds.size(); ++i) {
      if (!holds[i]) continue;
      auto place = static_cast<std::int64_t>(i);
      for (std::size_t dim = shape.size(); dim-- > 0; place /= shape[dim]) to[dim] = place % shape[dim];
      to += rank;
    }
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
