// SPDX-License-Identifier: Apache-2.0
#include "gru.hpp"

#include "blas.hpp"

#include <cmath>

template <class T>
Gru<T>::Gru(std::int64_t input_size, std::int64_t hidden_size, Random& random)
    : input(input_size, 3 * hidden_size, random),
      recurrent(hidden_size, 3 * hidden_size, random),
      bias(1, 3 * hidden_size) {}

template <class T>
static T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

template <class T>
lod::LoDTensor<T> Gru<T>::forward(const lod::CpuExecutor& executor, const lod::LoDTensor<T>& x, Trace& trace) const {
  const lod::RankTable table(x.lod(), {.level = -1 + x.levels()});
  const std::int64_t n = hidden_size();
  auto xs = lod::to_time_major(executor, x, table);
  const lod::LoD steps = xs.values().lod();
  lod::LoDTensor<T> gates(steps, {3 * n}, lod::uninitialized), memory(steps, {n}, lod::uninitialized);
  lod::TimeMajor<T> hs{lod::LoDTensor<T>(steps, {n}, lod::uninitialized)};
  for (std::int64_t i = 0; i < gates.rows(); ++i) std::copy_n(bias.value.data(), 3 * n, gates.row(i).data());
  multiply(xs.values(), input.value, gates, {.accumulate = true});
  lod::LoDTensor<T> products({steps.size(0) ? steps.max_length(0) : 0, 3 * n});
  for (std::int64_t t = 0; t < table.steps(); ++t) {
    const std::int64_t active = table.active(t);
    auto g = gates[t];
    auto h = hs.step(t);
    T* hp = nullptr;
    if (t > 0) {
      auto before = hs.step(t - 1).slice(0, active);
      hp = before.data();
      multiply(before, recurrent.value, products.slice(0, active));
    }
    for (std::int64_t i = 0; i < active; ++i) {
      T* gi = g.data() + i * 3 * n;
      T* hi = h.data() + i * n;
      T* mi = memory[t].data() + i * n;
      const T* p = products.data() + i * 3 * n;
      for (std::int64_t j = 0; j < n; ++j) {
        const T u = sigmoid(gi[j] + p[j]);
        const T r = sigmoid(gi[n + j] + p[n + j]);
        const T m = p[2 * n + j];
        const T c = std::tanh(gi[2 * n + j] + r * m);
        hi[j] = u * (hp ? hp[i * n + j] : 0) + (1 - u) * c;
        mi[j] = m;
        gi[j] = u;
        gi[n + j] = r;
        gi[2 * n + j] = c;
      }
    }
  }
  trace = Trace{table, std::move(xs), std::move(gates), std::move(memory), std::move(hs)};
  return lod::from_time_major(executor, trace.h, table);
}

template <class T>
lod::LoDTensor<T> Gru<T>::backward(const lod::CpuExecutor& executor, const lod::LoDTensor<T>& dh_, const Trace& trace) {
  const std::int64_t n = hidden_size();
  auto dh = lod::to_time_major(executor, dh_, trace.table);
  const lod::LoD steps = dh.values().lod();
  lod::LoDTensor<T> da(steps, {3 * n}, lod::uninitialized), dp(steps, {3 * n}, lod::uninitialized);
  for (std::int64_t t = trace.table.steps() - 1; t >= 0; --t) {
    const std::int64_t active = trace.table.active(t);
    const T* hp = t ? trace.h.step(t - 1).data() : nullptr;
    T* dhp = t ? dh.step(t - 1).data() : nullptr;
    for (std::int64_t i = 0; i < active; ++i) {
      const T* g = trace.gates[t].data() + i * 3 * n;
      const T* m = trace.memory[t].data() + i * n;
      const T* d = dh.step(t).data() + i * n;
      T* a = da[t].data() + i * 3 * n;
      T* p = dp[t].data() + i * 3 * n;
      for (std::int64_t j = 0; j < n; ++j) {
        const T u = g[j], r = g[n + j], c = g[2 * n + j];
        const T h = hp ? hp[i * n + j] : 0;
        a[j] = p[j] = d[j] * (h - c) * u * (1 - u);
        a[2 * n + j] = d[j] * (1 - u) * (1 - c * c);
        a[n + j] = p[n + j] = a[2 * n + j] * m[j] * r * (1 - r);
        p[2 * n + j] = a[2 * n + j] * r;
        if (dhp) dhp[i * n + j] += d[j] * u;
      }
    }
    if (t > 0) {
      multiply(dp[t], recurrent.value, dh.step(t - 1).slice(0, active), {.transpose_b = true, .accumulate = true});
      multiply(trace.h.step(t - 1).slice(0, active), dp[t], recurrent.gradient,
               {.transpose_a = true, .accumulate = true});
    }
  }
  multiply(trace.x.values(), da, input.gradient, {.transpose_a = true, .accumulate = true});
  for (std::int64_t i = 0; i < da.rows(); ++i)
    for (std::int64_t j = 0; j < 3 * n; ++j) bias.gradient.data()[j] += da.row(i)[size_t(j)];
  lod::TimeMajor<T> dx{lod::LoDTensor<T>(steps, trace.x.values().row_shape(), lod::uninitialized)};
  multiply(da, input.value, dx.values(), {.transpose_b = true});
  return lod::from_time_major(executor, dx, trace.table);
}

template class Gru<float>;
template class Gru<double>;
