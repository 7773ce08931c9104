// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The outputs that an operator writes: tensors with the memory of the run before, moved into their variables when the
/// operator has ended.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/variable.hpp>

#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// The outputs of an operator that give their memory back after their last use, and what remains of them for the next
/// run: their type and row shape.
template <class Device>
class KeptOutputs {
  using Any = BasicAnyLoDTensor<Device>;
  using Resource = typename Device::memory_resource;

 public:
  /// From now on `output`, wherever it occurs among the variables of the operator, takes its memory from `resource` and
  /// gives it back there.
  LOD_TAGGED void add(const std::vector<Variable*>& variables, const Variable& output, Resource* resource) {
    outputs_.resize(variables.size());
    for (std::size_t place = 0; place < variables.size(); ++place) {
      if (variables[place] == &output) outputs_[place].resource = resource;
    }
  }
  /// Gives the memory of `output` back now, unless it came from elsewhere: the operator may have made the output share
  /// the memory of another tensor.
  LOD_TAGGED void let_go(const std::vector<Variable*>& variables, Variable& output) {
    if (!output.holds<Any>()) return;
    Any& tensor = output.get<Any>();
    for (std::size_t place = 0; place < outputs_.size(); ++place) {
      auto& [resource, structure] = outputs_[place];
      if (variables[place] != &output || !resource || tensor.resource() != resource) continue;
      structure = std::move(tensor);
      tensor = give_up_memory(structure);  // keeps the type, which an operator may expect to find
    }
  }
  /// The resource of the output at this place if it is one of those that give their memory back; else `otherwise`.
  LOD_TAGGED Resource* resource(std::size_t place, Resource* otherwise) const noexcept {
    return is_kept(place) ? outputs_[place].resource : otherwise;
  }
  /// What remains of the output at this place, if it is one of those and has no memory now; else null.
  LOD_TAGGED Any* structure(std::size_t place, const Variable& output) {
    return is_kept(place) && output.get<Any>().bytes().empty() ? &outputs_[place].structure : nullptr;
  }

 private:
  struct Output {
    Resource* resource = nullptr;
    Any structure = {};
  };

  LOD_TAGGED bool is_kept(std::size_t place) const noexcept { return !outputs_.empty() && outputs_[place].resource; }

  std::vector<Output> outputs_;  // for each variable, or none
};

/// Lets a tensor without elements forget its resource. A program's own resource, with a limit or shared, ends with the
/// program unless some of its memory is in use, so a tensor that outlives the program and holds no memory must not
/// refer to it.
LOD_TAGGED inline void let_go_of_resource(AnyLoDTensor& x) noexcept {
  if (!x.bytes().empty()) return;
  try {
    x = AnyLoDTensor(x.data_type(), x.lod(), x.row_shape(), uninitialized, x.rows());
  } catch (...) {
    x = AnyLoDTensor();
  }
}

}  // namespace detail

/// The tensor of a variable that an operator writes, with the memory of the run before. It is moved into the variable
/// when this object is destroyed.
template <class T, class Device = Cpu>
class OutputTensor {
  using Any = BasicAnyLoDTensor<Device>;

 public:
  /// Memory that the tensor needs comes from `resource`. If the operator also reads the variable, the tensor has the
  /// memory of `spare` instead, and `spare` gets the variable's in the end; otherwise `spare` is null.
  LOD_TAGGED OutputTensor(Variable& variable, typename Device::memory_resource* resource, Any* spare)
      : variable_(variable.get<Any>()),
        spare_(spare),
        tensor_(resource),
        is_taken_(kept().template holds<T>() && kept().resource() == resource && !kept().read_only() &&
                  !kept().shares_memory()),
        exceptions_(std::uncaught_exceptions()) {
    if (is_taken_) tensor_ = std::move(kept()).template take<T>();
  }
  OutputTensor(const OutputTensor&) = delete;
  OutputTensor& operator=(const OutputTensor&) = delete;
  /// If an exception ends the operator, the variable gets its tensor back.
  LOD_TAGGED ~OutputTensor() {
    const bool has_failed = std::uncaught_exceptions() != exceptions_;
    // The tensor has given its memory back, and the operator has not written it.
    if (tensor_.capacity() < tensor_.rows() * tensor_.row_size()) tensor_ = LoDTensor<T, Device>(tensor_.resource());
    if (spare_ && !has_failed) *spare_ = std::move(variable_);
    if (spare_ ? !has_failed : is_taken_ || !has_failed) variable_ = Any(std::move(tensor_));
  }

  /// @{
  /// The tensor.
  LOD_TAGGED LoDTensor<T, Device>& operator*() noexcept { return tensor_; }
  LOD_TAGGED LoDTensor<T, Device>* operator->() noexcept { return &tensor_; }
  /// @}

 private:
  LOD_TAGGED Any& kept() noexcept { return spare_ ? *spare_ : variable_; }

  Any& variable_;
  Any* spare_;
  LoDTensor<T, Device> tensor_;
  bool is_taken_;
  int exceptions_;
};

/// The same for operators that move elements of any type: the bytes of an output of known structure.
template <class Device = Cpu>
class OutputBytes {
  using Any = BasicAnyLoDTensor<Device>;

 public:
  /// `next` is moved into the variable in the end; it may be the variable's own tensor. What the variable held goes to
  /// `spare`, unless that is null.
  LOD_TAGGED OutputBytes(Any& variable, Any next, Any* spare) noexcept
      : variable_(variable), spare_(spare), next_(std::move(next)), exceptions_(std::uncaught_exceptions()) {}
  /// The variable's own tensor, which is changed in place.
  LOD_TAGGED explicit OutputBytes(Any& variable) noexcept
      : variable_(variable), spare_(nullptr), exceptions_(std::uncaught_exceptions()), is_in_place_(true) {}
  OutputBytes(const OutputBytes&) = delete;
  OutputBytes& operator=(const OutputBytes&) = delete;
  LOD_TAGGED ~OutputBytes() {
    if (is_in_place_ || std::uncaught_exceptions() != exceptions_) return;
    if (spare_) *spare_ = std::move(variable_);
    variable_ = std::move(next_);
  }
  /// Whether it is the variable's own tensor.
  LOD_TAGGED bool is_in_place() const noexcept { return is_in_place_; }
  /// The tensor that the variable will hold.
  LOD_TAGGED Any& tensor() noexcept { return is_in_place_ ? variable_ : next_; }
  /// The first byte.
  LOD_TAGGED std::byte* data() { return tensor().mutable_bytes().data(); }
  /// The first element, of the type that the output was made with.
  template <class T>
  LOD_TAGGED T* elements() {
    LOD_ASSERT(tensor().template holds<T>());
    return reinterpret_cast<T*>(data());
  }

 private:
  Any& variable_;
  Any* spare_;
  Any next_ = {};
  int exceptions_;
  bool is_in_place_ = false;
};

}  // namespace lod::inline LOD_INTERFACE
