// SPDX-License-Identifier: Apache-2.0
/// @file
/// The primitives of oneDNN that products of matrices are made of: the product of a block of rows, and the packing of a
/// block of weights for it. They work on the calling thread alone; an executor keeps them for its next operations.
#pragma once

#include <lod/core/target.hpp>
#include <lod/dnnl/engine.hpp>

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::by_dnnl {

using Layout = operators_by_dnnl::Layout;
using operators_by_dnnl::engine;
using operators_by_dnnl::Team;

/// Throws unless a function of oneDNN has done its work.
inline void check(dnnl_status_t status) {
  if (status == dnnl_success) return;
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  throw std::runtime_error("a product by oneDNN does not run");
}

/// A primitive with two or three arguments, and the objects with which each thread runs it.
class Primitive {
 public:
  /// `arguments` are the names of arguments and their layouts.
  Primitive(const dnnl::primitive& made, const Layout& scratchpad, std::vector<std::pair<int, Layout>> arguments)
      : primitive_(made), arguments_(std::move(arguments)), scratchpad_(scratchpad) {
    arguments_.emplace_back(DNNL_ARG_SCRATCHPAD, scratchpad_);
  }

  /// Makes what so many threads need.
  void prepare(int threads) {
    while (static_cast<int>(threads_.size()) < threads) {
      Thread thread{dnnl::stream(engine()), {}, {}};
      for (const auto& [name, layout] : arguments_) {
        thread.memories.emplace_back(layout, engine(), nullptr);
        thread.arguments.push_back({name, thread.memories.back().get()});
      }
      threads_.push_back(std::move(thread));
    }
  }
  std::int64_t scratchpad_bytes() const { return static_cast<std::int64_t>(scratchpad_.get_size()); }

  /// Runs it. The addresses are those of the arguments, in their order, and of the scratch memory. The calling thread
  /// is the only one with this number, and a `Team` of one exists. oneDNN itself takes and returns some memory.
  template <std::size_t count>
  void run(int thread, const std::array<const void*, count>& addresses) const {
    const Thread& own = threads_[static_cast<std::size_t>(thread)];
    // The C functions, since those of C++ allocate more.
    for (std::size_t i = 0; i < count; ++i) {
      check(dnnl_memory_set_data_handle(own.memories[i].get(), const_cast<void*>(addresses[i])));
    }
    check(dnnl_primitive_execute(primitive_.get(), own.stream.get(), static_cast<int>(own.arguments.size()),
                                 own.arguments.data()));
  }

 private:
  struct Thread {
    dnnl::stream stream;
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
  };

  dnnl::primitive primitive_;
  std::vector<std::pair<int, Layout>> arguments_;
  Layout scratchpad_;
  std::vector<Thread> threads_;
};

/// What becomes of the sums of a block.
enum class Into { BFLOAT16, ADDED_TO_BFLOAT16, FLOAT, INT32 };

/// What tells products of blocks from each other: rows x terms numbers, rows one after the other, times terms x columns
/// packed ones. Numbers are of int8 for INT32, otherwise of bfloat16.
struct BlockShape {
  std::int64_t rows;
  std::int64_t terms;
  std::int64_t columns;
  Into into;
  bool operator==(const BlockShape&) const = default;
};
/// The same for packings: of numbers whose rows and columns are so far apart.
struct PackingShape {
  std::int64_t terms;
  std::int64_t columns;
  std::int64_t row_stride;
  std::int64_t column_stride;
  bool of_int8;
  bool operator==(const PackingShape&) const = default;
};

inline dnnl::primitive_attr attributes(Into into = Into::FLOAT) {
  dnnl::primitive_attr made;
  made.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (into == Into::ADDED_TO_BFLOAT16) {
    dnnl::post_ops sum;
    sum.append_sum(1);
    made.set_post_ops(sum);
  }
  return made;
}

/// The product of a block.
class BlockProduct {
 public:
  /// Throws dnnl::error if oneDNN has none.
  explicit BlockProduct(const BlockShape& shape) {
    using Type = dnnl::memory::data_type;
    using Order = dnnl::memory::format_tag;
    const bool of_int8 = shape.into == Into::INT32;
    const Type type = of_int8 ? Type::s8 : Type::bf16;
    const Type type_of_sums = of_int8 ? Type::s32 : shape.into == Into::FLOAT ? Type::f32 : Type::bf16;
    const Layout rows({shape.rows, shape.terms}, type, Order::ab),
        any_weights({shape.terms, shape.columns}, type, Order::any),
        sums({shape.rows, shape.columns}, type_of_sums, Order::ab);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc of(engine(), rows, any_weights, sums, attributes(shape.into));
#else
    const dnnl::matmul::primitive_desc of(dnnl::matmul::desc(rows, any_weights, sums), attributes(shape.into),
                                          engine());
#endif
    // The sums of a row consist of the same additions in every block: those of other implementations need not.
    is_by_blocks_ = std::strncmp(of.impl_info_str(), "brg", 3) == 0;
    weights_ = of.weights_desc();
    primitive_.emplace(
        dnnl::matmul(of), of.scratchpad_desc(),
        std::vector<std::pair<int, Layout>>{{DNNL_ARG_SRC, rows}, {DNNL_ARG_WEIGHTS, weights_}, {DNNL_ARG_DST, sums}});
  }

  /// Whether oneDNN's implementation is the one whose sums depend on their row and column alone.
  bool is_by_blocks() const noexcept { return is_by_blocks_; }
  /// The layout of packed weights.
  const Layout& weights() const noexcept { return weights_; }
  Primitive& primitive() noexcept { return *primitive_; }

 private:
  bool is_by_blocks_;
  Layout weights_;
  std::optional<Primitive> primitive_;
};

/// The packing of weights into a layout.
class Packing {
 public:
  /// Throws dnnl::error if oneDNN has none.
  Packing(const PackingShape& shape, const Layout& to)
      : from_({shape.terms, shape.columns}, shape.of_int8 ? dnnl::memory::data_type::s8 : dnnl::memory::data_type::bf16,
              dnnl::memory::dims{shape.row_stride, shape.column_stride}),
        primitive_(made(dnnl::reorder::primitive_desc(engine(), from_, engine(), to, attributes()), from_, to)) {}
  Primitive& primitive() noexcept { return primitive_; }

 private:
  static Primitive made(const dnnl::reorder::primitive_desc& of, const Layout& from, const Layout& to) {
    return {dnnl::reorder(of), of.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
  }

  Layout from_;
  Primitive primitive_;
};

/// What an executor keeps of primitives: those of the last shapes.
class Primitives {
  /// So many of each kind; a product of matrices has eight at most.
  static constexpr std::size_t most = 64;

  template <class Shape, class Made>
  struct Found {
    Shape shape;
    std::unique_ptr<Made> made;  // null if oneDNN has none
  };
  /// The one that was made for a shape; those found last come last.
  template <class Shape, class Made, class... Arguments>
  static Made* find(std::vector<Found<Shape, Made>>& all, int threads, const Shape& shape,
                    const Arguments&... arguments) {
    try {
      const Team team(1);
      auto found = std::ranges::find(all, shape, &Found<Shape, Made>::shape);
      if (found != all.end()) {
        std::rotate(found, found + 1, all.end());
      } else {
        if (all.size() == most) all.erase(all.begin());
        all.reserve(most);
        all.push_back({shape, nullptr});
        all.back().made = std::make_unique<Made>(shape, arguments...);
      }
      Made* const made = all.back().made.get();
      if (made) made->primitive().prepare(threads);
      return made;
    } catch (const dnnl::error& error) {
      if (error.status == dnnl_out_of_memory) {
        all.clear();
        throw std::bad_alloc();
      }
      return nullptr;
    } catch (...) {
      all.clear();
      throw;
    }
  }

 public:
  /// The product of blocks of a shape, for so many threads. Null if there is none whose sums depend on their row and
  /// column alone.
  BlockProduct* product(int threads, const BlockShape& shape) {
    BlockProduct* const made = find(products_, threads, shape);
    return made && made->is_by_blocks() ? made : nullptr;
  }
  /// The packing for a product. Null if there is none.
  Packing* packing(int threads, const PackingShape& shape, const BlockProduct& product) {
    return find(packings_, threads, shape, product.weights());
  }

 private:
  std::vector<Found<BlockShape, BlockProduct>> products_;
  std::vector<Found<PackingShape, Packing>> packings_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::by_dnnl
