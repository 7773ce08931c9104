// SPDX-License-Identifier: Apache-2.0
/// @file
/// A primitive of oneDNN that is run repeatedly, on tensors in this library's layouts.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/dnnl/engine.hpp>
#include <lod/kernels/cpu/team.hpp>
#include <lod/program/operators/windows.hpp>

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_by_dnnl {

/// Whether there is something to compute, and all sizes fit the 32 bits that oneDNN has for some of them.
inline bool is_ordinary(const Shape& shape) noexcept {
  return shape.elements() > 0 && shape.elements() < (std::int64_t{1} << 30);
}
inline bool is_ordinary(const operators_of_programs::WindowsAlongSide& side) noexcept {
  return std::max({side.stride, side.dilation * side.window, side.before, side.after}) < (std::int64_t{1} << 20);
}

/// Whether all tensors have elements of float, the only type that oneDNN is used for.
inline bool are_floats(std::initializer_list<const AnyLoDTensor*> tensors) noexcept {
  return std::ranges::all_of(tensors, [](const AnyLoDTensor* one) { return one->data_type() == DataType::FP32; });
}

/// A layout of floats in the given order; without an order, oneDNN chooses the one that suits the primitive best.
inline Layout layout(const dnnl::memory::dims& dims, dnnl::memory::format_tag order = dnnl::memory::format_tag::any) {
  return {dims, dnnl::memory::data_type::f32, order};
}

/// A primitive, its arguments, and the reorders between this library's layouts and those that the primitive requires.
class Computation {
 public:
  /// The primitive of a description by `describe`.
  template <class Descriptor>
  explicit Computation(const Descriptor& of)
      : stream_(engine()), main_(of), scratchpad_(of.scratchpad_desc(), engine(), nullptr) {
    arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratchpad_.get()});
    needs(scratchpad_bytes_, of.scratchpad_desc());
  }

  /// Adds an argument, with its layout here and the one that the primitive requires.
  void add(int name, const Layout& here, const Layout& asked, bool is_output = false) {
    Argument made{.is_output = is_output, .here = dnnl::memory(here, engine(), nullptr)};
    if (here != asked) {
      made.there = dnnl::memory(asked, engine(), nullptr);
      made.place = copies_bytes_;
      needs(copies_bytes_, asked);
      dnnl::primitive_attr attributes;
      attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      const auto& [from, to] = is_output ? std::pair(asked, here) : std::pair(here, asked);
      const dnnl::reorder::primitive_desc reorder(engine(), from, engine(), to, attributes);
      made.reorder = dnnl::reorder(reorder);
      made.scratchpad = dnnl::memory(reorder.scratchpad_desc(), engine(), nullptr);
      std::int64_t bytes = 0;
      needs(bytes, reorder.scratchpad_desc());
      scratchpad_bytes_ = std::max(scratchpad_bytes_, bytes);
    }
    arguments_.push_back({name, made.there ? made.there.get() : made.here.get()});
    added_.push_back(std::move(made));
  }
  /// The same for an argument that the primitive writes.
  void add_output(int name, const Layout& here, const Layout& asked) { add(name, here, asked, true); }

  /// Runs the primitive; `numbers` are the addresses of the arguments, in the order in which they were added. Allocates
  /// nothing but scratch memory.
  void run(const CpuExecutor& executor, std::initializer_list<const void*> numbers) const {
    const Team team(kernel::cpu::team_size(executor.threads()));
    const Workspace::Loan<std::byte> memory(executor.workspace(), copies_bytes_ + scratchpad_bytes_);
    std::byte* const scratchpad = memory.data() + copies_bytes_;
    set(scratchpad_, scratchpad);
    const auto* one = numbers.begin();
    for (const Argument& argument : added_) {
      set(argument.here, const_cast<void*>(*one++));
      if (!argument.there) continue;
      set(argument.there, memory.data() + argument.place);
      set(argument.scratchpad, scratchpad);
      if (!argument.is_output) reorder(argument, argument.here, argument.there);
    }
    execute(main_, arguments_);
    for (const Argument& argument : added_) {
      if (argument.there && argument.is_output) reorder(argument, argument.there, argument.here);
    }
  }

 private:
  struct Argument {
    bool is_output;
    dnnl::memory here;
    dnnl::memory there = {};  ///< its copy in another layout; empty if it needs none
    dnnl::reorder reorder = {};
    dnnl::memory scratchpad = {};
    std::int64_t place = 0;  ///< the position of the copy in scratch memory
  };

  /// Adds the bytes of a layout, rounded up to whole cache lines.
  static void needs(std::int64_t& bytes, const Layout& of) {
    bytes += static_cast<std::int64_t>((of.get_size() + 63) / 64 * 64);
  }
  // oneDNN's C functions, since its C++ functions allocate in each call.
  static void set(const dnnl::memory& memory, void* numbers) {
    dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(memory.get(), numbers), "a memory of oneDNN has no place");
  }
  template <class Arguments>
  void execute(const dnnl::primitive& primitive, const Arguments& arguments) const {
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.get(), stream_.get(), static_cast<int>(arguments.size()), arguments.data()),
        "a primitive of oneDNN does not run");
  }
  void reorder(const Argument& argument, const dnnl::memory& from, const dnnl::memory& to) const {
    execute(argument.reorder, std::array<dnnl_exec_arg_t, 3>{{{DNNL_ARG_FROM, from.get()},
                                                              {DNNL_ARG_TO, to.get()},
                                                              {DNNL_ARG_SCRATCHPAD, argument.scratchpad.get()}}});
  }

  dnnl::stream stream_;
  dnnl::primitive main_;
  dnnl::memory scratchpad_;
  std::vector<Argument> added_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::int64_t scratchpad_bytes_ = 0;
  std::int64_t copies_bytes_ = 0;
};

/// What was made for the shapes of the last run, which are mostly those of the next one. For other shapes oneDNN itself
/// keeps the code that it generated.
template <class Made, std::size_t count>
class MadeForShapes {
 public:
  /// The object of the last run, or, if shapes or threads have changed, what make() returns, a std::optional<Made>.
  /// Null if that is empty, or if oneDNN has no such primitive.
  template <class Make>
  const Made* find(const CpuExecutor& executor, const std::array<Shape, count>& shapes, const Make& make) {
    const int threads = kernel::cpu::team_size(executor.threads());
    if (threads != threads_ || shapes != shapes_) {
      threads_ = 0;  // in case this throws
      try {
        const Team team(threads);
        made_ = make();
      } catch (const dnnl::error& error) {
        if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
        made_.reset();
      }
      shapes_ = shapes;
      threads_ = threads;
    }
    return made_ ? &*made_ : nullptr;
  }

 private:
  std::array<Shape, count> shapes_;
  int threads_ = 0;
  std::optional<Made> made_;
};

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_by_dnnl
