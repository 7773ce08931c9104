// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup structure
/// Calling a user's function for every sequence by several threads.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/core/thread_pool.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/supports.hpp>
#include <lod/ops/time_major.hpp>

#include <atomic>
#include <concepts>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

namespace lod::inline LOD_INTERFACE::op {
struct for_each_sequence : elements::Any {
  static constexpr Text text{
      "x, level, f",
      "Calls f(sequence, i) for each sequence of a level, on the memory of x; perhaps in several threads."};
};
struct map_sequences : elements::Any {
  static constexpr Text text{
      "x, f",
      "f(sequence) for each outermost sequence (or row, if there is no level), as a batch; f may "
      "be called in several threads."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, sequences, body): calls body(i) for each sequence, on all CPU threads that may be used; it must not
/// throw.
struct ForEachSequence {
  static constexpr bool in_headers_only = true;  ///< it calls a function of the caller's
};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

// A view through which a function may write if the argument permits it.
template <class T, class Device>
LoDTensorView<T, Device> open_view(LoDTensor<T, Device>& x) noexcept {
  return x.view();
}
template <class T, class Device>
auto open_view(const LoDTensor<T, Device>& x) noexcept {
  return x.view();
}
template <class T, class Device>
LoDTensorView<T, Device> open_view(const LoDTensorView<T, Device>& x) noexcept {
  return x;
}
template <class X>
using open_view_t = decltype(open_view(std::declval<X&>()));

/// The exception to throw when several threads fail: that of the first sequence, as if there were one thread. As long
/// as it exists, the thread that made it is not cancelled.
class FirstError {
 public:
  /// Calls f() for sequence i, unless an earlier one has failed.
  template <class F>
  void guard(std::int64_t i, const F& f) noexcept {
    if (i > sequence_.load(std::memory_order_relaxed)) return;
    try {
      f();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (i < sequence_.load(std::memory_order_relaxed)) {
        error_ = std::current_exception();
        sequence_.store(i, std::memory_order_relaxed);
      }
    }
  }
  bool any() const noexcept { return sequence_.load(std::memory_order_relaxed) != none; }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  detail::CancellationPutOff put_off_;
  std::mutex mutex_;
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::int64_t> sequence_ = none;
  std::exception_ptr error_;
};

/// f(sequence, i), or f(sequence) if f takes no number.
template <class F, class View>
decltype(auto) call_for_sequence(F& f, const View& sequence, std::int64_t i) {
  if constexpr (std::invocable<F&, const View&, std::int64_t>) {
    return f(sequence, i);
  } else {
    static_cast<void>(i);
    return f(sequence);
  }
}

/// Calls f(view, i) for the sequences of a level of a view; for its rows if it has no level.
template <Executor E, class View, class F>
void visit_sequences(const E& executor, const View& x, int level, const char* what, const F& f) {
  const int resolved = detail::resolve_level(level, x.levels() > 0 ? x.levels() : 1, what);
  const LoDView levels = levels_below(x.lod_view(), resolved - 1);
  const View sequences(x.data(), levels, &x.row_shape(), x.row_size());
  const OutermostSegments<E> parts(executor, levels);
  FirstError error;
  launch(kernel::ForEachSequence(), executor, parts.get(),
         [&](std::int64_t i) noexcept { error.guard(i, [&] { f(sequences.element(i), i); }); });
  error.rethrow();
}

/// Memory for the results of a function. The results are destroyed at the end; the memory is kept.
template <class Result>
class Results {
 public:
  Results(Workspace& workspace, std::int64_t size) : kept_(workspace) { kept_->resize(static_cast<std::size_t>(size)); }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results() { kept_->clear(); }
  std::vector<Result>& get() const noexcept { return *kept_; }

 private:
  Workspace::Kept<std::vector<Result>> kept_;
};

/// The result of a function for a sequence.
template <class F, class View>
using mapped_t =
    std::remove_cvref_t<decltype(call_for_sequence(std::declval<F&>(), std::declval<const View&>(), std::int64_t{}))>;

}  // namespace operation

/// Calls f(sequence) or f(sequence, i) for sequence i of `level` of x, each once: `sequence` is a view of its contents,
/// with the levels below. If x has no level, it is a view of row i. Several threads call f at a time, each for its own
/// sequences, so f may write to the rows of its sequence if x is not const. Work is shared out by rows, and two rows
/// suffice for a second thread.
///
/// For a tensor on a GPU, the views refer to its memory, and one CPU thread calls f for one sequence after the other: f
/// enqueues operations with the same executor; nothing waits unless f does.
///
/// If f throws, the exception for the first such sequence is passed on, and f may not have been called for later
/// sequences. A thread that is cancelled meanwhile (pthread_cancel) ends after the operation. Throws OutOfRange for the
/// level.
template <Executor E, class X, class F>
  requires LoDTensorLike<std::remove_cvref_t<X>>
void for_each_sequence(const E& executor, X&& x, int level, F&& f) {
  operation::visit_sequences(
      executor, operation::open_view(x), level, "for_each_sequence",
      [&](const auto& sequence, std::int64_t i) { operation::call_for_sequence(f, sequence, i); });
}
template <class X, class F>
  requires LoDTensorLike<std::remove_cvref_t<X>>
void for_each_sequence(X&& x, int level, F&& f) {
  for_each_sequence(default_executor<device_t<std::remove_cvref_t<X>>>(), x, level, f);
}

/// y[i] = f(x[i]): the results of f for each sequence of the outermost level (for each row, if x has no level), as a
/// batch. f receives a view and returns a tensor or a view, all with the same number of levels and the same row shape;
/// y has that row shape and one more level. f is called as by `for_each_sequence`, as f(sequence) or f(sequence, i). If
/// there is no sequence, f is called once with an empty one, as sequence 0, so that y has the row shape and the levels
/// of the results.
///
/// The results of f are kept until all of them are complete, then copied; a second call allocates nothing except what f
/// does. `y` must not overlap them. Throws what f throws, for the first sequence for which it does; InvalidLoD and
/// ShapeMismatch for results that differ in levels or row shape.
template <Executor E, LoDTensorLike X, class F, class Y>
void map_sequences_into(const E& executor, const X& x, F&& f, Y&& y) {
  using View = LoDTensorView<const value_type_t<X>, device_t<X>>;
  using Result = operation::mapped_t<F, View>;
  using ResultView = LoDTensorView<const value_type_t<Result>, device_t<Result>>;
  const View view = x.view();
  const operation::Results<Result> kept(executor.workspace(), view.size() > 0 ? view.size() : 1);
  std::vector<Result>& results = kept.get();
  operation::visit_sequences(executor, view, 0, "map_sequences", [&](const View& sequence, std::int64_t i) {
    results[static_cast<std::size_t>(i)] = operation::call_for_sequence(f, sequence, i);
  });
  if (view.size() == 0) {
    const LoDView none = view.levels() > 0 ? view.lod_view().between(0, 0).all_children() : view.lod_view();
    results[0] =
        operation::call_for_sequence(f, View(view.data(), none, &view.row_shape(), view.row_size()), std::int64_t{});
  }
  const ResultView first = results[0].view();
  const Workspace::Loan<ResultView> views(executor.workspace(), static_cast<std::int64_t>(results.size()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ResultView result = results[i].view();
    if (result.levels() != first.levels()) {
      throw InvalidLoD(detail::text({"map_sequences: the result for sequence ", i, " has ", result.levels(),
                                     " levels, expected ", first.levels(), " as the first has"}));
    }
    if (result.row_shape() != first.row_shape()) {
      throw ShapeMismatch(detail::text({"map_sequences: the result for sequence ", i, " has rows of shape ",
                                        to_string(result.row_shape()), ", expected ", to_string(first.row_shape()),
                                        " as the first has"}));
    }
    ::new (static_cast<void*>(&views[static_cast<std::int64_t>(i)])) ResultView(result);
  }
  const std::span<const ResultView> sources = views.span();
  operation::Runs runs(executor.workspace(), sources, 0, view.size());
  for (std::int64_t i = 0; i < view.size(); ++i) runs.add(i, 0, views[i].size());
  operation::NewLevels levels(executor.workspace(), first.levels() + 1, view.size() + runs.sequences("map_sequences"));
  const auto lengths = levels.add(view.size());
  for (std::int64_t i = 0; i < view.size(); ++i) {
    lengths[static_cast<std::size_t>(i) + 1] = lengths[static_cast<std::size_t>(i)] + views[i].size();
  }
  runs.descend(levels);
  operation::check_apart_from_all("map_sequences", y, sources, "what the function gave for sequence ");
  const auto out =
      operation::prepare<value_type_t<Result>>(executor, "map_sequences", y, levels, first.row_shape(), {{"x", view}});
  runs.copy(executor, sources, first.row_size(), out.data());
}
template <Executor E, LoDTensorLike X, class F>
[[nodiscard]] auto map_sequences(const E& executor, const X& x, F&& f) {
  using Result = operation::mapped_t<F, LoDTensorView<const value_type_t<X>, device_t<X>>>;
  LoDTensor<value_type_t<Result>, device_t<Result>> y(executor.resource());
  map_sequences_into(executor, x, f, y);
  return y;
}
template <LoDTensorLike X, class F>
[[nodiscard]] auto map_sequences(const X& x, F&& f) {
  return map_sequences(default_executor<device_t<X>>(), x, f);
}

/// The result of `map_sequences`, described, if `result` describes the results of f: see <lod/infer.hpp>.
inline LoDTensorDesc infer_map_sequences(const LoDTensorDesc& x, const LoDTensorDesc& result) {
  const infer::Batch sequences(x, "map_sequences");
  infer::Batch y(result, "map_sequences: the results");
  y.rows = infer::unknown;
  ++y.levels;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
