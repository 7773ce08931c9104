// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls of the system that fail when a test says so. tests/descriptions/failing_calls.cpp has them.
#pragma once

#include <atomic>
#include <string_view>

namespace lod_test {

/// For as long as it lives, calls of a function of this name fail with this code: after `skipped` of them have gone
/// through, `times` of them. There may be two of these at a time. The calls of all threads count.
class FailingCalls {
 public:
  FailingCalls(std::string_view name, int code, int skipped = 0, int times = 1);
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;
  ~FailingCalls();

  /// How many have failed by now.
  int count() const { return count_; }
  /// Whether a call of this name fails now.
  bool fails(std::string_view name);

 private:
  std::string_view name_;
  int code_;
  std::atomic<int> skipped_, left_, count_ = 0;
};

/// Calls act() while the first call of that name fails, then while the second one does, and so on: until there are
/// fewer calls. prepare() is called before, check() afterwards. Returns how many there were.
template <class Prepare, class Act, class Check>
int for_each_failing_call(std::string_view name, int code, const Prepare& prepare, const Act& act, const Check& check) {
  for (int skipped = 0;; ++skipped) {
    prepare();
    int count = 0;
    {
      const FailingCalls failing(name, code, skipped);
      act();
      count = failing.count();
    }
    check();
    if (count == 0) return skipped;
  }
}

}  // namespace lod_test
