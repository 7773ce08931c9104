// SPDX-License-Identifier: Apache-2.0
#include "tensor.hpp"

#include "data_types.hpp"
#include "exchange.hpp"
#include "python_memory.hpp"
#include <lod/io/text.hpp>

#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace py = pybind11;

namespace lod_python {

lod::AnyLoDTensor Tensor::rows() const {
  if (!is_part_) return whole_.with_lod(lod::LoD());
  const auto values = bytes();
  if (whole_.read_only() || values.empty()) {
    return lod::AnyLoDTensor::wrap(data_type(), values, lod::LoD(), whole_.row_shape(), whole_, part_.rows());
  }
  return visit([&](const auto& view) {
    using T = typename std::remove_cvref_t<decltype(view)>::value_type;
    const std::span<T> writable{const_cast<T*>(view.data()), view.values().size()};
    return lod::AnyLoDTensor(lod::LoDTensor<T>::wrap(writable, lod::LoD(), view.row_shape(), whole_));
  });
}

// ---- What callers give ----

std::vector<std::int64_t> to_numbers(py::handle numbers) {
  if (PyObject_CheckBuffer(numbers.ptr())) {
    const BufferOwner buffer = get_buffer(numbers);
    if (buffer->ndim == 1 && data_type_of_buffer(*buffer) == lod::DataType::INT64) {
      std::vector<std::int64_t> copy(static_cast<std::size_t>(buffer->len) / sizeof(std::int64_t));
      if (PyBuffer_ToContiguous(copy.data(), buffer.get(), buffer->len, 'C') != 0) throw py::error_already_set();
      return copy;
    }
  }
  std::vector<std::int64_t> copy;
  for (const py::handle item : numbers) {
    const auto number = py::reinterpret_steal<py::int_>(PyNumber_Index(item.ptr()));
    if (!number) throw py::error_already_set();
    copy.push_back(PyLong_AsLongLong(number.ptr()));
    if (PyErr_Occurred()) throw py::error_already_set();
  }
  return copy;
}

lod::LoD to_lod(py::handle offsets, py::handle lengths) {
  if (!offsets.is_none() && !lengths.is_none()) throw py::value_error("give either lod, which are offsets, or lengths");
  const py::handle given = offsets.is_none() ? lengths : offsets;
  if (given.is_none()) return lod::LoD();
  std::vector<std::vector<std::int64_t>> levels;
  for (const py::handle level : given) {
    if (!py::isinstance<py::iterable>(level)) {
      throw py::type_error(offsets.is_none() ? "lengths: expected a list of lengths for each level, such as [[2, 3]]"
                                             : "lod: expected a list of offsets for each level, such as [[0, 2, 5]]");
    }
    levels.push_back(to_numbers(level));
  }
  return offsets.is_none() ? lod::LoD::from_lengths(levels) : lod::LoD::from_offsets(levels);
}

py::tuple to_tuple(const lod::Shape& shape) {
  py::tuple dims(shape.size());
  for (std::size_t dim = 0; dim < shape.size(); ++dim) dims[dim] = shape[dim];
  return dims;
}

lod::AnyLoDTensor from_buffer(py::handle values, lod::LoD lod, bool may_copy) {
  BufferOwner buffer = get_buffer(values);
  if (buffer->ndim == 0) throw py::value_error("a number alone, expected an array of rows");
  const lod::DataType type = data_type_of_buffer(*buffer);
  const std::int64_t rows = buffer->shape[0];
  const std::vector<std::int64_t> dims(buffer->shape + 1, buffer->shape + buffer->ndim);
  const lod::Shape row_shape(dims);
  if (lod.levels() > 0 && lod.rows() != rows) {
    throw lod::ShapeMismatch("the LoD is for " + std::to_string(lod.rows()) + " rows, but there are " +
                             std::to_string(rows));
  }

  const std::span<std::byte> bytes{static_cast<std::byte*>(buffer->buf), static_cast<std::size_t>(buffer->len)};
  const bool contiguous = PyBuffer_IsContiguous(buffer.get(), 'C') != 0;
  const bool is_complex = type == lod::DataType::COMPLEX64 || type == lod::DataType::COMPLEX128;
  const std::size_t alignment = is_complex ? lod::size_of(type) / 2 : lod::size_of(type);
  const bool aligned = bytes.empty() || reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0;
  if (!contiguous || !aligned) {
    if (!may_copy) throw py::value_error("the array is not contiguous and aligned, and it must not be copied");
    lod::AnyLoDTensor copy(type, std::move(lod), row_shape, lod::uninitialized, rows);
    if (PyBuffer_ToContiguous(copy.mutable_bytes().data(), buffer.get(), buffer->len, 'C') != 0) {
      throw py::error_already_set();
    }
    return copy;
  }
  if (buffer->readonly || bytes.empty()) {
    return lod::AnyLoDTensor::wrap(type, bytes, std::move(lod), row_shape, std::move(buffer), rows);
  }
  // Only typed tensors may be written to. This one, which is empty, leads to the type of C++; all that buffers hold
  // have one.
  const lod::AnyLoDTensor typed(type, lod::LoD(), {}, lod::uninitialized);
  return typed.visit([&](const auto& view) {
    using T = typename std::remove_cvref_t<decltype(view)>::value_type;
    const std::span<T> writable{reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
    return lod::AnyLoDTensor(lod::LoDTensor<T>::wrap(writable, std::move(lod), row_shape, std::move(buffer)));
  });
}

namespace {

constexpr std::size_t deepest_nesting = 64;

/// Nested lists, taken apart: the lists are sequences, everything else is a row.
class NestedLists {
 public:
  explicit NestedLists(const py::list& nested, std::optional<std::size_t> levels) {
    collect(nested, 0);
    const std::size_t found = row_depth_ ? *row_depth_ - 1 : lengths_.size();
    if (lengths_.size() > found || (levels && (row_depth_ ? *levels != found : *levels < found))) {
      throw py::value_error("nested lists: expected rows below " + std::to_string(levels.value_or(found)) +
                            " levels of lists, found some below " + std::to_string(lengths_.size()));
    }
    lengths_.resize(levels.value_or(found));
  }

  lod::LoD lod() const { return lod::LoD::from_lengths(lengths_); }
  const py::list& rows() const noexcept { return rows_; }

 private:
  void collect(const py::list& list, std::size_t depth) {
    if (depth == deepest_nesting) throw py::value_error("nested lists: more than 64 levels");
    for (const py::handle item : list) {
      if (py::isinstance<py::list>(item)) {
        const auto inner = py::reinterpret_borrow<py::list>(item);
        if (lengths_.size() == depth) lengths_.emplace_back();
        lengths_[depth].push_back(static_cast<std::int64_t>(inner.size()));
        collect(inner, depth + 1);
      } else {
        if (row_depth_.value_or(depth + 1) != depth + 1) {
          throw py::value_error("nested lists: rows below " + std::to_string(depth) + " levels of lists, and below " +
                                std::to_string(*row_depth_ - 1));
        }
        row_depth_ = depth + 1;
        rows_.append(item);
      }
    }
  }

  std::vector<std::vector<std::int64_t>> lengths_;
  py::list rows_;
  std::optional<std::size_t> row_depth_;  // the list of the batch itself counted
};

Tensor from_nested(const py::list& nested, const py::object& dtype, std::optional<std::size_t> levels) {
  const NestedLists parts(nested, levels);
  const auto numpy = py::module_::import("numpy");
  const py::object type = dtype.is_none() ? dtype : to_dtype(to_data_type(dtype));
  return Tensor(from_buffer(numpy.attr("array")(parts.rows(), type), parts.lod()));
}

Tensor from_numpy(const py::object& values, const py::object& lod, const py::object& lengths,
                  const std::optional<bool>& copy) {
  const bool copy_always = copy.value_or(false);
  const py::object array =
      copy_always ? py::module_::import("numpy").attr("array")(values, py::arg("order") = "C") : values;
  return Tensor(from_buffer(array, to_lod(lod, lengths), copy.value_or(true)));
}

// ---- What they get ----

/// The memory of a LoDTensor for who asks by the buffer protocol: NumPy, memoryview, ...
struct BufferView {
  Py_ssize_t shape[lod::Shape::max_rank + 1];
  Py_ssize_t strides[lod::Shape::max_rank + 1];
};

int fill_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  const auto refuse = [](const std::string& why) {
    PyErr_SetString(PyExc_BufferError, why.c_str());
    return -1;
  };
  const auto& tensor = py::handle(self).cast<const Tensor&>();
  const lod::Shape shape = tensor.shape();
  const char* const format = buffer_format(tensor.data_type());
  const bool read_only = tensor.whole().read_only();
  if (!format) {
    return refuse(std::string("neither NumPy nor the buffer protocol has a type for ") +
                  lod::to_string(tensor.data_type()) + "; __dlpack__ has");
  }
  if (read_only && (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) return refuse("the values are read-only");
  if (shape.size() > 1 && (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS) return refuse("the values are row-major");

  auto memory = std::make_unique<BufferView>();
  const auto item = static_cast<Py_ssize_t>(lod::size_of(tensor.data_type()));
  Py_ssize_t stride = item;
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    memory->shape[dim] = shape[dim];
    memory->strides[dim] = stride;
    stride *= shape[dim];
  }
  const auto bytes = tensor.bytes();
  view->buf = const_cast<std::byte*>(bytes.data());
  view->len = static_cast<Py_ssize_t>(bytes.size());
  view->itemsize = item;
  view->readonly = read_only;
  view->ndim = static_cast<int>(shape.size());
  view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
  view->shape = (flags & PyBUF_ND) ? memory->shape : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? memory->strides : nullptr;
  view->suboffsets = nullptr;
  view->internal = memory.release();
  view->obj = Py_NewRef(self);
  return 0;
}

void bind_buffer(PyHeapTypeObject* type) {
  type->ht_type.tp_as_buffer = &type->as_buffer;
  type->as_buffer.bf_getbuffer = [](PyObject* self, Py_buffer* view, int flags) noexcept {
    try {
      return fill_buffer(self, view, flags);
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_BufferError, error.what());
      return -1;
    }
  };
  type->as_buffer.bf_releasebuffer = [](PyObject*, Py_buffer* view) noexcept {
    delete static_cast<BufferView*>(view->internal);
  };
}

py::object to_numpy(const py::object& self) {
  return py::module_::import("numpy").attr("asarray")(py::memoryview(self));
}

py::list to_list(const py::object& self) {
  const auto& tensor = self.cast<const Tensor&>();
  py::list items = to_numpy(self).attr("tolist")();
  const lod::LoD lod = tensor.part().lod();
  for (int level = lod.levels(); level-- > 0;) {
    const auto offsets = lod.offsets(level);
    py::list sequences;
    for (std::size_t i = 1; i < offsets.size(); ++i) {
      sequences.append(py::reinterpret_steal<py::list>(PyList_GetSlice(items.ptr(), offsets[i - 1], offsets[i])));
    }
    items = std::move(sequences);
  }
  return items;
}

std::vector<std::vector<std::int64_t>> offsets_of(const Tensor& tensor) {
  const lod::LoD lod = tensor.part().lod();
  std::vector<std::vector<std::int64_t>> levels;
  for (int level = 0; level < lod.levels(); ++level) {
    const auto offsets = lod.offsets(level);
    levels.emplace_back(offsets.begin(), offsets.end());
  }
  return levels;
}

std::string text_of_tensor(const Tensor& tensor) {
  std::ostringstream text;
  if (buffer_format(tensor.data_type()) || tensor.data_type() == lod::DataType::BF16) {
    tensor.visit([&](const auto& view) {
      using T = typename std::remove_cvref_t<decltype(view)>::value_type;
      if (tensor.is_part()) {
        text << view;
      } else {
        text << tensor.whole().as<T>();
      }
    });
  } else {  // 8-bit floating point, which C++ cannot write
    text << "LoDTensor " << lod::to_string(tensor.data_type()) << ' ' << tensor.shape() << ", LoD " << tensor.part();
  }
  return std::move(text).str();
}

/// What is counted from the end, from the start; what is out of range, as it was given.
std::int64_t counted_from_start(std::int64_t index, std::int64_t size) {
  return index < 0 && index >= -size ? index + size : index;
}

Tensor sequence_range(const Tensor& tensor, const py::slice& range) {
  py::ssize_t start = 0, stop = 0, step = 0, length = 0;
  if (!range.compute(tensor.part().size(), &start, &stop, &step, &length)) throw py::error_already_set();
  if (step != 1) throw py::value_error("a range with a step is no view: take the sequences one by one");
  return tensor.with_part(tensor.part().between(start, start + length));
}

Tensor branch_slice(const Tensor& tensor, const py::args& branch) {
  return tensor.with_part(tensor.part().slice(branch.cast<std::vector<std::int64_t>>()));
}

}  // namespace

void bind_tensor(py::module_& module) {
  const py::object none = py::none();
  py::class_<Tensor> tensor(module, "LoDTensor", py::custom_type_setup(bind_buffer),
                            "Rows in one block of memory, and the levels that cut them into nested sequences.");
  tensor
      .def(py::init(&from_nested), py::arg("nested") = py::list(), py::kw_only(), py::arg("dtype") = none,
           py::arg("levels") = none,
           "From nested lists: a list is a sequence, everything else (a number, a tuple, an array) is a row. `levels` "
           "is "
           "needed only where there are no rows to tell how many there are.")
      .def_static(
          "from_numpy", &from_numpy, py::arg("values"), py::arg("lod") = none, py::kw_only(), py::arg("lengths") = none,
          py::arg("copy") = none,
          "Stands on the memory of an array, writable where the array is, if that is contiguous; else on a copy. "
          "copy=False: ValueError rather than a copy; copy=True: always a copy. The levels are given as offsets "
          "(lod) or as lengths, outermost first.")
      .def_static("from_dlpack", &from_dlpack, py::arg("values"), py::arg("lod") = none, py::kw_only(),
                  py::arg("lengths") = none, "Stands on the memory of any object with __dlpack__.")
      .def_static("from_arrow", &from_arrow, py::arg("array"),
                  "Stands on the memory of any object with __arrow_c_array__, or with __arrow_c_stream__ if that has "
                  "one array: its lists are levels, those of fixed size inside are dimensions of a row. Read-only.");
  tensor.def_property_readonly("data_type", &Tensor::data_type, "The type of the elements, a DataType.")
      .def_property_readonly(
          "dtype", [](const Tensor& self) { return to_dtype(self.data_type()); }, "The same as NumPy names it.")
      .def_property_readonly(
          "shape", [](const Tensor& self) { return to_tuple(self.shape()); }, "(rows, dimensions of a row...)")
      .def_property_readonly(
          "levels", [](const Tensor& self) { return self.part().levels(); }, "The number of levels.")
      .def_property_readonly("lod", &offsets_of, "The offsets of every level, outermost first, counted from its start.")
      .def_property_readonly(
          "absolute_lod", [](const Tensor& self) { return self.part().absolute_lod(); },
          "Row numbers of the whole tensor at every level, as slices are drawn on paper.")
      .def_property_readonly(
          "lengths", [](const Tensor& self) { return self.part().lod().lengths(); }, "The lengths of every level.")
      .def_property_readonly(
          "first_row", [](const Tensor& self) { return self.part().first_row(); },
          "The number of the first row in the whole tensor.")
      .def_property_readonly(
          "read_only", [](const Tensor& self) { return self.whole().read_only(); },
          "Whether values may not be written.");
  tensor.def("numpy", &to_numpy, "The rows as an array on the same memory, which it keeps alive.")
      .def("tolist", &to_list, "The values as nested lists, from sequences down to single elements.")
      .def("__len__", [](const Tensor& self) { return self.part().size(); })
      .def(
          "__getitem__",
          [](const Tensor& self, std::int64_t index) {
            return self.with_part(self.part()[counted_from_start(index, self.part().size())]);
          },
          "Sequence i as an element: one level fewer; row i where there is no level. Shares the memory.")
      .def("__getitem__", &sequence_range, "Sequences i to j, with the same levels. Shares the memory.")
      .def("slice", &branch_slice,
           "The slice of the branch <i, j, ...>: its one sequence, which stays as the outermost level. Shares the "
           "memory.")
      .def("__repr__", &text_of_tensor)
      .def("__dlpack__", &to_dlpack, py::kw_only(), py::arg("stream") = none, py::arg("max_version") = none,
           py::arg("dl_device") = none, py::arg("copy") = none)
      .def("__dlpack_device__", [](const Tensor&) { return dlpack_device(); })
      .def("__arrow_c_schema__", &to_arrow_schema)
      .def("__arrow_c_array__", &to_arrow, py::arg("requested_schema") = none);
}

}  // namespace lod_python
