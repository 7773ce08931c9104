// SPDX-License-Identifier: Apache-2.0
/// @file
/// Python's LoDTensor: a tensor of any element type, or a part of one.
#pragma once

#include <lod/any_tensor.hpp>
#include <lod/lod.hpp>

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod_python {

/// Sequences, and the whole tensor that they are a part of, whose memory they keep alive. Parts cost no allocation but
/// that of the Python object.
class Tensor {
 public:
  explicit Tensor(lod::AnyLoDTensor whole)
      : whole_(std::move(whole)),
        part_(whole_.levels() > 0 ? whole_.lod().view() : lod::LoDView::plain(0, whole_.rows())) {}
  template <class T>
  explicit Tensor(lod::LoDTensor<T> whole) : Tensor(lod::AnyLoDTensor(std::move(whole))) {}

  /// The sequences `part` of the same tensor.
  Tensor with_part(const lod::LoDView& part) const {
    Tensor other = *this;
    other.part_ = part;
    other.is_part_ = true;
    return other;
  }

  const lod::AnyLoDTensor& whole() const noexcept { return whole_; }
  const lod::LoDView& part() const noexcept { return part_; }
  bool is_part() const noexcept { return is_part_; }
  lod::DataType data_type() const noexcept { return whole_.data_type(); }
  lod::Shape shape() const { return lod::Shape(part_.rows(), whole_.row_shape()); }

  /// The values of the part.
  std::span<const std::byte> bytes() const noexcept {
    const std::size_t row = static_cast<std::size_t>(whole_.row_size()) * lod::size_of(data_type());
    return whole_.bytes().subspan(static_cast<std::size_t>(part_.first_row()) * row,
                                  static_cast<std::size_t>(part_.rows()) * row);
  }
  /// The rows of the part without levels, on the same memory.
  lod::AnyLoDTensor rows() const;
  /// The part as a tensor on the same memory, its offsets counted from its start.
  lod::AnyLoDTensor tensor() const { return is_part_ ? rows().with_lod(part_.lod()) : whole_; }

  /// f(view), with a LoDTensorView<const T> of the part.
  template <class F>
  decltype(auto) visit(const F& f) const {
    return whole_.visit([&](const auto& view) -> decltype(auto) {
      using View = std::remove_cvref_t<decltype(view)>;
      return f(View(view.data() + part_.first_row() * view.row_size(), part_, &view.row_shape(), view.row_size()));
    });
  }

 private:
  lod::AnyLoDTensor whole_;
  lod::LoDView part_;  // borrowed from the LoD of whole_, which all copies share
  bool is_part_ = false;
};

/// A LoD from what a caller gives: None or levels, as offsets or as lengths, not both.
lod::LoD to_lod(pybind11::handle offsets, pybind11::handle lengths);

/// The numbers of a sequence of integers; of a buffer of them at the cost of a copy.
std::vector<std::int64_t> to_numbers(pybind11::handle numbers);

/// A tuple of the dimensions.
pybind11::tuple to_tuple(const lod::Shape& shape);

/// The rows of an object with a buffer (a NumPy array, say), on its memory. Where that is not contiguous or not
/// aligned, a copy, or ValueError where `may_copy` is false.
lod::AnyLoDTensor from_buffer(pybind11::handle values, lod::LoD lod, bool may_copy = true);

/// The class LoDTensor.
void bind_tensor(pybind11::module_& module);

}  // namespace lod_python
