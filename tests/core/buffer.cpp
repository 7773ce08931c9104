// SPDX-License-Identifier: Apache-2.0
#include "support/counting_resource.hpp"
#include <lod/core/buffer.hpp>
#include <lod/executor.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <thread>
#include <utility>
#include <vector>

using lod::Buffer;

static_assert(lod::Executor<lod::CpuExecutor>);

TEST_CASE("Buffer: memory is aligned, shared by copies, and freed by the last of them") {
  lod_test::CountingResource resource;
  {
    Buffer<char> first(100, &resource);
    CHECK(reinterpret_cast<std::uintptr_t>(first.data()) % lod::alignment == 0);
    const Buffer<char> second = first;
    CHECK(second.data() == first.data());
    first = Buffer<char>();
    CHECK(resource.live == 1);
    CHECK(second.size() == 100);
  }
  CHECK(resource.live == 0);
}

TEST_CASE("Buffer: a move takes the memory and leaves none") {
  lod_test::CountingResource resource;
  Buffer<int> first(3, &resource);
  const int* data = first.data();
  const Buffer<int> second = std::move(first);
  CHECK(second.data() == data);
  CHECK(first.size() == 0);  // NOLINT: the state after a move is a promise
  CHECK(first.data() == nullptr);
  CHECK(resource.allocations == 1);
}

TEST_CASE("Buffer: large blocks of the standard resource are kept for others of about their size") {
  constexpr std::int64_t size = std::int64_t{8} << 20;
  auto* const standard = std::pmr::new_delete_resource();
  const auto given_back = [=](std::int64_t bytes) {
    Buffer<char> large(bytes, standard);
    large.data()[0] = 1;
    return large.data();
  };
  lod::limit_kept_memory(0);
  lod::limit_kept_memory(size + 1000);
  const char* const first = given_back(size);
  CHECK(given_back(size - size / 8) == first);
  {
    const Buffer<char> again(size, standard), other(size, standard);
    CHECK(again.data() == first);
    CHECK(other.data() != first);
  }
  // There was room for one of the two. It does not serve a smaller request, and leaves its room to it.
  CHECK(given_back(size / 2) == given_back(size / 2));
  lod::limit_kept_memory(lod::detail::KeptMemory::initial_limit);
}

TEST_CASE("Buffer: no values take no memory") {
  lod_test::CountingResource resource;
  Buffer<double> none(0, &resource);
  none.resize(0);
  CHECK(none.data() == nullptr);
  CHECK(resource.allocations == 0);
}

TEST_CASE("Buffer: resize reuses what nobody shares") {
  lod_test::CountingResource resource;
  Buffer<int> values(10, &resource);
  const int* data = values.data();
  values.resize(4);
  values.resize(10);
  CHECK(values.data() == data);
  const Buffer<int> shared = values;
  values.resize(5);
  CHECK(values.data() != data);
  CHECK(shared.data() == data);
  CHECK(shared.size() == 10);
}

TEST_CASE("Buffer: a resize that fails leaves it as it was") {
  lod_test::CountingResource resource;
  Buffer<int> values(10, &resource);
  const int* data = values.data();
  resource.fail_from = 1;
  CHECK_THROWS_AS(values.resize(11), std::bad_alloc);
  CHECK(values.data() == data);
  CHECK(values.size() == 10);
}

TEST_CASE("Buffer: bytes beyond the address space are refused before the resource is asked") {
  lod_test::CountingResource resource;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_WITH_AS(Buffer<double>(most / 4, &resource), doctest::Contains("more than memory can hold"),
                       lod::ShapeMismatch);
  CHECK_THROWS_AS(Buffer<char>(most, &resource), lod::ShapeMismatch);
  CHECK(resource.allocations == 0);
}

TEST_CASE("Buffer: wrapped memory is never left, and an owner lives as long as the last sharer") {
  std::vector<int> memory(4);
  auto values = Buffer<int>::wrap(memory);
  CHECK(values.wrapped());
  values.resize(2);
  values.resize(4);
  CHECK(values.data() == memory.data());
  CHECK_THROWS_WITH_AS(values.resize(5), doctest::Contains("holds 4 values, expected 5"), lod::ShapeMismatch);
  CHECK(values.size() == 4);

  auto owner = std::make_shared<std::vector<int>>(3);
  const std::weak_ptr<std::vector<int>> watch = owner;
  const std::span<int> span = *owner;
  auto owned = Buffer<int>::wrap(span, std::move(owner));
  auto constant = owned.as_const();
  owned = Buffer<int>();
  CHECK(!watch.expired());
  CHECK(constant.data() == span.data());
  constant = Buffer<const int>();
  CHECK(watch.expired());
}

TEST_CASE("Workspace: a block comes back and is lent again, the smallest that suffices") {
  lod_test::CountingResource resource;
  {
    const lod::CpuExecutor executor(1, &resource);
    auto& workspace = executor.workspace();
    const void* small = nullptr;
    {
      const lod::Workspace::Loan<int> a(workspace, 200);
      const lod::Workspace::Loan<int> b(workspace, 1000);
      CHECK(a.data() != b.data());
      CHECK(a.span().size() == 200);
      small = a.data();
    }
    CHECK(resource.allocations == 2);
    const lod::Workspace::Loan<char> again(workspace, 800);
    CHECK(static_cast<const void*>(again.data()) == small);
    const lod::Workspace::Loan<char> other(workspace, 4000);
    CHECK(resource.allocations == 2);
    const lod::CpuExecutor copy = executor;
    CHECK(&copy.workspace() == &workspace);
  }
  CHECK(resource.live == 0);
}

TEST_CASE("Workspace: release gives back what is not lent") {
  lod_test::CountingResource resource;
  const lod::CpuExecutor executor(1, &resource);
  auto& workspace = executor.workspace();
  const lod::Workspace::Loan<int> lent(workspace, 200);
  { const lod::Workspace::Loan<int> large(workspace, 1000); }
  { const lod::Workspace::Kept<lod::Buffer<int>> kept(workspace, 5, &resource); }
  CHECK(resource.live == 3);
  workspace.release();
  CHECK(resource.live == 1);
  lent[9] = 1;
  { const lod::Workspace::Loan<int> again(workspace, 1000); }
  CHECK(resource.live == 2);
}

TEST_CASE("Workspace: a few values are in the loan itself, aligned as others are") {
  lod_test::CountingResource resource;
  const lod::CpuExecutor executor(1, &resource);
  const lod::Workspace::Loan<char> none(executor.workspace(), 0), one(executor.workspace(), 1);
  const lod::Workspace::Loan<std::int64_t> most(executor.workspace(), 64);
  CHECK(resource.allocations == 0);
  for (std::int64_t& number : most.span()) number = 1;
  CHECK(static_cast<const void*>(one.data()) != most.data());
  CHECK(reinterpret_cast<std::uintptr_t>(one.data()) % lod::alignment == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(most.data()) % lod::alignment == 0);
  const lod::Workspace::Loan<std::int64_t> more(executor.workspace(), 65);
  CHECK(resource.allocations == 1);
}

TEST_CASE("CpuExecutor: one that was moved from works on") {
  lod::CpuExecutor executor(3);
  const lod::CpuExecutor moved = std::move(executor);
  CHECK(&executor.workspace() == &moved.workspace());
  CHECK(executor.threads() == 3);
}

TEST_CASE("Workspace: a loan too large for any address is refused") {
  const lod::CpuExecutor executor(1);
  CHECK_THROWS_AS(lod::Workspace::Loan<double>(executor.workspace(), std::numeric_limits<std::int64_t>::max()),
                  lod::ShapeMismatch);
}

TEST_CASE("Workspace: an object comes back and is lent again as it was left, the last one first") {
  const lod::CpuExecutor executor(1);
  using Numbers = std::vector<int>;
  using Kept = lod::Workspace::Kept<Numbers>;
  {
    const Kept a(executor.workspace(), std::size_t{3});
    CHECK(*a == Numbers{0, 0, 0});
    const Kept b(executor.workspace());
    CHECK(b->empty());
    b->push_back(7);
    a->push_back(5);
    const lod::Workspace::Kept<int> of_another_type(executor.workspace());
  }
  const Kept a(executor.workspace()), b(executor.workspace()), c(executor.workspace());
  CHECK(*a == Numbers{0, 0, 0, 5});
  CHECK(*b == Numbers{7});
  CHECK(c->empty());
}

TEST_CASE("Workspace: threads borrow from it at the same time") {
  const lod::CpuExecutor executor(1);
  std::vector<std::thread> threads;
  std::vector<char> intact(4, 1);
  for (std::size_t thread = 0; thread < intact.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (std::int64_t round = 1; round < 200; ++round) {
        const lod::Workspace::Loan<std::size_t> loan(executor.workspace(), round);
        for (auto& number : loan.span()) number = thread;
        for (const auto number : loan.span()) intact[thread] = static_cast<char>(intact[thread] && number == thread);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(intact == std::vector<char>(4, 1));
}

TEST_CASE("CpuExecutor: at least one thread") {
  CHECK(lod::CpuExecutor(3).threads() == 3);
  CHECK_THROWS_WITH_AS(lod::CpuExecutor(0), doctest::Contains("0 threads"), lod::OutOfRange);
}
