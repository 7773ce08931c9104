// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Where the tensors of variables are while a program runs on a device other than the CPU, and how they get back.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/program.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// A tensor in the memory of an executor's device.
template <class E>
using AnyOn = BasicAnyLoDTensor<typename E::device>;

/// Enqueues a copy to the device, into the memory that `to` has if that suffices. `from` may change once this has
/// returned.
template <Executor E>
void upload(const E& executor, const AnyLoDTensor& from, AnyOn<E>& to) {
  to = to.resized(from.data_type(), from.lod(), from.row_shape(), from.rows(), executor.resource());
  const auto bytes = from.bytes();
  if (!bytes.empty()) executor.resource()->upload(to.mutable_bytes().data(), bytes.data(), bytes.size());
}
/// Copies back to the CPU, once all enqueued work is done. Throws the errors that enqueued work has reported.
template <Executor E>
void download(const E& executor, const AnyOn<E>& from, AnyLoDTensor& to) {
  AnyLoDTensor next = to.resized(from.data_type(), from.lod(), from.row_shape(), from.rows(), Cpu::default_resource());
  const auto bytes = next.mutable_bytes();
  if (!bytes.empty()) executor.resource()->download(bytes.data(), from.bytes().data(), bytes.size());
  executor.rethrow_faults();
  to = std::move(next);
}

/// Moves the tensor of a variable to the device, or back to CPU memory. Does nothing if it is there already, or if the
/// variable holds no tensor.
template <Executor E>
void move_to(const E& executor, Variable& variable, bool is_on_cpu) {
  if (is_on_cpu && variable.holds<AnyOn<E>>()) {
    AnyLoDTensor moved;
    download(executor, variable.get<AnyOn<E>>(), moved);
    variable = Variable(std::move(moved));
  } else if (!is_on_cpu && variable.holds<AnyLoDTensor>()) {
    AnyOn<E> moved;
    upload(executor, variable.get<AnyLoDTensor>(), moved);
    variable = Variable(std::move(moved));
  }
}

/// Which operators of a block run on the CPU while the others run on a device, and which variables are in CPU memory:
/// those that an operator needs there, such as the learning rate, and everything that these are computed from. So no
/// operator waits for what a device computes.
class Placement {
 public:
  /// `on_cpu_of(type)` returns Operator::on_cpu: the parameters that an operator of this type needs in CPU memory.
  template <class F>
  Placement(const BlockDesc& block, const F& on_cpu_of) : ops_(block.ops.size()) {
    for (const OpDesc& op : block.ops) needs_.push_back(on_cpu_of(op.type));
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for_each_argument(block.ops[i], [&](const std::string& parameter, const std::string& name) {
        if (needs(i, parameter)) variables_.insert(name);
      });
    }
    for (bool has_grown = true; has_grown;) {
      has_grown = false;
      for (std::size_t i = ops_.size(); i-- > 0;) {
        if (!ops_[i] && writes_for_cpu(block.ops[i], i)) {
          ops_[i] = has_grown = true;
          for_each_argument(block.ops[i],
                            [&](const std::string&, const std::string& name) { variables_.insert(name); });
        }
      }
    }
  }

  /// Whether operator i runs on the CPU.
  bool runs_on_cpu(std::size_t i) const noexcept { return ops_[i]; }
  /// Whether the tensor of a variable is in CPU memory.
  bool is_on_cpu(const std::string& name) const noexcept { return variables_.contains(name); }
  /// Whether operator i itself needs the arguments of a parameter in CPU memory.
  bool needs(std::size_t i, std::string_view parameter) const noexcept {
    std::string_view all = needs_[i];
    while (!all.empty()) {
      const std::size_t end = std::min(all.find(' '), all.size());
      if (all.substr(0, end) == parameter) return true;
      all.remove_prefix(std::min(end + 1, all.size()));
    }
    return false;
  }

 private:
  template <class F>
  static void for_each_argument(const OpDesc& op, const F& f) {
    for (const auto* vars : {&op.inputs, &op.outputs}) {
      for (const OpDesc::Var& var : *vars) {
        for (const std::string& name : var.arguments) {
          if (!name.empty() && name != empty_variable_name) f(var.parameter, name);
        }
      }
    }
  }
  bool writes_for_cpu(const OpDesc& op, std::size_t i) const {
    return std::any_of(op.outputs.begin(), op.outputs.end(), [&](const OpDesc::Var& var) {
      return !needs(i, var.parameter) &&
             std::any_of(var.arguments.begin(), var.arguments.end(),
                         [&](const std::string& name) { return variables_.contains(name); });
    });
  }

  std::vector<bool> ops_;
  std::vector<std::string_view> needs_;
  std::set<std::string> variables_;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// Moves the tensors of a scope, such as the parameters that a program has trained on a GPU, back to CPU memory, where
/// `get<AnyLoDTensor>()` finds them. Inner scopes are left out. A program that runs on the GPU again moves them there
/// again. Waits for everything that is enqueued; throws what `CudaExecutor::synchronize` throws.
template <Executor E>
void move_to_cpu(const E& executor, Scope& scope) {
  for (const std::string& name : scope.local_names()) detail::move_to(executor, scope.var(name), true);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
