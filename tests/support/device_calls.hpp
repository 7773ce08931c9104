// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls of operations that are written once and made on any device: their arguments are brought there, and their
/// results back.
#pragma once

#include <lod/cuda.hpp>
#include <lod/data_type.hpp>
#include <lod/ops.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod_test {

/// A result, on the CPU.
struct Result {
  lod::LoD lod;
  lod::Shape shape;
  lod::DataType type;
  std::vector<std::byte> values;
};

/// `found` is near `expected`, where both hold numbers of type T: each within a part of itself, and a tenth of that
/// part of what the numbers are like on the whole, since sums of many may be near 0 by chance.
template <class T>
bool near(const std::vector<std::byte>& found, const std::vector<std::byte>& expected, double tolerance) {
  if (found.size() != expected.size()) return false;
  const auto number = [](const std::vector<std::byte>& values, std::size_t at) {
    T value{};
    std::memcpy(&value, &values[at], sizeof(T));
    return static_cast<double>(value);
  };
  double squares = 0;
  for (std::size_t at = 0; at < expected.size(); at += sizeof(T)) {
    const double y = number(expected, at);
    if (std::isfinite(y)) squares += y * y;
  }
  const double like = std::sqrt(squares * sizeof(T) / static_cast<double>(std::max<std::size_t>(expected.size(), 1)));
  for (std::size_t at = 0; at < found.size(); at += sizeof(T)) {
    const double x = number(found, at), y = number(expected, at);
    const bool same = x == y || (std::isnan(x) && std::isnan(y));
    const bool close = std::isfinite(y) && std::fabs(x - y) <= tolerance * (std::fabs(y) + like / 10);
    if (!same && !close) return false;
  }
  return true;
}

/// Those of a GPU have other bits where it rounds in other places than the CPU: floating-point numbers may differ by a
/// few units of their last places.
inline void check_same_results(const std::vector<Result>& found, const std::vector<Result>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].lod == expected[i].lod);
    CHECK(found[i].shape == expected[i].shape);
    CHECK(found[i].type == expected[i].type);
    bool same = found[i].values == expected[i].values;
#ifndef LOD_TEST_EMULATED_GPU
    const auto close = [&]<class T>(T, double tolerance) {
      return found[i].type == lod::data_type_v<T> && near<T>(found[i].values, expected[i].values, tolerance);
    };
    same = same || close(float(), 1e-4) || close(double(), 1e-12) || close(lod::float16(), 4e-3) ||
           close(lod::bfloat16(), 3e-2);
#endif
    CHECK(same);
  }
}

/// What an operation is called with, on the device of an executor. Arguments and results are kept from one call to the
/// next.
template <lod::Executor E>
class DeviceCall {
 public:
  using Device = typename E::device;
  template <class T>
  using Tensor = lod::LoDTensor<T, Device>;

  explicit DeviceCall(const E& executor) : executor_(executor) {}

  const E& executor() const noexcept { return executor_; }

  /// x on the device. It goes there when it is first asked for.
  template <class T>
  const Tensor<T>& on(const lod::LoDTensor<T>& x) {
    if constexpr (std::same_as<Device, lod::Cpu>) {
      return x;
    } else {
      auto& place = arguments_[&x];
      if (!place) place = std::make_shared<Tensor<T>>(lod::to<Device>(executor_, x));
      return *static_cast<const Tensor<T>*>(place.get());
    }
  }

  template <class T>
  const lod::SelectedRows<T, Device>& on(const lod::SelectedRows<T>& g) {
    if constexpr (std::same_as<Device, lod::Cpu>) {
      return g;
    } else {
      auto& place = arguments_[&g];
      if (!place) place = std::make_shared<lod::SelectedRows<T, Device>>(lod::to<Device>(executor_, g));
      return *static_cast<const lod::SelectedRows<T, Device>*>(place.get());
    }
  }

  /// Object number `next` of the call, made by X(arguments...) in the first one.
  template <class X, class... Arguments>
  X& kept(const Arguments&... arguments) {
    if (next_ == kept_.size()) kept_.push_back(std::make_shared<X>(arguments...));
    return *static_cast<X*>(kept_[next_++].get());
  }
  /// The same, made by make().
  template <class Make>
  auto& made(const Make& make) {
    using X = decltype(make());
    if (next_ == kept_.size()) kept_.push_back(std::make_shared<X>(make()));
    return *static_cast<X*>(kept_[next_++].get());
  }
  /// An output: a tensor that is kept, and a result.
  template <class T>
  Tensor<T>& out() {
    auto& y = kept<Tensor<T>>(executor_.resource());
    result(y);
    return y;
  }
  /// A tensor that is among the results; it stands where it stood in the first call.
  template <class T>
  void result(Tensor<T>& y) {
    if (results_.size() <= next_result_) {
      results_.push_back(std::make_unique<TensorOf<T>>(y));
    }
    ++next_result_;
  }

  /// The same for row-sparse tensors: the rows that they name.
  template <class T>
  void result(lod::SelectedRows<T, Device>& y) {
    if (results_.size() <= next_result_) results_.push_back(std::make_unique<RowsOf<T>>(y));
    ++next_result_;
  }
  template <class T>
  lod::SelectedRows<T, Device>& out_rows() {
    auto& y = kept<lod::SelectedRows<T, Device>>(executor_.resource());
    result(y);
    return y;
  }

  /// Makes a call: f(*this).
  template <class F>
  void make(const F& f) {
    next_ = next_result_ = 0;
    f(*this);
  }
  /// The results; waits for them.
  std::vector<Result> results() const {
    std::vector<Result> all;
    for (const auto& y : results_) all.push_back(y->get(executor_));
    return all;
  }
  /// Lets all results be rubbish, so that the next call must write them.
  void forget() const {
    for (const auto& y : results_) y->spoil(executor_);
  }

 private:
  struct AnyTensor {
    virtual ~AnyTensor() = default;
    virtual Result get(const E&) const = 0;
    virtual void spoil(const E&) const = 0;
  };
  template <class T>
  struct RowsOf final : AnyTensor {
    explicit RowsOf(lod::SelectedRows<T, Device>& y) : rows(y) {}
    Result get(const E& executor) const override {
      const auto found = [&] {
        if constexpr (std::same_as<Device, lod::Cpu>) {
          return rows;
        } else {
          return lod::to<lod::Cpu>(executor, rows);
        }
      }();
      Result result{lod::LoD(), found.dense_shape(), lod::data_type_v<T>, {}};
      for (const auto bytes : {std::as_bytes(std::span(found.rows())), std::as_bytes(found.value().values())}) {
        result.values.insert(result.values.end(), bytes.begin(), bytes.end());
      }
      return result;
    }
    void spoil(const E& executor) const override {
      if constexpr (!std::same_as<Device, lod::Cpu>) {
        // Places that name nothing: what is not written is not there.
        lod::LoDTensor<std::int64_t> none(rows.rows().shape());
        for (std::int64_t& id : none.values()) id = -1;
        lod::to_into(executor, none, rows.rows());
      }
    }
    lod::SelectedRows<T, Device>& rows;
  };
  template <class T>
  struct TensorOf final : AnyTensor {
    explicit TensorOf(Tensor<T>& y) : tensor(y) {}
    Result get(const E& executor) const override {
      if constexpr (std::same_as<Device, lod::Cpu>) {
        const auto bytes = std::as_bytes(std::as_const(tensor).values());
        return {tensor.lod(), tensor.shape(), lod::data_type_v<T>, {bytes.begin(), bytes.end()}};
      } else {
        const lod::LoDTensor<T> there = lod::to<lod::Cpu>(executor, tensor);
        const auto bytes = std::as_bytes(there.values());
        return {there.lod(), there.shape(), lod::data_type_v<T>, {bytes.begin(), bytes.end()}};
      }
    }
    void spoil(const E& executor) const override {
      lod::LoDTensor<T> rubbish(tensor.lod(), tensor.row_shape(), lod::uninitialized);
      if (tensor.levels() == 0) rubbish = lod::LoDTensor<T>(tensor.shape(), lod::uninitialized);
      if (rubbish.values().empty()) return;
      std::memset(static_cast<void*>(rubbish.data()), 0x5a, rubbish.values().size_bytes());
      if constexpr (std::same_as<Device, lod::Cpu>) {
        tensor = rubbish;
      } else {
        lod::to_into(executor, rubbish, tensor);
      }
    }
    Tensor<T>& tensor;
  };

  const E& executor_;
  std::map<const void*, std::shared_ptr<void>> arguments_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<std::unique_ptr<AnyTensor>> results_;
  std::size_t next_ = 0;
  std::size_t next_result_ = 0;
};

}  // namespace lod_test
