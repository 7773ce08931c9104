// SPDX-License-Identifier: Apache-2.0
#include "operations.hpp"

#include "tensor.hpp"

#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace lod_python {

namespace {

/// compute(view) without Python's lock, for the element types that operation Op takes; TypeError for the others.
template <class Op, class Result = Tensor, class Compute>
Result run(const Tensor& x, const Compute& compute) {
  const py::gil_scoped_release unlocked;
  return x.visit([&](const auto& view) -> Result {
    using T = typename std::remove_cvref_t<decltype(view)>::value_type;
    if constexpr (lod::supports<Op, T>) {
      return compute(view);
    } else {
      throw py::type_error(std::string("this operation does not take elements of type ") +
                           lod::to_string(lod::data_type_v<T>));
    }
  });
}

Tensor sequence_pool(const Tensor& x, lod::PoolType type, double pad_value, int level) {
  return run<lod::op::sequence_pool>(x, [&](const auto& view) {
    return Tensor(lod::sequence_pool(view, type, {.pad_value = pad_value, .level = level}));
  });
}

Tensor sequence_softmax(const Tensor& x, int level) {
  return run<lod::op::sequence_softmax>(
      x, [&](const auto& view) { return Tensor(lod::sequence_softmax(view, {.level = level})); });
}

Tensor sequence_reverse(const Tensor& x, int level) {
  return run<lod::op::sequence_reverse>(
      x, [&](const auto& view) { return Tensor(lod::sequence_reverse(view, {.level = level})); });
}

std::pair<Tensor, Tensor> sequence_pad(const Tensor& x, double pad_value, std::int64_t padded_length, int level) {
  return run<lod::op::sequence_pad, std::pair<Tensor, Tensor>>(x, [&](const auto& view) {
    auto padded = lod::sequence_pad(view, {.pad_value = pad_value, .padded_length = padded_length, .level = level});
    return std::pair(Tensor(std::move(padded.dense)), Tensor(std::move(padded.lengths)));
  });
}

Tensor sequence_unpad(const Tensor& dense, const py::object& lengths) {
  const auto numbers = to_numbers(py::isinstance<Tensor>(lengths) ? py::memoryview(lengths) : lengths);
  return run<lod::op::sequence_unpad>(dense,
                                      [&](const auto& view) { return Tensor(lod::sequence_unpad(view, numbers)); });
}

/// compute(rows) with the typed form of g, on the same memory where that may be written to, else on a copy.
template <class Op, class Result, class Compute>
Result run(const lod::AnySelectedRows& g, const Compute& compute) {
  return run<Op, Result>(Tensor(g.value()), [&](const auto& view) {
    using T = typename std::remove_cvref_t<decltype(view)>::value_type;
    return compute(lod::AnySelectedRows(g).take<T>());
  });
}

lod::AnySelectedRows merge_add(const lod::AnySelectedRows& g) {
  return run<lod::op::merge_add, lod::AnySelectedRows>(
      g, [](const auto& rows) { return lod::AnySelectedRows(lod::merge_add(rows)); });
}

Tensor to_dense(const lod::AnySelectedRows& g) {
  return run<lod::op::to_dense, Tensor>(g, [](const auto& rows) { return Tensor(lod::to_dense(rows)); });
}

}  // namespace

void bind_operations(py::module_& module) {
  py::enum_<lod::PoolType>(module, "PoolType", "How the rows of a sequence become one.")
      .value("SUM", lod::PoolType::SUM)
      .value("AVERAGE", lod::PoolType::AVERAGE)
      .value("SQRT", lod::PoolType::SQRT)
      .value("MAX", lod::PoolType::MAX)
      .value("MIN", lod::PoolType::MIN)
      .value("FIRST", lod::PoolType::FIRST)
      .value("LAST", lod::PoolType::LAST);
  module.def("sequence_pool", &sequence_pool, py::arg("x"), py::arg("type"), py::kw_only(), py::arg("pad_value") = 0.0,
             py::arg("level") = -1, "One row for each sequence; the levels above it stay.");
  module.def("sequence_softmax", &sequence_softmax, py::arg("x"), py::kw_only(), py::arg("level") = -1,
             "exp(x) divided by its sum over the rows of each sequence, column by column.");
  module.def("sequence_reverse", &sequence_reverse, py::arg("x"), py::kw_only(), py::arg("level") = -1,
             "What each sequence holds, in reverse.");
  module.def("sequence_pad", &sequence_pad, py::arg("x"), py::kw_only(), py::arg("pad_value") = 0.0,
             py::arg("padded_length") = -1, py::arg("level") = 0,
             "(sequences, longest length, dimensions of a row...) and the lengths.");
  module.def("sequence_unpad", &sequence_unpad, py::arg("dense"), py::arg("lengths"), "sequence_pad undone.");
  module.def("merge_add", &merge_add, py::arg("g"), "SelectedRows whose repeated rows are added up.");
  module.def("to_dense", &to_dense, py::arg("g"), "The dense tensor that SelectedRows stand for.");
}

}  // namespace lod_python
