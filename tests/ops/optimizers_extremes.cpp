// SPDX-License-Identifier: Apache-2.0
// Optimizers of parameters, states and gradients whose squares are too large or too small for their types.
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

using lod::LoDTensor;
using lod::SelectedRows;
using lod::Sparse;
using namespace lod_test;

namespace {

using Real = long double;  // of 15 bits of exponent: no square of a double leaves its range
using ExactStates = std::array<Real, 3>;

struct Options {
  double rate, first, second, epsilon, l1, l2;
  std::int64_t step;
};

Real ratio(Real a, Real b, Real of_zero = 0) { return b == 0 ? of_zero : a / b; }

// Each optimizer with its formula.
struct Sgd {
  static constexpr int states = 0;
  template <class E, class M, class G>
  static void run(const E& e, M& m, const G& g, const Options& o, Sparse mode) {
    lod::sgd(e, m.parameter, g, {.learning_rate = o.rate, .mode = mode});
  }
  static void formula(Real& p, ExactStates&, Real g, const Options& o) { p -= o.rate * g; }
};
template <bool nesterov>
struct Momentum {
  static constexpr int states = 1;
  template <class E, class M, class G>
  static void run(const E& e, M& m, const G& g, const Options& o, Sparse mode) {
    lod::momentum(e, m.parameter, m.states[0], g,
                  {.learning_rate = o.rate, .momentum = o.first, .nesterov = nesterov, .l2_decay = o.l2, .mode = mode});
  }
  static void formula(Real& p, ExactStates& s, Real g, const Options& o) {
    const Real decayed = g + o.l2 * p;
    s[0] = o.first * s[0] + decayed;
    p -= o.rate * (nesterov ? decayed + o.first * s[0] : s[0]);
  }
};
struct Adagrad {
  static constexpr int states = 1;
  template <class E, class M, class G>
  static void run(const E& e, M& m, const G& g, const Options& o, Sparse mode) {
    lod::adagrad(e, m.parameter, m.states[0], g, {.learning_rate = o.rate, .epsilon = o.epsilon, .mode = mode});
  }
  static void formula(Real& p, ExactStates& s, Real g, const Options& o) {
    s[0] += g * g;
    p -= ratio(o.rate * g, std::sqrt(s[0]) + o.epsilon);
  }
};
template <bool centered>
struct Rmsprop {
  static constexpr int states = centered ? 3 : 2;
  template <class E, class M, class G>
  static void run(const E& e, M& m, const G& g, const Options& o, Sparse mode) {
    const lod::RmspropOptions options = {
        .learning_rate = o.rate, .rho = o.second, .epsilon = o.epsilon, .momentum = o.first, .mode = mode};
    if constexpr (centered) {
      lod::rmsprop(e, m.parameter, m.states[0], m.states[1], m.states[2], g, options);
    } else {
      lod::rmsprop(e, m.parameter, m.states[0], m.states[1], g, options);
    }
  }
  static void formula(Real& p, ExactStates& s, Real g, const Options& o) {
    s[0] = o.second * s[0] + (1 - o.second) * g * g;
    Real variance = s[0];
    if (centered) {
      s[2] = o.second * s[2] + (1 - o.second) * g;
      variance = std::max<Real>(s[0] - s[2] * s[2], 0);
    }
    s[1] = o.first * s[1] + ratio(o.rate * g, std::sqrt(variance + o.epsilon));
    p -= s[1];
  }
};
struct Adam {
  static constexpr int states = 2;
  template <class E, class M, class G>
  static void run(const E& e, M& m, const G& g, const Options& o, Sparse mode) {
    lod::adam(e, m.parameter, m.states[1], m.states[0], g,
              {.learning_rate = o.rate,
               .beta1 = o.first,
               .beta2 = o.second,
               .epsilon = o.epsilon,
               .step = o.step,
               .mode = mode});
  }
  static void formula(Real& p, ExactStates& s, Real g, const Options& o) {
    const double step = static_cast<double>(o.step);
    const double c1 = 1 - std::pow(o.first, step), c2 = std::sqrt(1 - std::pow(o.second, step));
    s[1] = o.first * s[1] + (1 - o.first) * g;
    s[0] = o.second * s[0] + (1 - o.second) * g * g;
    p -= ratio(ratio(static_cast<Real>(o.rate) * c2, c1) * s[1], std::sqrt(s[0]) + static_cast<Real>(o.epsilon) * c2);
  }
};
struct Ftrl {
  static constexpr int states = 2;
  template <class E, class M, class G>
  static void run(const E& e, M& m, const G& g, const Options& o, Sparse mode) {
    lod::ftrl(e, m.parameter, m.states[0], m.states[1], g,
              {.learning_rate = o.rate, .l1 = o.l1, .l2 = o.l2, .mode = mode});
  }
  static void formula(Real& p, ExactStates& s, Real g, const Options& o) {
    const Real before = std::sqrt(s[0]);
    s[0] += g * g;
    const Real after = std::sqrt(s[0]);
    s[1] += g - (after - before) / o.rate * p;
    const Real shrunk = s[1] > 0 ? o.l1 - s[1] : -o.l1 - s[1];
    p = std::fabs(s[1]) > o.l1 ? ratio(shrunk, after / o.rate + 2 * static_cast<Real>(o.l2), p) : 0;
  }
};

template <class T, class S>
struct FiniteModel {
  LoDTensor<T> parameter;
  std::array<LoDTensor<S>, 3> states;
};

/// Numbers of all sizes that a T has, of both signs, and zeros.
template <class T>
T any_size(Engine& engine) {
  using Limits = std::numeric_limits<T>;
  std::uniform_int_distribution<int> kind(0, 9);
  std::uniform_real_distribution<double> exponent(Limits::min_exponent - Limits::digits, Limits::max_exponent - 0.01);
  const auto sign = static_cast<float>(engine() % 2 == 0 ? 1 : -1);
  switch (kind(engine)) {
    case 0:
      return T{};
    case 1:
      return T(Limits::max() * T(sign));
    case 2:
      return T(Limits::denorm_min() * T(sign));
    case 3:
    case 4:
      return static_cast<T>(sign * 1.5F);
    default:
      return static_cast<T>(static_cast<double>(sign) * std::exp2(exponent(engine)));
  }
}

constexpr std::int64_t model_height = 7, model_width = 5;

template <class T, class S>
FiniteModel<T, S> any_model(Engine& engine) {
  FiniteModel<T, S> m{LoDTensor<T>({model_height, model_width}), {}};
  for (T& number : m.parameter.values()) number = any_size<T>(engine);
  for (auto& state : m.states) {
    state = LoDTensor<S>({model_height, model_width});
    const bool none_so_far = engine() % 3 == 0;
    for (S& number : state.values()) number = none_so_far ? S{} : any_size<S>(engine);
  }
  // Squares.
  for (S& number : m.states[0].values()) number = static_cast<S>(std::fabs(static_cast<double>(number)));
  return m;
}

template <class A, class B>
bool same_models(const A& a, const B& b) {
  bool same = same_bits(a.parameter, b.parameter);
  for (std::size_t k = 0; k < 3; ++k) same = same && same_bits(a.states[k], b.states[k]);
  return same;
}

template <class Rule, class T, class S>
void check_rule() {
  for (std::uint64_t sample = 0; sample < 60; ++sample) {
    Engine engine(first_seed() + sample);
    INFO("LOD_TEST_SEED=", first_seed(), ": sample ", sample);
    const auto one_of = [&](std::initializer_list<double> all) { return all.begin()[engine() % all.size()]; };
    const Options options = {one_of({0.001, 1, 1e-30, 1e30}),
                             one_of({0, 0.9, 0.5, 1}),
                             one_of({0, 0.999, 0.5, 1}),
                             one_of({0, 1e-8, 1e-6, 1e-60}),
                             one_of({0, 0, 0.5, 1e-30}),
                             one_of({0, 0, 0.25}),
                             engine() % 3 == 0 ? (std::int64_t{1} << 60) + 1 : static_cast<std::int64_t>(1 + sample)};
    const FiniteModel<T, S> before = any_model<T, S>(engine);
    SelectedRows<T> listed({1, 4, 6}, model_height, {model_width});
    for (T& number : listed.value().values()) number = any_size<T>(engine);
    const LoDTensor<T> dense = lod::to_dense(listed);

    FiniteModel<T, S> one = before;
    Rule::run(lod::CpuExecutor(1), one, dense, options, Sparse::EXACT);
    for_each_executor([&](const auto& executor) {
      FiniteModel<T, S> m = before;
      Rule::run(executor, m, dense, options, Sparse::EXACT);
      CHECK(same_models(m, one));
      m = before;
      Rule::run(executor, m, listed, options, Sparse::EXACT);
      CHECK(same_models(m, one));
      m = before;
      Rule::run(executor, m, listed, options, Sparse::LAZY);
      for (const std::int64_t row : {1, 4, 6})
        CHECK(same_bits(m.parameter.between(row, row + 1), one.parameter.between(row, row + 1)));
    });

    for (std::int64_t i = 0; i < model_height * model_width; ++i) {
      CAPTURE(i);
      CHECK(std::isfinite(static_cast<double>(one.parameter.data()[i])));
      for (int k = 0; k < Rule::states; ++k) {
        CHECK(std::isfinite(static_cast<double>(one.states[static_cast<std::size_t>(k)].data()[i])));
      }
    }
  }
}
template <class Rule>
void check_rule() {
  check_rule<Rule, float, float>();
  check_rule<Rule, double, double>();
  check_rule<Rule, lod::float16, lod::float16>();
  check_rule<Rule, lod::bfloat16, lod::bfloat16>();
  if constexpr (Rule::states > 0) {
    check_rule<Rule, lod::float16, float>();
    check_rule<Rule, lod::bfloat16, float>();
  }
}

/// One number: parameter, squares and the other states begin as given.
template <class Rule, class T, class S = T>
void check_number(const Options& options, double parameter, std::array<double, 3> states, double gradient) {
  FiniteModel<T, S> m{LoDTensor<T>({1}), {LoDTensor<S>({1}), LoDTensor<S>({1}), LoDTensor<S>({1})}};
  Real p = static_cast<Real>(static_cast<double>(m.parameter.data()[0] = static_cast<T>(parameter)));
  ExactStates s{};
  for (std::size_t k = 0; k < 3; ++k) {
    s[k] = static_cast<Real>(static_cast<double>(m.states[k].data()[0] = static_cast<S>(states[k])));
  }
  LoDTensor<T> g({1});
  const Real exact_g = static_cast<Real>(static_cast<double>(g.data()[0] = static_cast<T>(gradient)));
  Rule::formula(p, s, exact_g, options);
  Rule::run(lod::CpuExecutor(1), m, g, options, Sparse::EXACT);
  CAPTURE(parameter);
  CAPTURE(gradient);
  const auto close = [](auto found, Real exact) {
    using X = decltype(found);
    using Limits = std::numeric_limits<X>;
    const Real greatest = static_cast<Real>(static_cast<double>(Limits::max()));
    const Real expected = std::clamp(exact, -greatest, greatest);
    const Real error = std::fabs(static_cast<Real>(static_cast<double>(found)) - expected);
    return error <= 8 * static_cast<Real>(static_cast<double>(Limits::epsilon())) * std::fabs(expected) +
                        static_cast<Real>(static_cast<double>(Limits::denorm_min()));
  };
  CHECK(close(m.parameter.data()[0], p));
  for (std::size_t k = 0; k < Rule::states; ++k) CHECK(close(m.states[k].data()[0], s[k]));
}

/// Gradients whose squares are infinite, or vanish.
template <class Rule>
void check_large_and_tiny() {
  constexpr Options usual = {.rate = 0.5, .first = 0.9, .second = 0.99, .epsilon = 0, .l1 = 0, .l2 = 0, .step = 3};
  for (const double sign : {1.0, -1.0}) {
    for (const double g : {1e30, 3e38, 1e-30, 1e-44}) {
      check_number<Rule, float>(usual, 0.25, {}, sign * g);
      check_number<Rule, lod::bfloat16>(usual, 0.25, {}, sign * g);
      check_number<Rule, lod::bfloat16, float>(usual, 0.25, {}, sign * g);
    }
    for (const double g : {1e200, 1.7e308, 1e-200, 1e-320}) check_number<Rule, double>(usual, 0.25, {}, sign * g);
    for (const double g : {65504.0, 300.0}) check_number<Rule, lod::float16>(usual, 0.25, {}, sign * g);
    for (const double g : {65504.0, 300.0, 1e-7}) check_number<Rule, lod::float16, float>(usual, 0.25, {}, sign * g);
  }
}

}  // namespace

TEST_CASE("optimizers: what is finite stays finite, with the same bits on every executor and in every form") {
  check_rule<Sgd>();
  check_rule<Momentum<false>>();
  check_rule<Momentum<true>>();
  check_rule<Adagrad>();
  check_rule<Rmsprop<false>>();
  check_rule<Rmsprop<true>>();
  check_rule<Adam>();
  check_rule<Ftrl>();
}

TEST_CASE("optimizers: the formula holds where the square of a gradient is infinite or vanishes") {
  check_large_and_tiny<Adagrad>();
  check_large_and_tiny<Rmsprop<false>>();
  check_large_and_tiny<Rmsprop<true>>();
  check_large_and_tiny<Adam>();
  check_large_and_tiny<Ftrl>();
}

TEST_CASE_TEMPLATE("optimizers: the first step does not depend on the size of the gradient, without an epsilon", T,
                   float, double) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> gradients;
  for (int exponent = Limits::min_exponent - Limits::digits; exponent < Limits::max_exponent; ++exponent) {
    for (const double fraction : {0.51, 0.74, 0.99}) {
      const T gradient = static_cast<T>(std::ldexp(fraction, exponent));
      if (gradient > 0) gradients.push_back(gradient);
    }
  }
  const auto rows = static_cast<std::int64_t>(gradients.size());
  const auto gradient = LoDTensor<T>::from_values(lod::LoD(), {}, gradients);
  std::vector<std::int64_t> ids(gradients.size());
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  lod::SelectedRows<T> sparse(ids, rows, {});
  sparse.value() = gradient;
  for_each_executor([&](const auto& executor) {
    const auto check = [&](const char* name, double step, const auto& update) {
      CAPTURE(std::string(name));
      const auto check_form = [&](const auto& g) {
        LoDTensor<T> p({rows}), s({rows}), t({rows});
        update(g, p, s, t);
        for (std::int64_t i = 0; i < rows; ++i) {
          CAPTURE(gradients[static_cast<std::size_t>(i)]);
          CHECK(std::fabs(static_cast<double>(p.data()[i]) + step) <= 8 * static_cast<double>(Limits::epsilon()));
        }
      };
      check_form(gradient);
      check_form(sparse);
    };
    check("adagrad", 0.5, [&](const auto& g, auto& p, auto& s, auto&) {
      lod::adagrad(executor, p, s, g, {.learning_rate = 0.5, .epsilon = 0});
    });
    check("rmsprop", 1, [&](const auto& g, auto& p, auto& s, auto& t) {
      lod::rmsprop(executor, p, s, t, g, {.learning_rate = 0.5, .rho = 0.75, .epsilon = 0});
    });
    check("adam", 0.5, [&](const auto& g, auto& p, auto& s, auto& t) {
      lod::adam(executor, p, t, s, g, {.learning_rate = 0.5, .beta1 = 0.5, .beta2 = 0.75, .epsilon = 0, .step = 1});
    });
    check("ftrl", 0.5,
          [&](const auto& g, auto& p, auto& s, auto& t) { lod::ftrl(executor, p, s, t, g, {.learning_rate = 0.5}); });
    // An epsilon too small to hide that a square has vanished.
    check("adagrad, epsilon", 0.5, [&](const auto& g, auto& p, auto& s, auto&) {
      lod::adagrad(executor, p, s, g, {.learning_rate = 0.5, .epsilon = Limits::denorm_min() * 0x1p-60});
    });
  });
}

TEST_CASE("ftrl: any learning_rate_power keeps what is finite finite") {
  for (const double power : {-0.5, -1.0, -0.25, 0.0, 0.5}) {
    for (const float g : {0.0F, 1e-30F, 1e30F, 3e38F, -1e-44F, 1.0F}) {
      CAPTURE(power);
      CAPTURE(g);
      for_each_executor([&](const auto& executor) {
        LoDTensor<float> p({3}), squares({3}), linear({3}), gradient({3});
        for (int step = 0; step < 4; ++step) {
          for (float& number : gradient.values()) number = step == 2 ? 0 : g;
          lod::ftrl(executor, p, squares, linear, gradient, {.learning_rate = 0.1, .learning_rate_power = power});
          for (int i = 0; i < 3; ++i) {
            CHECK(std::isfinite(p.data()[i]));
            CHECK(std::isfinite(squares.data()[i]));
            CHECK(std::isfinite(linear.data()[i]));
          }
        }
      });
    }
  }
}

TEST_CASE("optimizers: infinite and NaN gradients stay what the formula makes of them") {
  for_each_executor([&](const auto& executor) {
    LoDTensor<float> p({2}), squares({2}), g({2});
    g.data()[0] = std::numeric_limits<float>::infinity();
    g.data()[1] = std::numeric_limits<float>::quiet_NaN();
    lod::adagrad(executor, p, squares, g, {.learning_rate = 0.1});
    CHECK(squares.data()[0] == std::numeric_limits<float>::infinity());
    CHECK(std::isnan(squares.data()[1]));
    CHECK(std::isnan(p.data()[1]));
  });
}
