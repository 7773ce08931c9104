// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that compare rows and their lengths, or assess training: cos_sim, squared_l2_distance, norm, auc,
/// isfinite.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/arithmetic.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/unary.hpp>
#include <lod/program/operators/wide.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The rows that cos_sim compares: each row of X with the same row of Y, or with Y's only row.
struct RowPairs {
  std::int64_t rows, size, y_step;

  template <class E>
  RowPairs(const OperatorCall<E>& call, const Slot& x, const Slot& y) {
    const AnyLoDTensor &a = call.tensor(x), &b = call.tensor(y);
    if (a.row_shape() != b.row_shape() || (a.rows() != b.rows() && b.rows() != 1)) {
      throw ShapeMismatch(detail::text({call.name(y), " of shape ", to_string(b.shape()), ", expected that of ",
                                        call.name(x), ", ", to_string(a.shape()), ", or one row"}));
    }
    rows = a.rows();
    size = a.row_size();
    y_step = b.rows() == 1 ? 0 : size;
  }
};

/// cos_sim: X, Y -> Out: the cosine of the angle between the rows; XNorm, YNorm: their lengths. For a row of zeros the
/// result is NaN, as in PaddlePaddle.
template <Executor E>
RunOperator<E> cos_sim(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), out = op.output("Out");
  const Slot x_norm = op.output("XNorm"), y_norm = op.output("YNorm");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor &a = call.tensor(x), &b = call.tensor(y);
    const RowPairs pairs(call, x, y);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const left = call.template view<T>(x).data(), *const right = call.template view<T>(y).data();
      const auto lengths = [&](const Slot& slot, const T* rows, std::int64_t count) {
        auto made = call.output_bytes(slot, data_type_v<T>, LoD(), {1}, count);
        T* const to = made.template elements<T>();
        for (std::int64_t i = 0; i < count; ++i) {
          const T* const row = rows + i * pairs.size;
          in_wide_range<T>([&]<class W>(W) {
            const W squares = product_of<W>(row, row, pairs.size);
            to[i] = static_cast<T>(std::sqrt(squares));
            return is_in_range<T>(squares);
          });
        }
      };
      lengths(x_norm, left, a.rows());
      lengths(y_norm, right, b.rows());
      auto cosines = call.output_bytes(out, data_type_v<T>, a.lod(), {1}, pairs.rows);
      T* const to = cosines.template elements<T>();
      for (std::int64_t i = 0; i < pairs.rows; ++i) {
        const T *const p = left + i * pairs.size, *const q = right + i * pairs.y_step;
        in_wide_range<T>([&]<class W>(W) {
          const W of_p = product_of<W>(p, p, pairs.size), of_q = product_of<W>(q, q, pairs.size);
          to[i] = static_cast<T>(product_of<W>(p, q, pairs.size) / std::sqrt(of_p * of_q));
          return is_in_range<T>(of_p) && is_in_range<T>(of_q) && is_in_range<T>(of_p * of_q);
        });
      }
    });
  };
}
/// cos_sim_grad: X, Y, Out, XNorm, YNorm, Out@GRAD -> X@GRAD?, Y@GRAD?
template <Executor E>
RunOperator<E> cos_sim_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), out = op.input("Out"), dy = op.input("Out@GRAD");
  const Slot x_norm = op.input("XNorm"), y_norm = op.input("YNorm");
  const Slot to_x = op.optional_output("X@GRAD"), to_y = op.optional_output("Y@GRAD");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor a = call.tensor(x), b = call.tensor(y);
    const RowPairs pairs(call, x, y);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const left = call.template view<T>(x).data(), *const right = call.template view<T>(y).data();
      const T *const cosines = some_numbers<T>(call, out, pairs.rows), *const given =
                                                                           some_numbers<T>(call, dy, pairs.rows);
      const T *const p = some_numbers<T>(call, x_norm, a.rows()), *const q = some_numbers<T>(call, y_norm, b.rows());
      // For each row of one side: gradient * (other / (product of both lengths) - cosine * row / length^2).
      const auto write = [&](const Slot& slot, const AnyLoDTensor& like, const T* rows, std::int64_t row_step,
                             const T* others, std::int64_t other_step, const T* lengths) {
        if (!slot) return;
        write_sums<T>(call, slot, like, [&](double* sums) {
          for (std::int64_t i = 0; i < pairs.rows; ++i) {
            using W = Wide<T>;
            const auto g = static_cast<W>(given[i]), cosine = static_cast<W>(cosines[i]);
            const W both = static_cast<W>(p[i]) * static_cast<W>(q[pairs.y_step == 0 ? 0 : i]);
            const auto own = static_cast<W>(lengths[row_step == 0 ? 0 : i]);
            const T *const row = rows + i * row_step, *const other = others + i * other_step;
            for (std::int64_t k = 0; k < pairs.size; ++k) {
              sums[i * row_step + k] += static_cast<double>(
                  g * (static_cast<W>(other[k]) / both - cosine * static_cast<W>(row[k]) / (own * own)));
            }
          }
        });
      };
      write(to_x, a, left, pairs.size, right, pairs.y_step, p);
      write(to_y, b, right, pairs.y_step, left, pairs.size, q);
    });
  };
}

/// norm: X -> Out, Norm; axis = -1, epsilon = 1e-10: each line along the axis divided by its length, sqrt(sum of
/// squares + epsilon).
template <Executor E>
RunOperator<E> norm(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out"), lengths = op.output("Norm");
  const std::int32_t axis = op.attr("axis", -1);
  const auto epsilon = static_cast<double>(op.attr("epsilon", 1e-10f));
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Shape shape = from.shape();
    const std::size_t along = axis_of(axis, shape.size());
    const Around around(shape, along);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const values = call.template view<T>(x).data();
      const Shape lines = part(shape, 0, along).followed_by(Shape(1, part(shape, along + 1, shape.size())));
      auto norms = call.output_bytes(lengths, from.data_type(), lines, AnyLoDTensor());
      auto y = call.output_bytes(out, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T *const to = y.template elements<T>(), *const length = norms.template elements<T>();
      for (std::int64_t i = 0; i < around.before * around.after; ++i) {
        const std::int64_t first = around.first(i);
        in_wide_range<T>([&]<class W>(W) {
          W squares = epsilon;
          for (std::int64_t k = 0; k < around.along; ++k) {
            squares += Square()(static_cast<W>(values[first + k * around.after]));
          }
          if (!is_in_range<T>(squares)) return false;
          const W whole = std::sqrt(squares);  // of floats, perhaps beyond the greatest
          length[i] = static_cast<T>(whole);
          for (std::int64_t k = 0; k < around.along; ++k) {
            const std::int64_t at = first + k * around.after;
            to[at] = static_cast<T>(static_cast<W>(values[at]) / whole);
          }
          return true;
        });
      }
    });
  };
}
/// norm_grad: X, Norm, Out@GRAD -> X@GRAD; axis = -1.
template <Executor E>
RunOperator<E> norm_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), lengths = op.input("Norm"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  const std::int32_t axis = op.attr("axis", -1);
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Around around(from.shape(), axis_of(axis, from.shape().size()));
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const values = call.template view<T>(x).data(), *const given = numbers_of<T>(call, dy, from.shape());
      const T* const length = some_numbers<T>(call, lengths, around.before * around.after);
      auto out = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = out.template elements<T>();
      for (std::int64_t i = 0; i < around.before * around.after; ++i) {
        const std::int64_t first = around.first(i);
        using W = Wide<T>;
        const auto whole = static_cast<W>(length[i]);
        W product = 0;
        for (std::int64_t k = 0; k < around.along; ++k) {
          const std::int64_t at = first + k * around.after;
          product += static_cast<W>(values[at]) * static_cast<W>(given[at]);
        }
        const W along = product / (whole * whole);
        for (std::int64_t k = 0; k < around.along; ++k) {
          const std::int64_t at = first + k * around.after;
          to[at] = static_cast<T>((static_cast<W>(given[at]) - static_cast<W>(values[at]) * along) / whole);
        }
      }
    });
  };
}

/// auc: Predict, Label, StatPos, StatNeg -> AUC, StatPosOut, StatNegOut; num_thresholds = 8191, slide_steps = 1: the
/// area under the curve of true over false positives (curve = "ROC"), for the last column of Predict, whose numbers are
/// in [0, 1]. The statistics count positive and negative labels by threshold: for each of the last `slide_steps` runs,
/// then for these together, followed by the number of runs, in one dimension. With slide_steps = 0 they count over all
/// runs, in the shape {1, thresholds + 1}.
template <Executor E>
RunOperator<E> auc(const OperatorArguments& op) {
  op.expect_no_input("InsTagWeight");
  op.expect_attr("curve", "ROC");
  const Slot predict = op.input("Predict"), label = op.input("Label"), out = op.output("AUC");
  const Slot before[] = {op.input("StatPos"), op.input("StatNeg")};
  const Slot after[] = {op.output("StatPosOut"), op.output("StatNegOut")};
  const std::int64_t thresholds = op.attr("num_thresholds", 8191), steps = op.attr("slide_steps", 1);
  if (thresholds < 1) op.refuse_attr("num_thresholds", "1 or more");
  if (steps < 0) op.refuse_attr("slide_steps", "0 or more");
  return [=](OperatorCall<E>& call) {
    const std::int64_t buckets = thresholds + 1, count = (1 + steps) * buckets + (steps > 0 ? 1 : 0);
    const Shape shape = steps > 0 ? Shape{count} : Shape{1, count};
    for (const Slot& slot : before) static_cast<void>(some_numbers<std::int64_t>(call, slot, count));
    const AnyLoDTensor& from = call.tensor(predict);
    const std::int64_t rows = from.rows(), width = from.row_size();
    const auto* const labels = some_numbers<std::int64_t>(call, label, rows);
    call.with_floating(predict, [&](auto element) {
      const auto* const values = call.template view<typename decltype(element)::type>(predict).data();
      const auto bucket_of = [&](std::int64_t i) {
        const auto value = static_cast<double>(values[i * width + width - 1]);
        if (!(value >= 0 && value <= 1)) {
          throw OutOfRange(detail::text(
              {call.name(predict), ": row ", i, " ends with ", to_string(Scalar(value)), ", expected 0 to 1"}));
        }
        return static_cast<std::int64_t>(value * static_cast<double>(thresholds));
      };
      if (width == 0 && rows > 0) throw ShapeMismatch(detail::text({call.name(predict), ": expected a column"}));
      for (std::int64_t i = 0; i < rows; ++i) static_cast<void>(bucket_of(i));
      auto area = call.output_bytes(out, DataType::FP64, LoD(), {}, 1);
      Changed<std::int64_t, E> stats[] = {{call, before[0], after[0], LoD(), shape.without_first(), shape.front()},
                                          {call, before[1], after[1], LoD(), shape.without_first(), shape.front()}};
      std::int64_t* now[2];
      std::int64_t* all[2];
      for (std::size_t which = 0; which < 2; ++which) {
        std::int64_t* const counts = stats[which].data();
        all[which] = counts + steps * buckets;
        std::int64_t& runs = counts[count - 1];
        const std::int64_t step = steps > 0 ? std::max<std::int64_t>(runs, 0) % steps : 0;
        now[which] = counts + step * buckets;
        if (steps == 0) continue;
        std::transform(all[which], all[which] + buckets, now[which], all[which], kernel::Subtract());
        std::fill_n(now[which], buckets, 0);
        runs = step + 1;
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        if (labels[i] < 0) continue;
        std::int64_t& count_of = now[labels[i] > 0 ? 0 : 1][bucket_of(i)];
        count_of = kernel::Add()(count_of, std::int64_t{1});
      }
      double positives = 0, negatives = 0, total = 0;
      for (std::size_t which = 0; steps > 0 && which < 2; ++which) {
        std::transform(all[which], all[which] + buckets, now[which], all[which], kernel::Add());
      }
      for (std::int64_t k = buckets; k-- > 0;) {
        const auto more = static_cast<double>(all[0][k]), fewer = static_cast<double>(all[1][k]);
        total += fewer * (positives + more / 2);
        positives += more;
        negatives += fewer;
      }
      *area.template elements<double>() = positives > 0 && negatives > 0 ? total / positives / negatives : 0;
    });
  };
}

/// isfinite_v2, isinf_v2 and isnan_v2: X -> Out: for each number, whether it is. isfinite: whether all are; isinf and
/// isnan: whether any is.
enum class Is { FINITE, INFINITE, NOT_A_NUMBER };
template <Executor E, Is what, bool is_of_each>
RunOperator<E> isfinite(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto is = [](T v) {
        const auto number = static_cast<double>(v);
        return what == Is::FINITE     ? std::isfinite(number)
               : what == Is::INFINITE ? std::isinf(number)
                                      : std::isnan(number);
      };
      if (is_of_each) return map_elements<bool, T>(call, x, out, is);
      const auto values = call.template view<T>(x).values();
      *call.output_bytes(out, DataType::BOOL, LoD(), {}, 1).template elements<bool>() =
          what == Is::FINITE ? std::all_of(values.begin(), values.end(), is)
                             : std::any_of(values.begin(), values.end(), is);
    });
  };
}

/// squared_l2_distance: X, Y -> sub_result, X - Y, Out, the sum of the squares of each row. Y may have one row, for
/// all.
template <Executor E>
RunOperator<E> squared_l2_distance(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), difference = op.output("sub_result"), out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const RowPairs pairs(call, x, y);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T *const a = call.template view<T>(x).data(), *const b = call.template view<T>(y).data();
      auto differences = call.output_bytes(difference, from.data_type(), LoD(), {pairs.size}, pairs.rows);
      auto sums = call.output_bytes(out, from.data_type(), from.lod(), {1}, pairs.rows);
      T *const d = differences.template elements<T>(), *const to = sums.template elements<T>();
      for (std::int64_t i = 0; i < pairs.rows; ++i) {
        double total = 0;
        for (std::int64_t k = 0; k < pairs.size; ++k) {
          const T one = a[i * pairs.size + k] - b[i * pairs.y_step + k];
          d[i * pairs.size + k] = one;
          total += static_cast<double>(one) * static_cast<double>(one);
        }
        to[i] = static_cast<T>(total);
      }
    });
  };
}
/// squared_l2_distance_grad: X, Y, sub_result, Out@GRAD -> X@GRAD?, Y@GRAD?.
template <Executor E>
RunOperator<E> squared_l2_distance_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), difference = op.input("sub_result"), dy = op.input("Out@GRAD");
  const Slot to_x = op.optional_output("X@GRAD"), to_y = op.optional_output("Y@GRAD");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(x), other = call.tensor(y);
    const RowPairs pairs(call, x, y);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const d = some_numbers<T>(call, difference, pairs.rows * pairs.size);
      const T* const given = some_numbers<T>(call, dy, pairs.rows);
      // Calls f(row, column, the gradient with respect to the difference).
      const auto for_each = [=](const auto& f) {
        for (std::int64_t i = 0; i < pairs.rows; ++i) {
          for (std::int64_t k = 0; k < pairs.size; ++k) f(i, k, 2 * given[i] * d[i * pairs.size + k]);
        }
      };
      if (to_y) {
        write_sums<T>(call, to_y, other, [&](double* sums) {
          for_each([=](std::int64_t i, std::int64_t k, T slope) {
            sums[i * pairs.y_step + k] -= static_cast<double>(slope);
          });
        });
      }
      if (!to_x) return;
      auto made = call.output_bytes(to_x, from.data_type(), from.lod(), from.row_shape(), from.rows());
      T* const to = made.template elements<T>();
      for_each([=](std::int64_t i, std::int64_t k, T slope) { to[i * pairs.size + k] = slope; });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
