// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations in the most obvious form, on nested vectors: what the real ones are compared with.
#pragma once

#include <lod/float16.hpp>
#include <lod/lod_tensor.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace lod_test {

/// What a tensor shows: a batch of sequences of sequences ... of rows. Either the parts or the row is empty.
template <class T>
struct Tree {
  std::vector<Tree> parts;
  std::vector<T> row;
};

template <class T>
bool same_number(T a, T b) {
  return a == b || (a != a && b != b);
}
template <class T>
bool operator==(const Tree<T>& a, const Tree<T>& b) {
  if (a.parts.size() != b.parts.size() || a.row.size() != b.row.size()) return false;
  for (std::size_t i = 0; i < a.parts.size(); ++i) {
    if (!(a.parts[i] == b.parts[i])) return false;
  }
  for (std::size_t i = 0; i < a.row.size(); ++i) {
    if (!same_number<T>(a.row[i], b.row[i])) return false;
  }
  return true;
}

/// The tree of a tensor or a view.
template <lod::LoDTensorLike X>
Tree<typename X::value_type> tree_of(const X& x) {
  Tree<typename X::value_type> tree;
  const auto view = x.view();
  for (std::int64_t i = 0; i < view.size(); ++i) {
    if (view.levels() > 0) {
      tree.parts.push_back(tree_of(view[i]));
    } else {
      tree.parts.push_back({{}, {view.row(i).begin(), view.row(i).end()}});
    }
  }
  return tree;
}

/// Checks that a result has so many levels, and this content.
template <lod::LoDTensorLike Y>
void check_tree(const Y& y, int levels, const Tree<typename Y::value_type>& expected) {
  CHECK(y.levels() == levels);
  const bool as_expected = tree_of(y) == expected;
  CHECK(as_expected);
}

/// The sequences of a level.
template <class T>
std::vector<Tree<T>> sequences_of(const Tree<T>& tree, int level) {
  if (level == 0) return tree.parts;
  std::vector<Tree<T>> all;
  for (const auto& part : tree.parts) {
    for (const auto& sequence : sequences_of(part, level - 1)) all.push_back(sequence);
  }
  return all;
}

/// The rows under a sequence.
template <class T>
std::vector<std::vector<T>> rows_of(const Tree<T>& sequence) {
  std::vector<std::vector<T>> rows;
  for (const auto& part : sequence.parts) {
    if (part.parts.empty() && !part.row.empty()) {
      rows.push_back(part.row);
    } else {
      for (const auto& row : rows_of(part)) rows.push_back(row);
    }
  }
  return rows;
}

template <class T>
Tree<T> reference_reverse(Tree<T> tree, int level) {
  for (auto& part : tree.parts) {
    if (level > 0) {
      part = reference_reverse(part, level - 1);
    } else {
      std::reverse(part.parts.begin(), part.parts.end());
    }
  }
  return tree;
}

template <class T>
Tree<T> reference_expand(const Tree<T>& tree, const std::vector<std::int64_t>& repeats) {
  Tree<T> expanded;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    for (std::int64_t count = 0; count < repeats[i]; ++count) expanded.parts.push_back(tree.parts[i]);
  }
  return expanded;
}

template <class T>
Tree<T> reference_concat(const std::vector<Tree<T>>& trees) {
  Tree<T> joined;
  for (std::size_t i = 0; i < trees[0].parts.size(); ++i) {
    Tree<T> sequence;
    for (const auto& tree : trees) {
      for (const auto& part : tree.parts[i].parts) sequence.parts.push_back(part);
    }
    joined.parts.push_back(sequence);
  }
  return joined;
}

/// What the library promises to compute in: double for itself, float for the other floating-point types, 64 bits for
/// integers.
template <class T>
using Wide =
    std::conditional_t<std::integral<T>, std::int64_t, std::conditional_t<std::same_as<T, double>, double, float>>;

enum class Pool { SUM, AVERAGE, SQRT, MAX, MIN, FIRST, LAST };

/// One number from those of a column, of which there is at least one. The sums are exact where the numbers are small
/// integers.
template <class T>
T reference_pool(const std::vector<T>& column, Pool pool) {
  const auto exceeds = [](T a, T b) { return a > b || (a != a && b == b); };
  const auto falls_below = [](T a, T b) { return a < b || (a != a && b == b); };
  Wide<T> sum{};
  T greatest = column[0], least = column[0];
  for (const T number : column) {
    sum += static_cast<Wide<T>>(number);
    if (exceeds(number, greatest)) greatest = number;
    if (falls_below(number, least)) least = number;
  }
  const auto count = static_cast<std::int64_t>(column.size());
  using Real = std::conditional_t<std::same_as<Wide<T>, float>, float, double>;
  switch (pool) {
    case Pool::SUM:
      return static_cast<T>(sum);
    case Pool::AVERAGE:
      return static_cast<T>(sum / static_cast<Wide<T>>(count));
    case Pool::SQRT: {
      const Real mean = static_cast<Real>(sum) / static_cast<Real>(std::sqrt(static_cast<double>(count)));
      return static_cast<T>(static_cast<Wide<T>>(mean));  // integers are truncated
    }
    case Pool::MAX:
      return greatest;
    case Pool::MIN:
      return least;
    case Pool::FIRST:
      return column.front();
    default:
      return column.back();
  }
}

/// The softmax of a column in double, or its logarithm; what the library promises for -inf, +inf and NaN.
inline std::vector<double> reference_softmax(const std::vector<double>& column, bool logarithm) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double greatest = -infinity;
  bool undefined = false;
  for (const double number : column) {
    greatest = std::max(greatest, number);
    undefined = undefined || number != number || number == infinity;
  }
  double sum = 0;
  for (const double number : column) sum += std::exp(number - greatest);
  std::vector<double> result;
  for (const double number : column) {
    if (undefined) {
      result.push_back(std::numeric_limits<double>::quiet_NaN());
    } else if (greatest == -infinity) {
      result.push_back(logarithm ? -infinity : 0);
    } else {
      result.push_back(logarithm ? number - greatest - std::log(sum) : std::exp(number - greatest) / sum);
    }
  }
  return result;
}

}  // namespace lod_test
