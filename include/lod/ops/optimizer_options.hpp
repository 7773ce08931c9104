// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// The options of optimizers, and the checks of their ranges.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/float16.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/target.hpp>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>

namespace lod::inline LOD_INTERFACE {

/// What a row-sparse gradient does to the rows that it does not list.
enum class Sparse {
  LAZY,  ///< nothing: the parameter and the states of these rows are not read. Time: the listed rows
  EXACT  ///< what a gradient of zeros does: the result is that of the dense gradient, bit for bit, for finite states
         ///< and finite learning rates of 0 or more. Time: all rows, except for optimizers that leave rows without a
         ///< gradient alone
};

/// The options of `sgd`.
struct SgdOptions {
  double learning_rate = 0.001;
  Sparse mode = Sparse::EXACT;
};

/// The options of `momentum`.
struct MomentumOptions {
  double learning_rate = 0.001;
  double momentum = 0.9;
  bool nesterov = false;
  double l2_decay = 0;  ///< this times the parameter is added to the gradient
  Sparse mode = Sparse::EXACT;
};

/// The options of `adagrad`.
struct AdagradOptions {
  double learning_rate = 0.001;
  double epsilon = 1e-6;
  Sparse mode = Sparse::EXACT;
};

/// The options of `rmsprop`.
struct RmspropOptions {
  double learning_rate = 0.001;
  double rho = 0.95;  ///< the fraction of the mean of squares that is kept
  double epsilon = 1e-6;
  double momentum = 0;
  Sparse mode = Sparse::EXACT;
};

/// The options of `adam`.
struct AdamOptions {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::int64_t step = 0;  ///< the number of this update, from 1 on; required
  Sparse mode = Sparse::EXACT;
};

/// The options of `ftrl`.
struct FtrlOptions {
  double learning_rate = 0.001;
  double l1 = 0;
  double l2 = 0;
  double learning_rate_power = -0.5;
  Sparse mode = Sparse::EXACT;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// An option of an optimizer, and its valid range.
struct OptimizerOption {
  const char* name;
  double value;
  double least = -std::numeric_limits<double>::max();
  double greatest = std::numeric_limits<double>::max();
};
inline OptimizerOption zero_or_more(const char* name, double value) {
  return {.name = name, .value = value, .least = 0};
}
inline OptimizerOption zero_to_one(const char* name, double value) { return {name, value, 0, 1}; }

/// Throws std::invalid_argument for an option out of its range, OutOfRange for a number that is not a Sparse.
inline void check_options(const char* what, Sparse mode, std::initializer_list<OptimizerOption> options) {
  if (mode != Sparse::LAZY && mode != Sparse::EXACT) {
    throw OutOfRange(detail::text({what, ": Sparse ", static_cast<int>(mode), ", expected LAZY or EXACT"}));
  }
  for (const OptimizerOption& option : options) {
    // By the bits: with -ffast-math, comparisons assume that every number is finite.
    const bool finite = !detail::is_nan(option.value) && !detail::is_infinite(option.value);
    if (finite && option.value >= option.least && option.value <= option.greatest) continue;
    throw std::invalid_argument(detail::text({what, ": ", option.name, " ", to_string(Scalar(option.value)),
                                              option.greatest == 1 ? ", expected 0 to 1"
                                              : option.least == 0  ? ", expected a finite number of 0 or more"
                                                                   : ", expected a finite number"}));
  }
}

inline void check_options(const RmspropOptions& options) {
  check_options("rmsprop", options.mode,
                {{"learning_rate", options.learning_rate},
                 zero_to_one("rho", options.rho),
                 zero_or_more("epsilon", options.epsilon),
                 {"momentum", options.momentum}});
}

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
