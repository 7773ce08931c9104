// SPDX-License-Identifier: Apache-2.0
/// @file
/// Attention of float16 and bfloat16 on GPUs, by cuDNN where it can do the call, otherwise by the kernel in bulk.
///
/// cuDNN reads and writes the rows where they are: it is told where each sequence begins, and how long it is. It sees
/// no row that a mask hides everything from, since it is not said what happens to these, and no sequence that has such
/// rows only: they are left out at the beginning of their sequence, where all of them are, and written by a kernel of
/// our own.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/path_scores.hpp>
#include <lod/kernels/bulk/sequence_attention.hpp>
#include <lod/kernels/cuda/attention_plans.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/sequence_attention.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::dnn {

/// The rows at the beginning of a sequence of q that see no row of k. Those that see none are always there: places are
/// counted from the end, so that the last row sees the last row.
LOD_HOST_DEVICE inline std::int64_t blind_rows(const AttentionHeads& heads, std::int64_t queries, std::int64_t keys) {
  if (keys == 0) return queries;
  if (heads.after < 0) return 0;
  const std::int64_t blind = queries - keys - heads.after;
  return blind < 0 ? 0 : blind > queries ? queries : blind;
}

/// Where sequences begin and how long they are, as cuDNN is told: an array each in one block of memory.
struct AttentionIndex {
  std::int64_t sequences;  ///< more than there are: the rest are empty
  std::int64_t* offsets;   ///< of q, k, v, y and logsumexp, `sequences` + 1 each; then the lengths of q and of k

  static std::int64_t bytes(std::int64_t sequences) noexcept {
    return 5 * (sequences + 1) * std::int64_t{sizeof(std::int64_t)} +
           2 * sequences * std::int64_t{sizeof(std::int32_t)};
  }
  LOD_HOST_DEVICE std::int64_t* of(int array) const noexcept { return offsets + array * (sequences + 1); }
  LOD_HOST_DEVICE std::int32_t* lengths(int array) const noexcept {
    return reinterpret_cast<std::int32_t*>(of(5)) + array * sequences;
  }
};
/// The sequences of more than so many rows, and of at most so many. Each has a place: its number, or, where there can
/// only be few of them, that of the last multiple of `more_than` rows that is not after its beginning. No two share it.
struct AttentionTier {
  std::int64_t more_than, most;

  std::int64_t places(const Segments& sequences) const noexcept {
    return more_than == 0 ? sequences.size : sequences.rows() / more_than;
  }
  /// The sequence that is at a place, if any is: where it is not its number, that which holds the first row after those
  /// of the place. sequences.size if there is none.
  LOD_HOST_DEVICE std::int64_t at(const Segments& sequences, std::int64_t place) const {
    if (more_than == 0) return place;
    const std::int64_t row = (place + 1) * more_than;
    return row < sequences.rows() ? bulk::sequence_of(sequences, row) : sequences.size;
  }
  LOD_HOST_DEVICE bool has(std::int64_t length) const noexcept { return length > more_than && length <= most; }
  /// Whether a sequence that begins at a row begins before a place, or after it.
  LOD_HOST_DEVICE bool is_before(std::int64_t begin, std::int64_t place) const noexcept {
    return begin < place * more_than;
  }
  LOD_HOST_DEVICE bool is_after(std::int64_t begin, std::int64_t place) const noexcept {
    return more_than > 0 && begin >= (place + 1) * more_than;
  }
};
/// Writes the offsets of the sequence of a place, and its lengths.
struct WriteAttentionIndex {
  AttentionHeads heads;
  Segments queries, keys;
  AttentionTier tier;
  AttentionIndex index;

  LOD_HOST_DEVICE void operator()(std::int64_t place) const {
    const std::int64_t i = tier.at(queries, place);
    std::int64_t query = queries.rows(), key = keys.rows(), query_count = 0, key_count = 0;
    if (i < queries.size) {
      query_count = queries.length(i);
      key_count = keys.length(i);
      const std::int64_t blind = blind_rows(heads, query_count, key_count);
      const std::int64_t begin = queries.begin(i);
      const bool is_before = tier.is_before(begin, place), is_after = tier.is_after(begin, place);
      const bool is_left_out =
          is_before || is_after || !tier.has(query_count) || query_count == blind || key_count == 0;
      // Offsets never fall: one that began before is over when the next one begins.
      query = begin + (is_before ? query_count : blind);
      key = keys.begin(i) + (is_before ? key_count : 0);
      query_count = is_left_out ? 0 : query_count - blind;
      key_count = is_left_out ? 0 : key_count;
    }
    index.of(0)[place] = query * heads.heads * heads.size;
    index.of(1)[place] = key * heads.kv_heads * heads.size;
    index.of(2)[place] = key * heads.kv_heads * heads.value_size;
    index.of(3)[place] = query * heads.heads * heads.value_size;
    index.of(4)[place] = query * heads.heads;
    if (place == index.sequences) return;
    index.lengths(0)[place] = static_cast<std::int32_t>(query_count);
    index.lengths(1)[place] = static_cast<std::int32_t>(key_count);
  }
};
/// Writes y and logsumexp of a row of q, if it sees nothing.
template <class T>
struct WriteBlindRow {
  AttentionHeads heads;
  Segments queries, keys;
  T* y;
  float* logsumexp;

  LOD_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t i = bulk::sequence_of(queries, row);
    if (row - queries.begin(i) >= blind_rows(heads, queries.length(i), keys.length(i))) return;
    const std::int64_t count = heads.heads * heads.value_size;
    for (std::int64_t c = 0; c < count; ++c) y[row * count + c] = T{};
    for (std::int64_t h = 0; h < heads.heads; ++h) logsumexp[row * heads.heads + h] = bulk::no_path<float>;
  }
};
/// Writes the gradients of a row that sees nothing, and of one that nothing sees: of q first, then of k.
template <class T>
struct WriteBlindGradients {
  AttentionHeads heads;
  Segments queries, keys;
  T *dq, *dk, *dv;

  LOD_HOST_DEVICE static void clear(T* to, std::int64_t row, std::int64_t count) {
    for (std::int64_t c = 0; c < count; ++c) to[row * count + c] = T{};
  }
  LOD_HOST_DEVICE void operator()(std::int64_t place) const {
    if (place < queries.rows()) {
      const std::int64_t i = bulk::sequence_of(queries, place);
      if (place - queries.begin(i) >= blind_rows(heads, queries.length(i), keys.length(i))) return;
      return clear(dq, place, heads.heads * heads.size);
    }
    const std::int64_t row = place - queries.rows(), i = bulk::sequence_of(keys, row);
    const AttentionRange seen = heads.queries_of(row - keys.begin(i), queries.length(i), keys.length(i));
    if (seen.begin < seen.end) return;
    clear(dk, row, heads.kv_heads * heads.size);
    clear(dv, row, heads.kv_heads * heads.value_size);
  }
};

/// At least `rows`, by an eighth more at most where they are many: batches whose longest sequences differ a little have
/// the same plan.
inline std::int64_t rounded_rows(std::int64_t rows) noexcept {
  const auto next = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
  const std::int64_t step = std::max<std::int64_t>(64, next / 8);
  return (rows + step - 1) / step * step;
}

/// A call, cut into calls of cuDNN's with the same plan: one after the other, they need less memory.
template <class T>
class AttentionCalls {
 public:
  AttentionCalls(const CudaExecutor& executor, const AttentionHeads& heads, const AttentionRows<T>& rows,
                 bool gradient) noexcept
      : executor_(executor), heads_(heads), rows_(rows), gradient_(gradient) {}

  /// Whether cuDNN is asked at all: what it has no equal for, and what is not worth a plan, it is not.
  bool suits(std::initializer_list<const void*> arrays) const noexcept {
    constexpr std::int64_t most_rows = std::int64_t{1} << 24, most_heads = 1 << 12;
    const Segments &queries = rows_.queries, &keys = rows_.keys;
    if (heads_.softcap > 0 || rows_.alibi != nullptr) return false;
    if (queries.rows() == 0 || keys.rows() == 0 || queries.max_rows == 0 || keys.max_rows == 0) return false;
    if (queries.max_rows > most_rows || keys.max_rows > most_rows || heads_.heads > most_heads) return false;
    for (const std::int64_t size : {heads_.size, heads_.value_size}) {
      if (size == 0 || size % 8 != 0 || size > 256) return false;
    }
    for (const void* array : arrays) {
      if (reinterpret_cast<std::uintptr_t>(array) % 16 != 0) return false;
    }
    return true;
  }
  /// Finds plans, and memory for them; false if there are none.
  bool prepare() {
    const Segments &queries = rows_.queries, &keys = rows_.keys;
    // Bounds that hide nothing are none.
    const auto bound = [](std::int64_t of, std::int64_t rows) { return of < rows ? of : -1; };
    std::int64_t index_bytes = 0, workspace_bytes = 0;
    choose_tiers();
    for (Tier& tier : tiers_) {
      const std::int64_t most_queries = std::min(tier.rows.most, queries.max_rows);
      const std::int64_t most_keys = std::min(tier.rows.most, keys.max_rows);
      const std::int64_t places = tier.rows.places(queries);
      detail::AttentionShape shape{gradient_,
                                   std::same_as<T, bfloat16>,
                                   heads_.heads,
                                   heads_.kv_heads,
                                   heads_.size,
                                   heads_.value_size,
                                   bound(heads_.before, most_keys),
                                   bound(heads_.after, most_queries),
                                   0,
                                   rounded_rows(most_queries),
                                   rounded_rows(most_keys),
                                   heads_.scale};
      shape.sequences = sequences_at_a_time(shape, places);
      if (shape.sequences == 0) return false;
      tier.plan = executor_.companion<detail::AttentionPlans>().find(executor_, shape);
      if (!tier.plan) return false;
      tier.at_a_time = shape.sequences;
      tier.index.sequences = (places + shape.sequences - 1) / shape.sequences * shape.sequences;
      index_bytes += AttentionIndex::bytes(tier.index.sequences);
      workspace_bytes = std::max(workspace_bytes, tier.plan->workspace_bytes());
    }
    try {
      index_memory_.emplace(executor_.scratch(), index_bytes);
      if (workspace_bytes > 0) {
        workspace_.emplace(executor_.scratch(), workspace_bytes + detail::AttentionPlan::workspace_alignment);
      }
    } catch (const CudaError&) {  // the kernel in bulk needs less memory
      return false;
    }
    std::byte* memory = index_memory_->data();
    for (Tier& tier : tiers_) {
      tier.index.offsets = reinterpret_cast<std::int64_t*>(memory);
      memory += AttentionIndex::bytes(tier.index.sequences);
    }
    return true;
  }
  void run(detail::AttentionArrays arrays) {
    arrays.q = rows_.q;
    arrays.k = rows_.k;
    arrays.v = rows_.v;
    for (const Tier& tier : tiers_) {
      const AttentionIndex& index = tier.index;
      bulk::for_each(executor_, index.sequences + 1,
                     WriteAttentionIndex{heads_, rows_.queries, rows_.keys, tier.rows, index});
      for (std::int64_t first = 0; first < index.sequences; first += tier.at_a_time) {
        arrays.q_offsets = index.of(0) + first;
        arrays.k_offsets = index.of(1) + first;
        arrays.v_offsets = index.of(2) + first;
        arrays.y_offsets = index.of(3) + first;
        arrays.logsumexp_offsets = index.of(4) + first;
        arrays.q_lengths = index.lengths(0) + first;
        arrays.k_lengths = index.lengths(1) + first;
        tier.plan->run(executor_, arrays, workspace());
      }
    }
  }
  /// Whether there may be rows that see nothing, or that nothing sees.
  bool may_be_blind() const noexcept { return rows_.queries.offsets != rows_.keys.offsets; }

 private:
  struct Tier {
    AttentionTier rows;
    std::shared_ptr<detail::AttentionPlan> plan = nullptr;
    std::int64_t at_a_time = 0;
    AttentionIndex index = {};
  };
  class Tiers {
   public:
    void add(const AttentionTier& rows) { all_[count_++].rows = rows; }
    Tier* begin() noexcept { return all_.data(); }
    Tier* end() noexcept { return all_.data() + count_; }
    const Tier* begin() const noexcept { return all_.data(); }
    const Tier* end() const noexcept { return all_.data() + count_; }

   private:
    std::array<Tier, 3> all_{};
    std::size_t count_ = 0;
  };
  /// cuDNN goes through as many blocks of rows of each sequence as the longest has. Where that is much more than there
  /// are, sequences are computed in tiers, of which each has a call of its own.
  void choose_tiers() {
    constexpr std::int64_t block = 128, short_rows = 128, medium_rows = 1024;
    const Segments& queries = rows_.queries;
    const std::int64_t longest = std::max(queries.max_rows, rows_.keys.max_rows);
    tiers_ = {};
    tiers_.add({0, longest});
    if (longest <= short_rows || may_be_blind()) return;
    Tiers several;
    std::int64_t more_than = 0;
    for (const std::int64_t most : {short_rows, std::min(medium_rows, longest), longest}) {
      if (most > more_than) several.add({more_than, most});
      more_than = most;
    }
    const auto blocks = [&](const Tiers& tiers) {
      std::int64_t sum = 0;
      for (const Tier& tier : tiers) sum += tier.rows.places(queries) * (tier.rows.most / block + 1);
      return sum;
    };
    if (blocks(several) < blocks(tiers_) / 2) tiers_ = several;
  }
  /// For the gradient cuDNN stores two bytes for each pair of places and head, to add them up in the same order each
  /// time: as many sequences at a time as these bytes allow. 0: not even one.
  std::int64_t sequences_at_a_time(const detail::AttentionShape& shape, std::int64_t places) const noexcept {
    constexpr std::int64_t most_bytes = std::int64_t{1} << 30, most_bytes_of_one = std::int64_t{8} << 30;
    constexpr std::int64_t most_blocks = 1 << 15, most_calls = 1024;
    const auto down = [](std::int64_t count) {
      return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 1))));
    };
    const auto all = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(places)));
    std::int64_t count = std::min(all, down(most_blocks / heads_.heads));
    if (gradient_) {
      const std::int64_t pairs = lod::detail::saturated_product(shape.most_queries, shape.most_keys);
      const std::int64_t bytes = lod::detail::saturated_product(pairs, 2 * heads_.heads);
      if (bytes > most_bytes_of_one) return 0;
      count = std::min(count, down(most_bytes / bytes));
    }
    return all / count > most_calls ? 0 : count;
  }
  void* workspace() const noexcept {
    if (!workspace_) return nullptr;
    constexpr auto boundary = static_cast<std::uintptr_t>(detail::AttentionPlan::workspace_alignment);
    const auto misaligned = reinterpret_cast<std::uintptr_t>(workspace_->data()) % boundary;
    return workspace_->data() + (boundary - misaligned) % boundary;
  }

  const CudaExecutor& executor_;
  const AttentionHeads& heads_;
  const AttentionRows<T>& rows_;
  bool gradient_;
  Tiers tiers_;
  std::optional<ScratchMemory<Cuda>::Loan<std::byte>> index_memory_, workspace_;
};

template <class T>
inline constexpr bool is_half = std::same_as<T, float16> || std::same_as<T, bfloat16>;

/// Whether cuDNN does it; false: nothing is enqueued.
template <class T>
bool attend(const CudaExecutor& executor, const AttentionHeads& heads, const AttentionRows<T>& rows, T* y,
            float* logsumexp) {
  AttentionCalls<T> calls(executor, heads, rows, false);
  if (!calls.suits({rows.q, rows.k, rows.v, y, logsumexp}) || !calls.prepare()) return false;
  detail::AttentionArrays arrays{};
  arrays.y = y;
  arrays.logsumexp = logsumexp;
  calls.run(arrays);
  if (calls.may_be_blind()) {
    bulk::for_each(executor, rows.queries.rows(), WriteBlindRow<T>{heads, rows.queries, rows.keys, y, logsumexp});
  }
  return true;
}
template <class T>
bool attend_grad(const CudaExecutor& executor, const AttentionHeads& heads, const AttentionRows<T>& rows,
                 const AttentionResults<T>& results, T* dq, T* dk, T* dv) {
  AttentionCalls<T> calls(executor, heads, rows, true);
  if (!calls.suits({rows.q, rows.k, rows.v, results.dy, results.y, results.logsumexp, dq, dk, dv}) ||
      !calls.prepare()) {
    return false;
  }
  detail::AttentionArrays arrays{};
  arrays.dy = results.dy;
  arrays.y = const_cast<T*>(results.y);  // which the gradient only reads, as the next one
  arrays.logsumexp = const_cast<float*>(results.logsumexp);
  arrays.dq = dq;
  arrays.dk = dk;
  arrays.dv = dv;
  calls.run(arrays);
  if (calls.may_be_blind()) {
    bulk::for_each(executor, rows.queries.rows() + rows.keys.rows(),
                   WriteBlindGradients<T>{heads, rows.queries, rows.keys, dq, dk, dv});
  }
  return true;
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::dnn

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

template <class T>
  requires(dnn::is_half<T>)
void launch(SequenceAttention, const CudaExecutor& executor, const AttentionHeads& heads, const AttentionRows<T>& rows,
            T* y, float* logsumexp) {
  if (dnn::attend(executor, heads, rows, y, logsumexp)) return;
  bulk::Kernel<SequenceAttention>::run(executor, heads, rows, y, logsumexp);
}
template <class T>
  requires(dnn::is_half<T>)
void launch(SequenceAttentionGrad, const CudaExecutor& executor, const AttentionHeads& heads,
            const AttentionRows<T>& rows, const AttentionResults<T>& results, T* dq, T* dk, T* dv) {
  if (dnn::attend_grad(executor, heads, rows, results, dq, dk, dv)) return;
  bulk::Kernel<SequenceAttentionGrad>::run(executor, heads, rows, results, dq, dk, dv);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET
