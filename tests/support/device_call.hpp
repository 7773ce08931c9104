// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls of operations that are written once and made on any device: their arguments are brought there, and their
/// results back.
#pragma once

#include <lod/data_type.hpp>
#include <lod/ops.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace lod_test {

/// Copies between the CPU and the memory of a device. That of GPUs is in support/gpu_transfer.hpp.
template <class Device>
struct Transfer;
template <>
struct Transfer<lod::Cpu> {
  template <class E, class X>
  static const X& there(const E&, const X& x) {
    return x;
  }
  template <class E, class X>
  static const X& here(const E&, const X& x) {
    return x;
  }
  template <class E, class X>
  static void into(const E&, const X& x, X& y) {
    y = x;
  }
};

/// A result, on the CPU.
struct Result {
  lod::LoD lod;
  lod::Shape shape;
  lod::DataType type;
  std::vector<std::byte> values;
};

/// f(part) for each tensor, or row-sparse tensor, of what an operation gives.
template <class T, class Device, class F>
void for_each_part(lod::LoDTensor<T, Device>& x, const F& f) {
  f(x);
}
template <class T, class Device, class F>
void for_each_part(lod::SelectedRows<T, Device>& x, const F& f) {
  f(x);
}
template <class T, class Device, class F>
void for_each_part(lod::TimeMajor<T, Device>& x, const F& f) {
  f(x.values());
}
template <class T, class Device, class F>
void for_each_part(lod::LstmWeights<T, Device>& x, const F& f) {
  for (auto* const part : {&x.input, &x.recurrent, &x.bias, &x.peepholes, &x.projection}) f(*part);
}
template <class T, class Device, class F>
void for_each_part(lod::GruWeights<T, Device>& x, const F& f) {
  for (auto* const part : {&x.input, &x.recurrent, &x.bias, &x.recurrent_bias}) f(*part);
}
template <class X, class F>
  requires requires(X& x) { x.begin()->forward.recurrent; }
void for_each_part(X& layers, const F& f) {
  for (auto& layer : layers) {
    for_each_part(layer.forward, f);
    for_each_part(layer.backward, f);
  }
}
template <class X, class F>
  requires requires(X& x) { x.begin()->values(); }
void for_each_part(X& parts, const F& f) {
  for (auto& part : parts) f(part);
}
template <class T, class Device, class F>
void for_each_part(std::vector<lod::SelectedRows<T, Device>>& parts, const F& f) {
  for (auto& part : parts) f(part);
}

/// What an operation is called with, on the device of an executor. Arguments and results are kept from one call to the
/// next.
template <lod::Executor E>
class DeviceCall {
 public:
  using Executor = E;
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
      if (!place) place = std::make_shared<Tensor<T>>(Transfer<Device>::there(executor_, x));
      return *static_cast<const Tensor<T>*>(place.get());
    }
  }

  template <class T>
  const lod::SelectedRows<T, Device>& on(const lod::SelectedRows<T>& g) {
    if constexpr (std::same_as<Device, lod::Cpu>) {
      return g;
    } else {
      auto& place = arguments_[&g];
      if (!place) place = std::make_shared<lod::SelectedRows<T, Device>>(Transfer<Device>::there(executor_, g));
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
  /// What another operation gives, as an argument.
  template <class Make>
  auto& given(const Make& make) {
    return made(make);
  }
  /// An output, made by make(): it is kept, and a result.
  template <class Make>
  auto& output(const Make& make) {
    auto& y = made(make);
    result(y);
    return y;
  }
  /// An output: a tensor that is kept, and a result.
  template <class T>
  Tensor<T>& out() {
    auto& y = kept<Tensor<T>>(executor_.resource());
    result(y);
    return y;
  }
  /// A tensor, or something that has several, that is among the results; it stands where it stood in the first call.
  template <class X>
  void result(X& y) {
    if (results_.size() <= next_result_) results_.push_back(std::make_unique<ResultOf<X>>(y));
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
    for (const auto& y : results_) y->append(executor_, all);
    return all;
  }
  /// Lets all results be rubbish, so that the next call must write them.
  void forget() const {
    for (const auto& y : results_) y->spoil(executor_);
  }

 private:
  struct AnyResult {
    virtual ~AnyResult() = default;
    virtual void append(const E&, std::vector<Result>&) const = 0;
    virtual void spoil(const E&) const = 0;
  };
  template <class X>
  struct ResultOf final : AnyResult {
    explicit ResultOf(X& y) : result(y) {}
    void append(const E& executor, std::vector<Result>& all) const override {
      for_each_part(result, [&](const auto& part) { all.push_back(result_of(executor, part)); });
    }
    void spoil(const E& executor) const override {
      for_each_part(result, [&](auto& part) { spoil_part(executor, part); });
    }
    X& result;
  };

  template <class T>
  static Result result_of(const E& executor, const lod::SelectedRows<T, Device>& rows) {
    const lod::SelectedRows<T> found = Transfer<Device>::here(executor, rows);
    Result result{lod::LoD(), found.dense_shape(), lod::data_type_v<T>, {}};
    for (const auto bytes : {std::as_bytes(std::span(found.rows())), std::as_bytes(found.value().values())}) {
      result.values.insert(result.values.end(), bytes.begin(), bytes.end());
    }
    return result;
  }
  template <class T>
  static Result result_of(const E& executor, const Tensor<T>& tensor) {
    const lod::LoDTensor<T>& found = Transfer<Device>::here(executor, tensor);
    const auto bytes = std::as_bytes(found.values());
    return {found.lod(), found.shape(), lod::data_type_v<T>, {bytes.begin(), bytes.end()}};
  }
  template <class T>
  static void spoil_part(const E& executor, lod::SelectedRows<T, Device>& rows) {
    if constexpr (!std::same_as<Device, lod::Cpu>) {
      // Places that name nothing: what is not written is not there.
      lod::LoDTensor<std::int64_t> none(rows.rows().shape());
      for (std::int64_t& id : none.values()) id = -1;
      Transfer<Device>::into(executor, none, rows.rows());
    }
  }
  template <class T>
  static void spoil_part(const E& executor, Tensor<T>& tensor) {
    lod::LoDTensor<T> rubbish(tensor.lod(), tensor.row_shape(), lod::uninitialized);
    if (tensor.levels() == 0) rubbish = lod::LoDTensor<T>(tensor.shape(), lod::uninitialized);
    if (rubbish.values().empty()) return;
    std::memset(static_cast<void*>(rubbish.data()), 0x5a, rubbish.values().size_bytes());
    Transfer<Device>::into(executor, rubbish, tensor);
  }

  const E& executor_;
  std::map<const void*, std::shared_ptr<void>> arguments_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<std::unique_ptr<AnyResult>> results_;
  std::size_t next_ = 0;
  std::size_t next_result_ = 0;
};

}  // namespace lod_test
