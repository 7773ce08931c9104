// SPDX-License-Identifier: Apache-2.0
/// @file
/// A primitive of oneDNN that is run again and again, on tensors of this library's layouts.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/floating_point_control.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
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
#include <tuple>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail {

/// Made at first use and never destroyed: primitives, of which oneDNN keeps some itself, refer to it.
inline const dnnl::engine* dnnl_engine = nullptr;

}  // namespace lod::inline LOD_INTERFACE::detail

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_by_dnnl {

/// The CPU, as oneDNN calls it.
inline const dnnl::engine& engine() {
  const dnnl::engine* made = __atomic_load_n(&detail::dnnl_engine, __ATOMIC_ACQUIRE);
  if (made) return *made;
  const auto* const mine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  if (__atomic_compare_exchange_n(&detail::dnnl_engine, &made, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return *mine;
  delete mine;
  return *made;
}

/// How the numbers of an argument lie in memory.
using Layout = dnnl::memory::desc;

/// Whether sizes fit the 32 bits that oneDNN has for some of them, and there is something to compute.
inline bool is_ordinary(const Shape& shape) noexcept {
  return shape.elements() > 0 && shape.elements() < (std::int64_t{1} << 30);
}
inline bool is_ordinary(const operators_of_programs::WindowsAlongSide& side) noexcept {
  return std::max({side.stride, side.dilation * side.window, side.before, side.after}) < (std::int64_t{1} << 20);
}

/// Whether all of them are of the type that oneDNN is asked about.
inline bool are_floats(std::initializer_list<const AnyLoDTensor*> tensors) noexcept {
  return std::ranges::all_of(tensors, [](const AnyLoDTensor* one) { return one->data_type() == DataType::FP32; });
}

/// Numbers of float in an order of oneDNN's; without one, in that which suits a primitive best.
inline Layout layout(const dnnl::memory::dims& dims, dnnl::memory::format_tag order = dnnl::memory::format_tag::any) {
  return {dims, dnnl::memory::data_type::f32, order};
}

#ifdef __linux__
/// The runtime's omp_get_max_threads and omp_set_num_threads, null in a program without OpenMP: not through <omp.h>, so
/// that they are the same for files that are compiled without it.
extern "C" [[gnu::weak]] int lod_omp_get_max_threads() __asm__("omp_get_max_threads");
extern "C" [[gnu::weak]] void lod_omp_set_num_threads(int) __asm__("omp_set_num_threads");
#endif

/// While it exists, oneDNN works for the calling thread with so many threads, and with the standard control word.
class Team {
 public:
  /// Of 1 or more.
  explicit Team([[maybe_unused]] int threads) {
#ifdef __linux__
    if (!lod_omp_get_max_threads || !lod_omp_set_num_threads) return;
    before_ = lod_omp_get_max_threads();
    lod_omp_set_num_threads(threads);
#endif
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
#ifdef __linux__
    if (before_ > 0) lod_omp_set_num_threads(before_);
#endif
  }

 private:
  int before_ = 0;
  detail::FloatingPointControl control_;
};

/// The description of a primitive of the type P, whose scratch memory is this library's. `forward` is that of the
/// primitive whose gradient it is, if it is one.
template <class P, class... Forward, class... Arguments>
typename P::primitive_desc describe(const std::tuple<Arguments...>& arguments, const Forward&... forward) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return std::apply(
      [&](const Arguments&... all) {
#if DNNL_VERSION_MAJOR >= 3
        return typename P::primitive_desc(engine(), all..., forward..., attributes);
#else
        return typename P::primitive_desc(typename P::desc(all...), attributes, engine(), forward...);
#endif
      },
      arguments);
}

/// A primitive, its arguments, and the reorders between their layouts here and those that it asks for.
class Computation {
 public:
  /// Of a description by `describe`.
  template <class Descriptor>
  explicit Computation(const Descriptor& of)
      : stream_(engine()), main_(of), scratchpad_(of.scratchpad_desc(), engine(), nullptr) {
    arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratchpad_.get()});
    needs(scratchpad_bytes_, of.scratchpad_desc());
  }

  /// An argument, with its layout here and the one that the primitive asks for.
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
  /// The same of one that it writes.
  void add_output(int name, const Layout& here, const Layout& asked) { add(name, here, asked, true); }

  /// Runs it on numbers for each argument, in the order in which they were added. Allocates nothing but scratch memory.
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
    dnnl::memory there = {};  ///< where its copy in another layout is; nothing if it needs none
    dnnl::reorder reorder = {};
    dnnl::memory scratchpad = {};
    std::int64_t place = 0;  ///< of the copy in the scratch memory
  };

  /// Adds the bytes of a layout, in whole cache lines.
  static void needs(std::int64_t& bytes, const Layout& of) {
    bytes += static_cast<std::int64_t>((of.get_size() + 63) / 64 * 64);
  }
  // The functions of oneDNN for C, as those for C++ allocate in each call.
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

/// What has been made for the shapes of the last run, which are mostly those of the next one. oneDNN itself keeps the
/// code that it has generated for others.
template <class Made, std::size_t count>
class MadeForShapes {
 public:
  /// The same again, or what make() returns where shapes or threads have changed: a std::optional<Made>. Nothing if
  /// that is nothing, or if oneDNN has no such primitive.
  template <class Make>
  const Made* find(const CpuExecutor& executor, const std::array<Shape, count>& shapes, const Make& make) {
    const int threads = kernel::cpu::team_size(executor.threads());
    if (threads != threads_ || shapes != shapes_) {
      threads_ = 0;  // should this throw
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
