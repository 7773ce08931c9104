// SPDX-License-Identifier: Apache-2.0
/// @file
/// bilinear_tensor_product, and its gradient.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>

#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The checked arguments of both operators: X, rows of m numbers; Y, as many rows of n numbers; Weight, k matrices of m
/// by n numbers; Bias?, k numbers.
template <class T>
struct BilinearForms {
  const T *x, *y, *weight;
  std::int64_t rows, forms, m, n;

  template <class E>
  BilinearForms(const OperatorCall<E>& call, const Slot& x_slot, const Slot& y_slot, const Slot& weight_slot) {
    const AnyLoDTensor &a = call.tensor(x_slot), &b = call.tensor(y_slot), &w = call.tensor(weight_slot);
    rows = a.rows();
    forms = w.rows();
    m = a.row_size();
    n = b.row_size();
    if (b.rows() != rows || w.row_shape() != Shape{m, n}) {
      throw ShapeMismatch(detail::text({"shapes ", to_string(a.shape()), " and ", to_string(b.shape()), ", ",
                                        call.name(weight_slot), " of shape ", to_string(w.shape()),
                                        ", expected as many rows of both, and matrices of their sizes"}));
    }
    x = call.template view<T>(x_slot).data();
    y = call.template view<T>(y_slot).data();
    weight = call.template view<T>(weight_slot).data();
  }
  /// Calls f(row, form, place in x, place in y, place in weight) for all products.
  template <class F>
  void for_each_product(const F& f) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t k = 0; k < forms; ++k) {
        for (std::int64_t p = 0; p < m; ++p) {
          for (std::int64_t q = 0; q < n; ++q) f(i, k, i * m + p, i * n + q, (k * m + p) * n + q);
        }
      }
    }
  }
};

/// bilinear_tensor_product: X, Y, Weight, Bias? -> Out: for each row, x W y for every matrix W, plus the bias. Levels
/// as X.
template <Executor E>
RunOperator<E> bilinear_tensor_product(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), weight = op.input("Weight"), bias = op.optional_input("Bias");
  const Slot out = op.output("Out");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(x);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const BilinearForms<T> in(call, x, y, weight);
      const T* const shift = bias ? some_numbers<T>(call, bias, in.forms) : nullptr;
      const Workspace::Loan<double> sums(call.executor().workspace(), Shape{in.rows, in.forms}.elements());
      for (std::int64_t i = 0; i < in.rows * in.forms; ++i)
        sums[i] = shift ? static_cast<double>(shift[i % in.forms]) : 0;
      in.for_each_product([&](std::int64_t i, std::int64_t k, std::int64_t p, std::int64_t q, std::int64_t w) {
        sums[i * in.forms + k] +=
            static_cast<double>(in.x[p]) * static_cast<double>(in.weight[w]) * static_cast<double>(in.y[q]);
      });
      auto z = call.output_bytes(out, from.data_type(), from.lod(), {in.forms}, in.rows);
      for (std::int64_t i = 0; i < in.rows * in.forms; ++i) z.template elements<T>()[i] = static_cast<T>(sums[i]);
    });
  };
}
/// bilinear_tensor_product_grad: X, Y, Weight, Out@GRAD -> X@GRAD?, Y@GRAD?, Weight@GRAD?, Bias@GRAD?
template <Executor E>
RunOperator<E> bilinear_tensor_product_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Y"), weight = op.input("Weight"), dz = op.input("Out@GRAD");
  const Slot dx = op.optional_output("X@GRAD"), dy = op.optional_output("Y@GRAD");
  const Slot dweight = op.optional_output("Weight@GRAD"), dbias = op.optional_output("Bias@GRAD");
  return [=](OperatorCall<E>& call) {
    const AnyLoDTensor a = call.tensor(x), b = call.tensor(y), w = call.tensor(weight);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const BilinearForms<T> in(call, x, y, weight);
      const T* const given = numbers_of<T>(call, dz, {in.rows, in.forms});
      const auto product = [&](std::int64_t i, std::int64_t k, T one, T other) {
        return static_cast<double>(given[i * in.forms + k]) * static_cast<double>(one) * static_cast<double>(other);
      };
      // Each gradient is the sum of the products without the factor that it belongs to.
      const auto write = [&](const Slot& slot, const AnyLoDTensor& like, const auto& add) {
        if (!slot) return;
        write_sums<T>(call, slot, like, [&](double* sums) {
          in.for_each_product([&](std::int64_t i, std::int64_t k, std::int64_t p, std::int64_t q, std::int64_t r) {
            add(sums, i, k, p, q, r);
          });
        });
      };
      using Place = std::int64_t;
      write(dx, a, [&](double* sums, Place i, Place k, Place p, Place q, Place r) {
        sums[p] += product(i, k, in.weight[r], in.y[q]);
      });
      write(dy, b, [&](double* sums, Place i, Place k, Place p, Place q, Place r) {
        sums[q] += product(i, k, in.weight[r], in.x[p]);
      });
      write(dweight, w, [&](double* sums, Place i, Place k, Place p, Place q, Place r) {
        sums[r] += product(i, k, in.x[p], in.y[q]);
      });
      if (!dbias) return;
      auto total = call.output_bytes(dbias, a.data_type(), LoD(), {in.forms}, 1);
      for (std::int64_t k = 0; k < in.forms; ++k) {
        double sum = 0;
        for (std::int64_t i = 0; i < in.rows; ++i) sum += static_cast<double>(given[i * in.forms + k]);
        total.template elements<T>()[k] = static_cast<T>(sum);
      }
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
