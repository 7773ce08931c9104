// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

using lod::LoDTensor;
using lod::SelectedRows;
using lod::Sparse;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {

/// A parameter and up to three states.
template <class T, class S = T>
struct Model {
  LoDTensor<T> parameter;
  std::array<LoDTensor<S>, 3> states;

  Model(Engine& engine, const lod::Shape& shape) : parameter(real_numbers<T>(engine, shape)) {
    // As an optimizer's states are: squares are not negative, and not below the square of their mean.
    std::uniform_real_distribution<double> square(0.5, 2), mean(-0.5, 0.5);
    for (auto& state : states) state = LoDTensor<S>(shape);
    for (auto& x : states[0].values()) x = static_cast<S>(square(engine));
    for (auto& x : states[1].values()) x = static_cast<S>(square(engine));
    for (auto& x : states[2].values()) x = static_cast<S>(mean(engine));
  }
};
template <class T, class S>
bool same_model(const Model<T, S>& a, const Model<T, S>& b) {
  return same_bits(a.parameter, b.parameter) && same_bits(a.states[0], b.states[0]) &&
         same_bits(a.states[1], b.states[1]) && same_bits(a.states[2], b.states[2]);
}

using Formula = void (*)(double& p, std::array<double, 3>& s, double g, std::int64_t step);

// The formulas, as the papers and the documentation of PaddlePaddle's operators have them.
void sgd_formula(double& p, std::array<double, 3>&, double g, std::int64_t) { p -= 0.1 * g; }
void momentum_formula(double& p, std::array<double, 3>& s, double g, std::int64_t) {
  s[0] = 0.8 * s[0] + g;
  p -= 0.1 * s[0];
}
void nesterov_formula(double& p, std::array<double, 3>& s, double g, std::int64_t) {
  const double decayed = g + 0.25 * p;
  s[0] = 0.8 * s[0] + decayed;
  p -= 0.1 * (decayed + 0.8 * s[0]);
}
void adagrad_formula(double& p, std::array<double, 3>& s, double g, std::int64_t) {
  s[0] += g * g;
  p -= 0.1 * g / (std::sqrt(s[0]) + 0.125);
}
void rmsprop_formula(double& p, std::array<double, 3>& s, double g, std::int64_t) {
  s[0] = 0.7 * s[0] + 0.3 * g * g;
  s[1] = 0.6 * s[1] + 0.1 * g / std::sqrt(s[0] + 0.125);
  p -= s[1];
}
void centered_formula(double& p, std::array<double, 3>& s, double g, std::int64_t) {
  s[0] = 0.7 * s[0] + 0.3 * g * g;
  s[2] = 0.7 * s[2] + 0.3 * g;
  s[1] = 0.6 * s[1] + 0.1 * g / std::sqrt(s[0] - s[2] * s[2] + 0.125);
  p -= s[1];
}
void adam_formula(double& p, std::array<double, 3>& s, double g, std::int64_t step) {
  const double c1 = 1 - std::pow(0.7, step), c2 = 1 - std::pow(0.9, step);
  s[0] = 0.7 * s[0] + 0.3 * g;
  s[1] = 0.9 * s[1] + 0.1 * g * g;
  p -= 0.1 * (s[0] / c1) / (std::sqrt(s[1] / c2) + 0.125);
}
template <int power_percent>
void ftrl_formula(double& p, std::array<double, 3>& s, double g, std::int64_t) {
  const double power = power_percent / 100.0;
  const double squares = s[0] + g * g;
  s[1] += g - (std::pow(squares, -power) - std::pow(s[0], -power)) / 0.1 * p;
  const double sign = s[1] > 0 ? 1 : -1;
  p = std::abs(s[1]) > 0.5 ? (0.5 * sign - s[1]) / (std::pow(squares, -power) / 0.1 + 2 * 0.25) : 0;
  s[0] = squares;
}

/// Calls body(update, formula) for every optimizer; update(executor, model, gradient, mode, step) is one update.
template <class Body>
void for_each_optimizer(const Body& body) {
  const auto call = [&](const char* name, Formula formula, const auto& update) {
    CAPTURE(name);
    body(update, formula);
  };
  call("sgd", sgd_formula, [](const auto& executor, auto& m, const auto& g, Sparse mode, std::int64_t) {
    lod::sgd(executor, m.parameter, g, {.learning_rate = 0.1, .mode = mode});
  });
  for (const bool nesterov : {false, true}) {
    call(nesterov ? "nesterov" : "momentum", nesterov ? nesterov_formula : momentum_formula,
         [nesterov](const auto& executor, auto& m, const auto& g, Sparse mode, std::int64_t) {
           lod::momentum(executor, m.parameter, m.states[0], g,
                         {.learning_rate = 0.1,
                          .momentum = 0.8,
                          .nesterov = nesterov,
                          .l2_decay = nesterov ? 0.25 : 0.0,
                          .mode = mode});
         });
  }
  call("adagrad", adagrad_formula, [](const auto& executor, auto& m, const auto& g, Sparse mode, std::int64_t) {
    lod::adagrad(executor, m.parameter, m.states[0], g, {.learning_rate = 0.1, .epsilon = 0.125, .mode = mode});
  });
  constexpr lod::RmspropOptions rmsprop{.learning_rate = 0.1, .rho = 0.7, .epsilon = 0.125, .momentum = 0.6};
  call("rmsprop", rmsprop_formula, [=](const auto& executor, auto& m, const auto& g, Sparse mode, std::int64_t) {
    auto options = rmsprop;
    options.mode = mode;
    lod::rmsprop(executor, m.parameter, m.states[0], m.states[1], g, options);
  });
  call("centered", centered_formula, [=](const auto& executor, auto& m, const auto& g, Sparse mode, std::int64_t) {
    auto options = rmsprop;
    options.mode = mode;
    lod::rmsprop(executor, m.parameter, m.states[0], m.states[1], m.states[2], g, options);
  });
  call("adam", adam_formula, [](const auto& executor, auto& m, const auto& g, Sparse mode, std::int64_t step) {
    lod::adam(executor, m.parameter, m.states[0], m.states[1], g,
              {.learning_rate = 0.1, .beta1 = 0.7, .beta2 = 0.9, .epsilon = 0.125, .step = step, .mode = mode});
  });
  for (const double power : {-0.5, -0.3}) {
    call("ftrl", power == -0.5 ? ftrl_formula<-50> : ftrl_formula<-30>,
         [power](const auto& executor, auto& m, const auto& g, Sparse mode, std::int64_t) {
           lod::ftrl(executor, m.parameter, m.states[0], m.states[1], g,
                     {.learning_rate = 0.1, .l1 = 0.5, .l2 = 0.25, .learning_rate_power = power, .mode = mode});
         });
  }
}

template <class T>
SelectedRows<T> random_gradient(Engine& engine, const Numbers& rows, std::int64_t height, std::int64_t row_size) {
  return SelectedRows<T>(rows, height, real_numbers<T>(engine, {static_cast<std::int64_t>(rows.size()), row_size}));
}

/// Row lists for a height of 10: unsorted, repeated, none, all.
const std::vector<Numbers> row_lists = {
    {7, 0, 4}, {0, 4, 7, 4}, {9, 9, 9, 1, 3, 1, 9}, {}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}};

}  // namespace

TEST_CASE_TEMPLATE("optimizers: dense gradients by the formulas, step after step", T, float, double) {
  Engine engine(1);
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    CAPTURE(row_size);
    for_each_optimizer([&](const auto& update, Formula formula) {
      Model<T> model(engine, {11, row_size});
      const std::size_t count = model.parameter.values().size();
      std::vector<double> p(count);
      std::vector<std::array<double, 3>> s(count);
      for (std::size_t i = 0; i < count; ++i) {
        p[i] = model.parameter.data()[i];
        for (std::size_t k = 0; k < 3; ++k) s[i][k] = model.states[k].data()[i];
      }
      for (std::int64_t step = 1; step <= 3; ++step) {
        const auto g = real_numbers<T>(engine, {11, row_size});
        update(lod::CpuExecutor(1), model, g, Sparse::EXACT, step);
        for (std::size_t i = 0; i < count; ++i) formula(p[i], s[i], static_cast<double>(g.data()[i]), step);
      }
      const auto near = [](T found, double expected) {
        return std::abs(found - expected) <= (sizeof(T) == 4 ? 2e-5 : 1e-11) * (1 + std::abs(expected));
      };
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < count; ++i) {
        wrong += !near(model.parameter.data()[i], p[i]);
        for (std::size_t k = 0; k < 3; ++k) wrong += !near(model.states[k].data()[i], s[i][k]);
      }
      CHECK(wrong == 0);
    });
  }
}

TEST_CASE_TEMPLATE("optimizers: EXACT is the dense update with zeros elsewhere, bit for bit", T, float, double,
                   lod::float16, lod::bfloat16) {
  Engine engine(2);
  for (const Numbers& rows : row_lists) {
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      CAPTURE(rows.size());
      CAPTURE(row_size);
      for_each_optimizer([&](const auto& update, Formula) {
        Model<T> sparse(engine, {10, row_size});
        Model<T> dense = sparse;
        for (std::int64_t step = 1; step <= 2; ++step) {
          const auto g = random_gradient<T>(engine, rows, 10, row_size);
          for_each_executor([&](const auto& executor) {
            update(executor, sparse, g, Sparse::EXACT, step);
            update(executor, dense, lod::to_dense(executor, g), Sparse::EXACT, step);
            CHECK(same_model(sparse, dense));
          });
        }
      });
    }
  }
}

TEST_CASE_TEMPLATE("optimizers: LAZY does the same to the rows listed, and leaves the others alone", T, float, double,
                   lod::float16, lod::bfloat16) {
  Engine engine(3);
  for (const Numbers& rows : row_lists) {
    const std::set<std::int64_t> listed(rows.begin(), rows.end());
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      CAPTURE(rows.size());
      CAPTURE(row_size);
      for_each_optimizer([&](const auto& update, Formula) {
        const Model<T> start(engine, {10, row_size});
        const auto g = random_gradient<T>(engine, rows, 10, row_size);
        const auto put_back = [&](auto& to, const auto& from) {
          for (std::int64_t row = 0; row < 10; ++row) {
            if (!listed.contains(row)) std::copy(from.row(row).begin(), from.row(row).end(), to.row(row).begin());
          }
        };
        for_each_executor([&](const auto& executor) {
          Model<T> expected = start;
          update(working_alone(executor), expected, lod::to_dense(g), Sparse::EXACT, 1);
          put_back(expected.parameter, start.parameter);
          for (std::size_t k = 0; k < 3; ++k) put_back(expected.states[k], start.states[k]);
          Model<T> lazy = start;
          update(executor, lazy, g, Sparse::LAZY, 1);
          CHECK(same_model(lazy, expected));
          Model<T> merged = start;  // repeated rows added up beforehand, which rounds them to T
          update(executor, merged, lod::merge_add(executor, g), Sparse::LAZY, 1);
          CHECK(same_model(merged, lazy));
        });
      });
    }
  }
}

TEST_CASE("optimizers: the same bits for any number of threads, at sizes that all of them share") {
  Engine engine(4);
  // Rows of 3: shared among threads. One id has most of them: its sum is shared too.
  const std::int64_t height = slow ? 4000 : 20000;
  Numbers rows;
  for (int i = 0; i < grain; ++i) rows.push_back(i % 4 ? 77 : random_number(engine, 0, height - 1));
  const auto g = random_gradient<float>(engine, rows, height, 3);
  const auto dense = lod::to_dense(g);
  for_each_optimizer([&](const auto& update, Formula) {
    const Model<float> start(engine, {height, 3});
    for (const Sparse mode : {Sparse::LAZY, Sparse::EXACT}) {
      for_each_executor([&](const auto& executor) {
        Model<float> expected = start;
        update(working_alone(executor), expected, g, mode, 1);
        Model<float> model = start;
        update(executor, model, g, mode, 1);
        CHECK(same_model(model, expected));
        if (mode == Sparse::LAZY) return;
        model = start;
        update(executor, model, dense, mode, 1);
        CHECK(same_model(model, expected));
      });
    }
  });
}

TEST_CASE("optimizers: rows longer than a block of zeros") {
  Engine engine(5);
  const auto g = random_gradient<float>(engine, {3, 1}, 5, 2500);
  Model<float> sparse(engine, {5, 2500});
  Model<float> dense = sparse;
  const lod::CpuExecutor executor(2);
  lod::adam(executor, sparse.parameter, sparse.states[0], sparse.states[1], g, {.step = 1});
  lod::adam(executor, dense.parameter, dense.states[0], dense.states[1], lod::to_dense(g), {.step = 1});
  CHECK(same_model(sparse, dense));
}

TEST_CASE("optimizers: the cases of PaddlePaddle's tests, parameters of 5 and rows 0, 4, 7 of a height of 10") {
  Engine engine(6);
  for (const Numbers& rows : {Numbers{0, 4, 7}, Numbers{0, 4, 7, 4}}) {
    for (const std::int64_t row_size : {8, 12, 16}) {
      CAPTURE(rows.size());
      CAPTURE(row_size);
      for_each_optimizer([&](const auto& update, Formula formula) {
        Model<double> model(engine, {10, row_size});
        for (double& value : model.parameter.values()) value = 5;
        const Model<double> start = model;
        const auto g = random_gradient<double>(engine, rows, 10, row_size);
        const auto dense = lod::to_dense(g);
        update(lod::CpuExecutor(1), model, g, Sparse::EXACT, 1);
        const auto near = [](double found, double expected) {
          return std::abs(found - expected) <= 1e-11 * (1 + std::abs(expected));
        };
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < model.parameter.values().size(); ++i) {
          double p = 5;
          std::array<double, 3> s{};
          for (std::size_t k = 0; k < 3; ++k) s[k] = start.states[k].values()[i];
          formula(p, s, dense.values()[i], 1);
          wrong += !near(model.parameter.values()[i], p);
          for (std::size_t k = 0; k < 3; ++k) wrong += !near(model.states[k].values()[i], s[k]);
        }
        CHECK(wrong == 0);
      });
    }
  }
}
