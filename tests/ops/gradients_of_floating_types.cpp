// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients of every floating-point type and of slices, against those in double.
#include "support/element_types.hpp"
#include "support/in_double.hpp"
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;
namespace {

/// Divided by 16, so that what is computed from it stays small.
template <class T>
LoDTensor<T> small_numbers(Engine& engine, const lod::Shape& shape) {
  auto x = small_integers<T>(engine, shape);
  for (T& number : x.values()) number = static_cast<T>(static_cast<float>(number) / 16);
  return x;
}

}  // namespace

TEST_CASE("div_grad, clip_grad, row_conv_grad, lstm_grad, ...: of every floating-point type, what double gives") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    const double error = sizeof(T) == 8 ? 1e-12 : sizeof(T) == 4 ? 1e-5 : 0.1;
    Engine engine(4);
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      INFO("row size ", row_size);
      const auto whole = small_integers<T>(engine, LoD::from_lengths({{1, 2, 0, 2}, {3, 4, 0, 1, 4}}), {row_size});
      const auto more = small_integers<T>(engine, {12, row_size}), two = small_integers<T>(engine, {2, row_size});
      const auto filter = small_integers<T>(engine, {3 * row_size, row_size});
      const auto x = whole.between(1, 4);
      const auto eight = more.between(3, 11);
      const Numbers list = {3, 0, 3, 5, 0, 3, 2, 3};
      check_in_double("sub_grad", x, [](const auto& e, const auto& v) {
        return lod::sub_grad(e, v, v, lod::sequence_first_step(e, v)).y;
      });
      check_in_double("mul_grad", x, [](const auto& e, const auto& v) {
        return lod::mul_grad(e, v, v, lod::sequence_first_step(e, v)).y;
      });
      check_in_double(
          "div_grad", x,
          [&](const auto& e, const auto& v) {
            using U = lod::value_type_t<std::remove_cvref_t<decltype(v)>>;
            LoDTensor<U> divisors({row_size});
            for (U& number : divisors.values()) number = static_cast<U>(2.0F);
            return lod::div_grad(e, v, v, divisors).y;
          },
          error);
      check_in_double("clip_grad", eight, [&](const auto& e, const auto& v) {
        const auto g = listed(v, list, 6);
        return lod::clip_grad(e, lod::merge_add(e, g), g, -3, 3).value();
      });
      check_in_double(
          "clip_by_norm_grad", eight,
          [&](const auto& e, const auto& v) {
            const auto g = listed(v, list, 6);
            return lod::clip_by_norm_grad(e, lod::merge_add(e, g), g, 2).value();
          },
          error);
      check_in_double("row_conv_grad", x, [&](const auto& e, const auto& v) {
        return lod::row_conv_grad(e, v, v, as<lod::value_type_t<std::remove_cvref_t<decltype(v)>>>(two)).dx;
      });
      check_in_double(
          "sequence_conv_grad", x,
          [&](const auto& e, const auto& v) {
            using U = lod::value_type_t<std::remove_cvref_t<decltype(v)>>;
            return lod::sequence_conv_grad(e, v, v, as<U>(filter), {}).dx;
          },
          error);
      check_in_double(
          "log_softmax_grad", x,
          [](const auto& e, const auto& v) {
            return lod::sequence_log_softmax_grad(e, v, lod::sequence_log_softmax(e, v));
          },
          error);
      check_in_double(
          "logsumexp_grad", x,
          [](const auto& e, const auto& v) {
            return lod::sequence_logsumexp_grad(e, lod::sequence_logsumexp(e, v), v);
          },
          error);
      const auto input = small_numbers<T>(engine, {row_size, 8}), recurrent = small_numbers<T>(engine, {2, 8});
      check_in_double(
          "lstm_grad", x,
          [&](const auto& e, const auto& v) {
            using U = lod::value_type_t<std::remove_cvref_t<decltype(v)>>;
            const lod::LstmWeights<U> weights{as<U>(input), as<U>(recurrent)};
            const auto y = lod::lstm(e, v, weights);
            return lod::lstm_grad(e, y.hidden, v, weights, y.trace).x;
          },
          error);
      const auto gates = small_numbers<T>(engine, {row_size, 6}), memory = small_numbers<T>(engine, {2, 6});
      check_in_double(
          "gru_grad", x,
          [&](const auto& e, const auto& v) {
            using U = lod::value_type_t<std::remove_cvref_t<decltype(v)>>;
            const lod::GruWeights<U> weights{as<U>(gates), as<U>(memory)};
            const auto y = lod::gru(e, v, weights);
            return lod::gru_grad(e, y.hidden, v, weights, y.trace).x;
          },
          error);
    }
  });
}
