// SPDX-License-Identifier: Apache-2.0
/// @file
/// Samples of the operations that keep or move rows: joined and cut, picked from, reordered, with other levels, padded.
#pragma once

#include <lod/ops.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace lod_test {

namespace op = lod::op;

// Joined and cut.

void sample(op::concat, auto& c) { lod::concat_into(c.executor, c.rows(), c.rows(), c.out()); }
void sample(op::concat_grad, auto& c) {
  lod::concat_grad_into(c.executor, c.dense({2 * c.index.rows(), c.row_size}), c.both, c.outs(2));
}
void differences(op::concat_grad, auto& on) {
  const auto other = on.there(on.reals(on.index, {on.row_size}));
  const std::vector lods(2, on.index);
  on.check(
      on.x, [&](const auto& at) { return lod::concat(on.executor, other, at); },
      [&](const auto& dy) { return lod::concat_grad(on.executor, dy, lods)[1]; });
}
void sample(op::split, auto& c) { lod::split_into(c.executor, c.rows(), 3, c.outs(3)); }
void sample(op::split_at, auto& c) {
  const auto& borders = c.list([&] { return std::vector{c.size() / 2, c.size() / 2}; });
  lod::split_at_into(c.executor, c.rows(), borders, c.outs(3));
}
void sample(op::split_grad, auto& c) {
  const auto x = c.rows();
  lod::split_grad_into(c.executor, c.given([&] { return lod::split(c.executor, x, 3); }), c.out());
}
void differences(op::split_grad, auto& on) {
  const std::int64_t half = on.x.size() / 2;
  const auto rest = on.there(on.zeros(on.x.between(0, half).lod(), {on.row_size}));
  on.check(
      on.x, [&](const auto& at) { return lod::split_at(on.executor, at, {half})[1]; },
      [&](const auto& dy) {
        return lod::split_grad(on.executor, std::vector{rest, dy});
      });
}
void sample(op::sequence_concat, auto& c) { lod::sequence_concat_into(c.executor, c.rows(), c.rows(), c.out()); }
void sample(op::sequence_concat_grad, auto& c) {
  lod::sequence_concat_grad_into(c.executor, c.dense({2 * c.index.rows(), c.row_size}), c.both, c.outs(2));
}
void differences(op::sequence_concat_grad, auto& on) {
  const auto other = on.there(on.reals(on.index, {on.row_size}));
  const std::vector lods(2, on.index);
  on.check(
      on.x, [&](const auto& at) { return lod::sequence_concat(on.executor, other, at); },
      [&](const auto& dy) { return lod::sequence_concat_grad(on.executor, dy, lods)[1]; });
}

// Picked from.

const auto& picked(auto& c) { return c.random(c.size() > 0 ? 5 : 0, 0, c.size() - 1); }
void sample(op::select, auto& c) { lod::select_into(c.executor, c.rows(), picked(c), c.out()); }
void sample(op::select_grad, auto& c) {
  const auto x = c.rows();
  const auto& ids = picked(c);
  const auto& dy = c.given([&] { return lod::select(c.executor, x, ids); });
  lod::select_grad_into(c.executor, dy, c.index, ids, c.out());
}
void differences(op::select_grad, auto& on) {
  const auto ids = on.random(on.x.size(), 0, on.x.size() - 1);
  on.check(
      on.x, [&](const auto& at) { return lod::select(on.executor, at, ids); },
      [&](const auto& dy) { return lod::select_grad(on.executor, dy, on.index, ids); });
}
void sample(op::filter, auto& c) { lod::filter_into(c.executor, c.rows(), c.mask(c.size()), c.out()); }
void sample(op::filter_grad, auto& c) {
  const auto x = c.rows();
  const auto& mask = c.mask(c.size());
  const auto& dy = c.given([&] { return lod::filter(c.executor, x, mask); });
  lod::filter_grad_into(c.executor, dy, c.index, mask, c.out());
}
void differences(op::filter_grad, auto& on) {
  const std::vector<bool> mask = on.mask(on.x.size());
  on.check(
      on.x, [&](const auto& at) { return lod::filter(on.executor, at, mask); },
      [&](const auto& dy) { return lod::filter_grad(on.executor, dy, on.index, mask); });
}
void sample(op::filter_rows, auto& c) { lod::filter_rows_into(c.executor, c.rows(), c.mask(c.index.rows()), c.out()); }
void sample(op::filter_rows_grad, auto& c) {
  const auto x = c.rows();
  const auto& mask = c.mask(c.index.rows());
  const auto& dy = c.given([&] { return lod::filter_rows(c.executor, x, mask); });
  lod::filter_rows_grad_into(c.executor, dy, c.index, mask, c.out());
}
void differences(op::filter_rows_grad, auto& on) {
  const std::vector<bool> mask = on.mask(on.x.rows());
  on.check(
      on.x, [&](const auto& at) { return lod::filter_rows(on.executor, at, mask); },
      [&](const auto& dy) { return lod::filter_rows_grad(on.executor, dy, on.index, mask); });
}
void sample(op::remove_empty, auto& c) { lod::remove_empty_into(c.executor, c.rows(), {.level = c.level}, c.out()); }
void sample(op::remove_empty_grad, auto& c) {
  const auto x = c.rows();
  const auto& dy = c.given([&] { return lod::remove_empty(c.executor, x, {.level = c.level}); });
  lod::remove_empty_grad_into(c.executor, dy, c.index, c.out());
}
void differences(op::remove_empty_grad, auto& on) {
  on.check(
      on.x, [&](const auto& at) { return lod::remove_empty(on.executor, at, {.level = on.level}); },
      [&](const auto& dy) { return lod::remove_empty_grad(on.executor, dy, on.index); });
}
void sample(op::split_lod_tensor, auto& c) {
  lod::split_lod_tensor_into(c.executor, c.rows(), c.mask(c.sequences()), {.level = c.level}, c.out(), c.out());
}
void sample(op::split_lod_tensor_grad, auto& c) {
  const auto x = c.rows();
  const auto& mask = c.mask(c.sequences());
  const auto& in_true = c.given([&] { return lod::split_lod_tensor(c.executor, x, mask, {.level = c.level}).in_true; });
  const auto& in_false =
      c.given([&] { return lod::split_lod_tensor(c.executor, x, mask, {.level = c.level}).in_false; });
  lod::split_lod_tensor_grad_into(c.executor, in_true, in_false, mask, {.level = c.level, .lod = c.index}, c.out());
}
void differences(op::split_lod_tensor_grad, auto& on) {
  const std::vector<bool> mask = on.mask(on.index.size(on.level));
  const auto f = [&](const auto& at) { return lod::split_lod_tensor(on.executor, at, mask, {.level = on.level}); };
  const auto none =
      lod::split_lod_tensor(on.executor, on.there(on.zeros(on.index, {on.row_size})), mask, {.level = on.level});
  const lod::MergeBranchOptions back{.level = on.level, .lod = on.index};
  on.check(
      "in true", on.x, [&](const auto& at) { return f(at).in_true; },
      [&](const auto& dy) { return lod::split_lod_tensor_grad(on.executor, dy, none.in_false, mask, back); });
  on.check(
      "in false", on.x, [&](const auto& at) { return f(at).in_false; },
      [&](const auto& dy) { return lod::split_lod_tensor_grad(on.executor, none.in_true, dy, mask, back); });
}
void sample(op::merge_lod_tensor, auto& c) {
  const auto x = c.rows();
  const auto& mask = c.mask(c.sequences());
  const auto& in_true = c.given([&] { return lod::split_lod_tensor(c.executor, x, mask, {.level = c.level}).in_true; });
  const auto& in_false =
      c.given([&] { return lod::split_lod_tensor(c.executor, x, mask, {.level = c.level}).in_false; });
  lod::merge_lod_tensor_into(c.executor, in_true, in_false, mask, {.level = c.level, .lod = c.index}, c.out());
}
void sample(op::merge_lod_tensor_grad, auto& c) {
  lod::merge_lod_tensor_grad_into(c.executor, c.rows(), c.mask(c.sequences()), {.level = c.level}, c.out(), c.out());
}
void differences(op::merge_lod_tensor_grad, auto& on) {
  const std::vector<bool> mask = on.mask(on.index.size(on.level));
  const auto branches = lod::split_lod_tensor(on.executor, on.there(on.x), mask, {.level = on.level});
  const lod::MergeBranchOptions back{.level = on.level, .lod = on.index};
  auto in_true = on.here(branches.in_true), in_false = on.here(branches.in_false);
  on.check(
      "in true", in_true,
      [&](const auto& at) { return lod::merge_lod_tensor(on.executor, at, branches.in_false, mask, back); },
      [&](const auto& dy) { return lod::merge_lod_tensor_grad(on.executor, dy, mask, {.level = on.level}).in_true; });
  on.check(
      "in false", in_false,
      [&](const auto& at) { return lod::merge_lod_tensor(on.executor, branches.in_true, at, mask, back); },
      [&](const auto& dy) { return lod::merge_lod_tensor_grad(on.executor, dy, mask, {.level = on.level}).in_false; });
}
void sample(op::unique_sequences, auto& c) {
  lod::unique_sequences_into(c.executor, c.tokens(), c.out(), c.out_ids(), c.out_ids());
}
// Sequences are numbered, sorted, compared and counted, and may be giants whose leaves are joined; three outputs.
inline Launches launches(op::unique_sequences_and_wait) { return {{"", 11}}; }
void sample(op::unique_sequences_and_wait, auto& c) {
  lod::unique_sequences_and_wait_into(c.executor, c.tokens(), c.out(), c.out_ids(), c.out_ids());
}

// With other levels.

void sample(op::remove_level, auto& c) { lod::remove_level_into(c.executor, c.rows(), c.level, c.out()); }
void sample(op::remove_level_grad, auto& c) {
  const auto x = c.rows();
  const auto& dy = c.given([&] { return lod::remove_level(c.executor, x, c.level); });
  lod::remove_level_grad_into(c.executor, dy, c.index, c.out());
}
void differences(op::remove_level_grad, auto& on) {
  on.check(
      on.x, [&](const auto& at) { return lod::remove_level(on.executor, at, on.level); },
      [&](const auto& dy) { return lod::remove_level_grad(on.executor, dy, on.index); });
}
void sample(op::insert_level, auto& c) {
  lod::insert_level_into(c.executor, c.rows(), 0, c.lod({0, c.size()}), c.out());
}
void sample(op::insert_level_grad, auto& c) {
  const auto x = c.rows();
  const lod::LoD& above = c.lod({0, c.size()});
  const auto& dy = c.given([&] { return lod::insert_level(c.executor, x, 0, above); });
  lod::insert_level_grad_into(c.executor, dy, c.index, c.out());
}
void differences(op::insert_level_grad, auto& on) {
  const lod::LoD above = lod::LoD::from_lengths({{on.x.size()}});
  on.check(
      on.x, [&](const auto& at) { return lod::insert_level(on.executor, at, 0, above); },
      [&](const auto& dy) { return lod::insert_level_grad(on.executor, dy, on.index); });
}
void sample(op::flatten, auto& c) { lod::flatten_into(c.executor, c.rows(), c.out()); }
void sample(op::flatten_grad, auto& c) {
  const auto x = c.rows();
  const auto& dy = c.given([&] { return lod::flatten(c.executor, x); });
  lod::flatten_grad_into(c.executor, dy, c.index, c.out());
}
void differences(op::flatten_grad, auto& on) {
  on.check(
      on.x, [&](const auto& at) { return lod::flatten(on.executor, at); },
      [&](const auto& dy) { return lod::flatten_grad(on.executor, dy, on.index); });
}
void sample(op::transpose_levels, auto& c) {
  if (c.index.levels() > 1) lod::transpose_levels_into(c.executor, c.rows(), c.out());
}
void sample(op::transpose_levels_grad, auto& c) {
  if (c.index.levels() < 2) return;
  const auto x = c.rows();
  const auto& dy = c.given([&] { return lod::transpose_levels(c.executor, x); });
  lod::transpose_levels_grad_into(c.executor, dy, c.index, c.out());
}
void differences(op::transpose_levels_grad, auto& on) {
  if (on.index.levels() < 2) return;
  on.check(
      on.x, [&](const auto& at) { return lod::transpose_levels(on.executor, at); },
      [&](const auto& dy) { return lod::transpose_levels_grad(on.executor, dy, on.index); });
}
void sample(op::lod_reset, auto& c) {
  lod::lod_reset_into(c.executor, c.rows(), c.lod({0, c.index.rows(), 0}), c.out());
}
void sample(op::lod_reset_grad, auto& c) { lod::lod_reset_grad_into(c.executor, c.rows(), c.index, c.out()); }
void differences(op::lod_reset_grad, auto& on) {
  const lod::LoD other = lod::LoD::from_lengths({{0, on.x.rows(), 0}});
  on.check(
      on.x, [&](const auto& at) { return lod::lod_reset(on.executor, at, other); },
      [&](const auto& dy) { return lod::lod_reset_grad(on.executor, dy, on.index); });
}
/// The offsets of sequences of one row each.
const auto& offsets_of_rows(auto& c) {
  return c.list([&] {
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(c.index.rows()) + 1);
    std::iota(offsets.begin(), offsets.end(), std::int64_t{0});
    return offsets;
  });
}
void sample(op::lod_append, auto& c) { lod::lod_append_into(c.executor, c.rows(), offsets_of_rows(c), c.out()); }
void sample(op::lod_append_grad, auto& c) {
  const auto x = c.rows();
  const auto& offsets = offsets_of_rows(c);
  const auto& dy = c.given([&] { return lod::lod_append(c.executor, x, offsets); });
  lod::lod_append_grad_into(c.executor, dy, c.index, c.out());
}
void differences(op::lod_append_grad, auto& on) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(on.x.rows()) + 1);
  std::iota(offsets.begin(), offsets.end(), std::int64_t{0});
  on.check(
      on.x, [&](const auto& at) { return lod::lod_append(on.executor, at, offsets); },
      [&](const auto& dy) { return lod::lod_append_grad(on.executor, dy, on.index); });
}
// What the user does for each sequence: as many as are not empty.
inline Launches launches(op::for_each_sequence) { return {{"", 92}}; }
void sample(op::for_each_sequence, auto& c) {
  const auto x = c.rows();
  auto& y = c.copy(x);
  lod::for_each_sequence(c.executor, y, 0, [&](const auto& sequence, std::int64_t i) {
    lod::add_into(c.executor, x.element(i), x.element(i), sequence);
  });
}
void sample(op::map_sequences, auto& c) {
  const auto same = [](const auto& sequence) { return sequence; };
  lod::map_sequences_into(c.executor, c.rows(), same, c.out());
}

// Repeated, reversed, taken from.

void sample(op::sequence_expand, auto& c) {
  lod::sequence_expand_into(c.executor, c.rows(), c.lod(c.size(), 3), c.out());
}
void sample(op::sequence_expand_grad, auto& c) {
  const auto x = c.rows();
  const lod::LoD& repeats = c.lod(c.size(), 3);
  const auto& dy = c.given([&] { return lod::sequence_expand(c.executor, x, repeats); });
  lod::sequence_expand_grad_into(c.executor, dy, c.index, repeats, c.out());
}
void differences(op::sequence_expand_grad, auto& on) {
  const lod::LoD repeats = lod::LoD::from_lengths({on.random(on.x.size(), 0, 3)});
  on.check(
      on.x, [&](const auto& at) { return lod::sequence_expand(on.executor, at, repeats); },
      [&](const auto& dy) { return lod::sequence_expand_grad(on.executor, dy, on.index, repeats); });
}
void sample(op::sequence_expand_as, auto& c) {
  lod::sequence_expand_as_into(c.executor, c.dense({c.index.size(-1), c.row_size}), c.index, c.out());
}
void sample(op::sequence_expand_as_grad, auto& c) {
  lod::sequence_expand_as_grad_into(c.executor, c.rows(), c.index, c.out());
}
void differences(op::sequence_expand_as_grad, auto& on) {
  auto x = on.reals({on.index.size(-1), on.row_size});
  on.check(
      x, [&](const auto& at) { return lod::sequence_expand_as(on.executor, at, on.index); },
      [&](const auto& dy) { return lod::sequence_expand_as_grad(on.executor, dy, on.index).with_lod(lod::LoD()); });
}
void sample(op::sequence_reverse, auto& c) {
  lod::sequence_reverse_into(c.executor, c.rows(), {.level = c.level}, c.out());
}
void sample(op::sequence_reverse_grad, auto& c) {
  lod::sequence_reverse_grad_into(c.executor, c.rows(), {.level = c.level}, c.out());
}
void differences(op::sequence_reverse_grad, auto& on) {
  on.check(
      on.x, [&](const auto& at) { return lod::sequence_reverse(on.executor, at, {.level = on.level}); },
      [&](const auto& dy) { return lod::sequence_reverse_grad(on.executor, dy, {.level = on.level}); });
}
/// A third of each sequence lies before what is taken, and half of the rest is.
const auto& rows_before(auto& c) {
  return c.list([&] {
    std::vector<std::int64_t> first = c.index.lengths(0);
    for (std::int64_t& length : first) length /= 3;
    return first;
  });
}
const auto& rows_taken(auto& c) {
  return c.list([&] {
    std::vector<std::int64_t> counts = c.index.lengths(0);
    for (std::int64_t& length : counts) length = (length - length / 3 + 1) / 2;
    return counts;
  });
}
void sample(op::sequence_slice, auto& c) {
  const auto &first = rows_before(c), &counts = rows_taken(c);
  lod::sequence_slice_into(c.executor, c.rows(), first, counts, c.out());
}
void sample(op::sequence_slice_grad, auto& c) {
  const auto &first = rows_before(c), &counts = rows_taken(c);
  const auto x = c.rows();
  const auto& dy = c.given([&] { return lod::sequence_slice(c.executor, x, first, counts); });
  lod::sequence_slice_grad_into(c.executor, dy, c.index, first, counts, c.out());
}
void differences(op::sequence_slice_grad, auto& on) {
  std::vector<std::int64_t> first, counts;
  for (const std::int64_t length : on.index.lengths(0)) {
    first.push_back(on.random(0, length));
    counts.push_back(on.random(0, length - first.back()));
  }
  on.check(
      on.x, [&](const auto& at) { return lod::sequence_slice(on.executor, at, first, counts); },
      [&](const auto& dy) { return lod::sequence_slice_grad(on.executor, dy, on.index, first, counts); });
}

// Padded.

lod::PadOptions padding(auto& c) {
  const lod::Side side = c.one_of({lod::Side::RIGHT, lod::Side::LEFT});
  return {.pad_value = 2, .padded_length = 20, .side = side, .truncate = true, .level = c.level};
}
void sample(op::sequence_pad, auto& c) {
  lod::sequence_pad_into(c.executor, c.rows(), padding(c), c.out(), c.out_ids());
}
void sample(op::sequence_pad_grad, auto& c) {
  const auto x = c.rows();
  const lod::PadOptions options = padding(c);
  const auto& dy = c.given([&] { return lod::sequence_pad(c.executor, x, options).dense; });
  lod::sequence_pad_grad_into(c.executor, dy, c.index, options, c.out());
}
void differences(op::sequence_pad_grad, auto& on) {
  for (const std::int64_t length : {-1, 1, 3, 5}) {
    const lod::Side side = length % 4 == 1 ? lod::Side::RIGHT : lod::Side::LEFT;
    const lod::PadOptions options{.padded_length = length, .side = side, .truncate = true, .level = on.level};
    on.check(
        on.x, [&](const auto& at) { return lod::sequence_pad(on.executor, at, options).dense; },
        [&](const auto& dy) { return lod::sequence_pad_grad(on.executor, dy, on.index, options); });
  }
}
void sample(op::sequence_unpad, auto& c) {
  const lod::Side side = c.one_of({lod::Side::RIGHT, lod::Side::LEFT});
  lod::sequence_unpad_into(c.executor, c.dense({4, 20, c.row_size}), c.random(4, 0, 20), {.side = side}, c.out());
}
void sample(op::sequence_unpad_grad, auto& c) {
  const lod::Side side = c.one_of({lod::Side::RIGHT, lod::Side::LEFT});
  const auto padded = c.dense({4, 20, c.row_size});
  const auto& lengths = c.random(4, 0, 20);
  const auto& dy = c.given([&] { return lod::sequence_unpad(c.executor, padded, lengths, {.side = side}); });
  lod::sequence_unpad_grad_into(c.executor, dy, lengths, 20, {.side = side}, c.out());
}
void differences(op::sequence_unpad_grad, auto& on) {
  auto dense = on.reals({4, 3, on.row_size});
  const std::vector<std::int64_t> lengths = {3, 0, 2, 1};
  on.check(
      dense, [&](const auto& at) { return lod::sequence_unpad(on.executor, at, lengths); },
      [&](const auto& dy) { return lod::sequence_unpad_grad(on.executor, dy, lengths, 3); });
}
void sample(op::sequence_mask, auto& c) {
  const auto& lengths = c.list([&] { return c.index.lengths(-1); });
  lod::sequence_mask_into(c.executor, lengths, {.max_length = 30}, c.out());
}
void sample(op::sequence_positions, auto& c) {
  lod::sequence_positions_into(c.executor, c.index, {.level = c.level}, c.out_ids());
}
void sample(op::sequence_reshape, auto& c) { lod::sequence_reshape_into(c.executor, c.rows(), 1, c.out()); }
void sample(op::sequence_reshape_grad, auto& c) {
  const auto x = c.rows();
  const auto& dy = c.given([&] { return lod::sequence_reshape(c.executor, x, 1); });
  lod::sequence_reshape_grad_into(c.executor, dy, c.index, {c.row_size}, c.out());
}
void differences(op::sequence_reshape_grad, auto& on) {
  on.check(
      on.x, [&](const auto& at) { return lod::sequence_reshape(on.executor, at, 1); },
      [&](const auto& dy) { return lod::sequence_reshape_grad(on.executor, dy, on.index, {on.row_size}); });
}
const lod::Im2SequenceOptions& patches(auto& c) {
  return c.draw([] { return lod::Im2SequenceOptions{.kernels = {2, 3}, .strides = {1, 2}, .paddings = {1, 0, 0, 1}}; });
}
void sample(op::im2sequence, auto& c) {
  lod::im2sequence_into(c.executor, c.dense({2, c.row_size, 4, 5}), patches(c), c.out());
}
void sample(op::im2sequence_grad, auto& c) {
  const auto images = c.dense({2, c.row_size, 4, 5});
  const auto& options = patches(c);
  const auto& dy = c.given([&] { return lod::im2sequence(c.executor, images, options); });
  lod::im2sequence_grad_into(c.executor, dy, images, options, c.out());
}
void differences(op::im2sequence_grad, auto& on) {
  const lod::Im2SequenceOptions options{.kernels = {2, 1}, .paddings = {1, 0, 1, 0}};
  const auto check = [&](const char* what, auto images) {
    on.check(
        what, images, [&](const auto& at) { return lod::im2sequence(on.executor, at, options); },
        [&](const auto& dy) { return lod::im2sequence_grad(on.executor, dy, on.there(images), options); });
  };
  check("of images", on.reals({2, on.row_size, 2, 3}));
  if (on.x.rows() <= 6) check("of batches of images", on.reals(on.index, {1, 2, on.row_size}));
}

// Ids and tokens.

void sample(op::sequence_enumerate, auto& c) {
  lod::sequence_enumerate_into(c.executor, c.tokens(), 3, {.pad_value = 7, .level = c.level}, c.out());
}
void sample(op::edit_distance, auto& c) {
  if (!c.is_short()) return;
  lod::edit_distance_into(c.executor, c.tokens(), c.tokens(), {.level = c.level}, c.template out_of<float>());
}
void sample(op::sequence_erase, auto& c) { lod::sequence_erase_into(c.executor, c.tokens(), c.two_tokens(), c.out()); }
void sample(op::sequence_erase_and_wait, auto& c) {
  lod::sequence_erase_and_wait_into(c.executor, c.tokens(), c.two_tokens(), c.out());
}
void sample(op::ctc_align, auto& c) { lod::ctc_align_into(c.executor, c.tokens(), c.out()); }
void sample(op::ctc_align_and_wait, auto& c) { lod::ctc_align_and_wait_into(c.executor, c.tokens(), c.out()); }

// Tags.

auto transition(auto& c) { return c.dense({c.row_size + 2, c.row_size}); }
void sample(op::crf_decoding, auto& c) {
  if (!c.is_short()) return;
  lod::crf_decoding_into(c.executor, c.ties(), transition(c), c.out_ids());
}
void sample(op::linear_chain_crf, auto& c) {
  if (!c.is_short()) return;
  lod::linear_chain_crf_into(c.executor, c.rows(), transition(c), c.ids_below(c.row_size), c.out());
}
// Shares of all paths; their products summed over all rows as one sequence.
inline Launches launches(op::linear_chain_crf_grad) { return {{"", 4}}; }
void sample(op::linear_chain_crf_grad, auto& c) {
  if (!c.is_short()) return;
  const auto dy = c.dense({c.index.size(c.index.levels() - 1)});
  lod::linear_chain_crf_grad_into(c.executor, dy, c.rows(), transition(c), c.ids_below(c.row_size), c.out(), c.out());
}
void differences(op::linear_chain_crf_grad, auto& on) {
  auto weights = on.reals({on.row_size + 2, on.row_size});
  const auto labels = on.ids(on.row_size);
  const auto grad = [&](const auto& dy) {
    return lod::linear_chain_crf_grad(on.executor, dy, on.there(on.x), on.there(weights), labels);
  };
  on.check(
      on.x, [&](const auto& at) { return lod::linear_chain_crf(on.executor, at, on.there(weights), labels); },
      [&](const auto& dy) { return grad(dy).demission; });
  on.check(
      "of the transition", weights,
      [&](const auto& at) { return lod::linear_chain_crf(on.executor, on.there(on.x), at, labels); },
      [&](const auto& dy) { return grad(dy).dtransition; });
}

// Labels that frames spell: half as many of them, so that there is a frame between any two.

inline lod::LoD half_as_long(const lod::LoD& index) {
  const auto offsets = index.offsets(index.levels() - 1);
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 1; i < offsets.size(); ++i) lengths.push_back((offsets[i] - offsets[i - 1]) / 2);
  return lod::LoD::from_lengths({lengths});
}
auto spelled_labels(auto& c) {
  return c.ids_of(c.draw([&] { return half_as_long(c.index); }), c.row_size);
}
void sample(op::ctc_loss, auto& c) {
  if (!c.is_short()) return;
  lod::ctc_loss_into(c.executor, c.rows(), spelled_labels(c),
                     {.blank = c.row_size - 1, .zero_infinity = c.variant(2) == 1}, c.out());
}
void sample(op::ctc_loss_grad, auto& c) {
  if (!c.is_short()) return;
  const auto dy = c.dense({c.index.size(c.index.levels() - 1)});
  lod::ctc_loss_grad_into(c.executor, dy, c.rows(), spelled_labels(c), {.blank = c.row_size - 1}, c.out());
}
void differences(op::ctc_loss_grad, auto& on) {
  const auto labels = on.ids(half_as_long(on.index), on.row_size);
  const lod::CtcLossOptions options{.blank = on.random(0, on.row_size - 1), .zero_infinity = true};
  on.check(
      on.x, [&](const auto& at) { return lod::ctc_loss(on.executor, at, labels, options); },
      [&](const auto& dy) { return lod::ctc_loss_grad(on.executor, dy, on.there(on.x), labels, options); });
}

lod::CrossEntropyOptions entropy_options(auto& c) {
  const lod::Reduction reduction = c.one_of({lod::Reduction::NONE, lod::Reduction::ROWS, lod::Reduction::SEQUENCES});
  if (reduction != lod::Reduction::NONE) c.named("mean");
  return {.ignore_index = 1, .label_smoothing = 0.125, .reduction = reduction};
}
// The mean: losses; their sums and those of rows that count, of sequences and then of all.
inline Launches launches(op::cross_entropy) { return {{"mean", 12}}; }
void sample(op::cross_entropy, auto& c) {
  lod::cross_entropy_into(c.executor, c.rows(), c.ids_below(c.row_size), entropy_options(c), c.out());
}
// The mean: the sums of rows that count, spread over rows; the gradient.
inline Launches launches(op::cross_entropy_grad) { return {{"mean", 9}}; }
void sample(op::cross_entropy_grad, auto& c) {
  const auto options = entropy_options(c);
  const auto dy = c.dense({options.reduction == lod::Reduction::NONE ? c.index.rows() : 1});
  lod::cross_entropy_grad_into(c.executor, dy, c.rows(), c.ids_below(c.row_size), options, c.out());
}
void differences(op::cross_entropy_grad, auto& on) {
  const auto labels = on.ids(on.row_size);
  for (const lod::Reduction reduction : {lod::Reduction::NONE, lod::Reduction::ROWS, lod::Reduction::SEQUENCES}) {
    const lod::CrossEntropyOptions options{.ignore_index = 2, .label_smoothing = 0.25, .reduction = reduction};
    on.check(
        on.x, [&](const auto& at) { return lod::cross_entropy(on.executor, at, labels, options); },
        [&](const auto& dy) { return lod::cross_entropy_grad(on.executor, dy, on.there(on.x), labels, options); });
  }
}

void sample(op::chunk_eval, auto& c) {
  lod::chunk_eval_into(c.executor, c.tokens(), c.tokens(),
                       {.scheme = c.one_of({lod::ChunkScheme::IOB, lod::ChunkScheme::IOE, lod::ChunkScheme::IOBES,
                                            lod::ChunkScheme::PLAIN}),
                        .types = 2},
                       c.template out_of<float>(), c.out_ids());
}

// Beams.

/// Sentences of which some have ended; the other form has probabilities.
auto beam_options(auto& c) {
  using Scores = decltype(c.column());
  return lod::BeamSearchOptions<typename Scores::value_type, typename Scores::device>{
      .beam_size = 3,
      .level = c.level,
      .is_accumulated = c.variant(2) == 0,
      .pre_ids = c.ids_below(3),
      .pre_scores = c.column()};
}
auto scores_of_candidates(auto& c) { return c.variant(2) == 0 ? c.ties() : c.divisors(0); }
void sample(op::beam_search, auto& c) {
  lod::beam_search_into(c.executor, c.rows_of_ids(9), scores_of_candidates(c), beam_options(c), c.out_ids(), c.out(),
                        c.template out_of<std::int32_t>());
}
void sample(op::beam_search_and_wait, auto& c) {
  lod::beam_search_and_wait_into(c.executor, c.rows_of_ids(9), scores_of_candidates(c), beam_options(c), c.out_ids(),
                                 c.out(), c.template out_of<std::int32_t>());
}
/// The levels of two steps: each source begins with one sentence, and each sentence has up to two continuations.
auto levels_of_steps(auto& c) {
  const lod::LoD &first = c.lod(c.size(), 2), &second = c.lod(first.rows(), 2);
  return std::pair<const lod::LoD&, const lod::LoD&>(
      c.draw([&] {
        const std::vector<std::int64_t> ones(static_cast<std::size_t>(first.size(0)), 1);
        return lod::LoD::from_lengths({ones, first.lengths(0)});
      }),
      c.draw([&] {
        return lod::LoD::from_lengths({first.lengths(0), second.lengths(0)});
      }));
}
void sample(op::beam_search_decode, auto& c) {
  const auto [first, second] = levels_of_steps(c);
  const std::array ids = {c.ids_of(first, 3), c.ids_of(second, 3)};
  lod::beam_search_decode_into(c.executor, ids, std::array{c.scalars(first), c.scalars(second)}, {.end_id = 1},
                               c.out_ids(), c.out());
}
void sample(op::beam_search_decode_and_wait, auto& c) {
  const auto [first, second] = levels_of_steps(c);
  const std::array ids = {c.ids_of(first, 3), c.ids_of(second, 3)};
  lod::beam_search_decode_and_wait_into(c.executor, ids, std::array{c.scalars(first), c.scalars(second)}, {.end_id = 1},
                                        c.out_ids(), c.out());
}

}  // namespace lod_test
