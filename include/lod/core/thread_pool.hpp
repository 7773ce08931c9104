// SPDX-License-Identifier: Apache-2.0
/// @file
/// The threads that share the work of operations. Nobody ever waits for a thread that has not begun: the calling thread
/// claims an operation's tasks one after the other, and threads of the pool that arrive in time claim some of them. A
/// thread that arrives late, because other programs use the processors too, finds its invitation withdrawn. So beside
/// other work an operation never takes much longer than with one thread.
#pragma once

#include <lod/core/processors.hpp>
#include <lod/core/target.hpp>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#ifdef __linux__
#  include <linux/futex.h>
#  include <sys/syscall.h>
#  include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>

namespace lod::inline LOD_INTERFACE::detail {

/// A number that threads wait for. Not std::atomic's own wait: that keeps a table of waiting threads, and if two
/// modules of a program have one each, neither wakes the other's threads.
class WaitWord {
 public:
  LOD_TAGGED std::uint32_t load() const noexcept { return word_.load(std::memory_order_acquire); }
  LOD_TAGGED std::uint32_t add(std::uint32_t n) noexcept { return word_.fetch_add(n, std::memory_order_acq_rel); }
  LOD_TAGGED std::uint32_t set(std::uint32_t bits) noexcept { return word_.fetch_or(bits, std::memory_order_acq_rel); }
  /// Blocks while the number is `known`; may return earlier.
  LOD_TAGGED void wait(std::uint32_t known) const noexcept {
#ifdef __linux__
    syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, known, nullptr, nullptr, 0);
#else
    static_cast<void>(known);
    sched_yield();
#endif
  }
  /// Wakes the thread that waits at this address. The number need not exist any more: whoever waits looks again.
  LOD_TAGGED static void wake(const WaitWord* word) noexcept {
#ifdef __linux__
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
#else
    static_cast<void>(word);
#endif
  }

 private:
  std::atomic<std::uint32_t> word_ = 0;
};

/// Nanoseconds of a clock that never goes back, or, with CLOCK_THREAD_CPUTIME_ID, of the calling thread's time on a
/// processor.
LOD_TAGGED inline std::int64_t clock(clockid_t which = CLOCK_MONOTONIC) noexcept {
  timespec now;
  clock_gettime(which, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// For how many nanoseconds the calling thread has been blocked until the threads that it had invited had finished.
[[gnu::visibility("hidden")]] inline constinit thread_local std::int64_t time_waited = 0;

/// Puts off the cancellation of the calling thread (pthread_cancel) for as long as this exists. A cancelled thread
/// unwinds its stack as if by an exception that nobody may keep; where other threads work on what is on that stack, or
/// what functions throw is kept for later, the program would end.
class CancellationPutOff {
 public:
  LOD_TAGGED CancellationPutOff() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  CancellationPutOff(const CancellationPutOff&) = delete;
  CancellationPutOff& operator=(const CancellationPutOff&) = delete;
  LOD_TAGGED ~CancellationPutOff() { pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

/// The tasks of one operation, which threads claim one by one.
class SharedTasks {
 public:
  /// Does task `task`; `thread` is the number of the thread among those that work on these tasks.
  using Run = void (*)(const void* body, std::int64_t task, int thread);
  /// `body` is what `run` is called with.
  LOD_TAGGED SharedTasks(std::int64_t tasks, Run run, const void* body) noexcept
      : tasks_(tasks), run_(run), body_(body) {}

  /// A number for the calling thread.
  LOD_TAGGED int join() noexcept { return threads_.fetch_add(1, std::memory_order_relaxed); }
  /// Claims and does tasks until none is left. If one throws, no more are begun.
  LOD_TAGGED void work() noexcept { work(join(), std::numeric_limits<std::int64_t>::max()); }
  /// The same for the thread with this number, which has joined, and only until the `clock` shows `until`. Returns
  /// whether no task is left.
  LOD_TAGGED bool work(int thread, std::int64_t until) noexcept {
    const CancellationPutOff put_off;
    try {
      for (std::int64_t task; (task = next_.fetch_add(1, std::memory_order_relaxed)) < tasks_;) {
        run_(body_, task, thread);
        if (until != std::numeric_limits<std::int64_t>::max() && clock() >= until) return false;
      }
    } catch (...) {
      next_.store(tasks_, std::memory_order_relaxed);
      if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
    }
    return true;
  }
  /// To be called when all threads have finished. If a task threw, throws that exception, the first of several. In a
  /// child that a task forked, throws std::runtime_error, since the tasks of the other threads are lost there.
  LOD_TAGGED void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  friend class ThreadPool;
  static constexpr std::uint32_t awaited = std::uint32_t{1} << 31;

  /// Says that a thread of the pool has finished. Whoever waits for it may then go on and destroy this.
  LOD_TAGGED void finish() noexcept {
    const WaitWord* const word = &finished_;
    if ((finished_.add(1) & awaited) != 0) WaitWord::wake(word);
  }

  LOD_TAGGED void lose() noexcept {
    error_ = std::make_exception_ptr(std::runtime_error("fork: this child returned from the middle of an operation"));
  }

  const std::int64_t tasks_;
  const Run run_;
  const void* const body_;
  std::atomic<int> threads_ = 0;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
  // On separate cache lines: each claim writes the first, and whoever waits reads the second.
  alignas(64) std::atomic<std::int64_t> next_ = 0;
  alignas(64) WaitWord finished_;  // how many threads of the pool have finished; whether a thread sleeps until all have
};

/// Threads that wait for work. There is one pool in each module of a program (the executable, a shared library), which
/// the executors made there share. Threads are started when they are first needed, look for the next operation for a
/// millisecond, then sleep; they are ended when the module is unloaded or the process ends. An operation that is called
/// after that, or for which the system starts no threads, works on the calling thread alone. Any number of threads may
/// call the pool at a time, and so may tasks.
class ThreadPool {
 public:
  /// The pool of the calling module.
  LOD_TAGGED static ThreadPool& of_module();

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Works on the tasks, on the calling thread and at most `threads` - 1 of the pool, until all are done. Takes fewer
  /// threads if some work on other tasks, so that all together they are no more than the processors, or than an
  /// executor asks for. Wakes sleeping threads for `large` work. For less, waking one costs more than it gains, unless
  /// it stays awake for the next call: so only if the processors are not busy, and this is the second call within a
  /// short time.
  ///
  /// While other work keeps the processors busy, the calling thread begins alone: a thread that is put aside in the
  /// middle of a task would delay short work by more than it takes.
  LOD_TAGGED void run(SharedTasks& tasks, int threads, bool large) noexcept {
    const int number = tasks.join();
    const std::int64_t now = clock();
    const bool often = now - last_run_.exchange(now, std::memory_order_relaxed) < patience;
    const bool busy = now < busy_until_.load(std::memory_order_relaxed);
    if (busy && tasks.work(number, now + alone)) return;
    const int forks_before = forks_;
    const int callers = callers_.fetch_add(1, std::memory_order_relaxed);
    const int wanted = std::min(threads - 1, room(threads - 1) - callers);
    const int invited = wanted > 0 ? invite(tasks, wanted, large || often || busy) : 0;
    tasks.work(number, std::numeric_limits<std::int64_t>::max());
    if (forks_before == forks_) {
      callers_.fetch_sub(1, std::memory_order_relaxed);
      if (invited > 0) finish(tasks, static_cast<std::uint32_t>(invited));
    } else if (invited > 0) {
      tasks.lose();
    }
  }

 private:
  /// A thread. Its `state` says what it is asked to do: a pointer to tasks, or one of the values below.
  struct alignas(64) Worker {
    LOD_TAGGED Worker(ThreadPool& its_pool, SharedTasks& first) noexcept
        : state(&first), invited_from(processor()), pool(its_pool) {}
    std::atomic<SharedTasks*> state;  // null: waits
    std::atomic<int> invited_from;    // the processor of the thread that invited this one last
    WaitWord bell;
    Worker* next = nullptr;
    ThreadPool& pool;
    pthread_t handle{};
    std::int64_t noted_at = 0, aside = 0;  // the clock, and time_aside(), when this thread last looked at both
  };
  // Values that are no tasks' address.
  LOD_TAGGED static SharedTasks* marker(std::uintptr_t value) noexcept { return reinterpret_cast<SharedTasks*>(value); }
  LOD_TAGGED static SharedTasks* asleep() noexcept { return marker(1); }
  LOD_TAGGED static SharedTasks* at_work() noexcept { return marker(2); }
  LOD_TAGGED static SharedTasks* ended() noexcept { return marker(3); }

  // In nanoseconds: how long a thread looks for the next operation before it sleeps; how long it takes to wake a
  // thread, and so how long a waiting thread looks before it blocks; how long the calling thread works alone while the
  // processors are busy.
  static constexpr std::int64_t patience = 1'000'000, waking = 100'000, alone = 4'000'000;

  LOD_TAGGED explicit ThreadPool(int room) noexcept : room_(room) {}
  LOD_TAGGED ~ThreadPool() = default;

  // ---- Calling threads ----

  /// How many threads there may be; at least `wanted`.
  LOD_TAGGED int room(int wanted) noexcept {
    int room = room_.load(std::memory_order_relaxed);
    while (room < wanted && !room_.compare_exchange_weak(room, wanted, std::memory_order_relaxed)) {
    }
    return std::max(room, wanted);
  }

  /// Invites up to `wanted` threads, and returns how many: waiting ones, sleeping ones if `wake`, and new ones.
  LOD_TAGGED int invite(SharedTasks& tasks, int wanted, bool wake) noexcept {
    int invited = 0;
    const int here = processor();
    for (Worker* worker = workers_.load(std::memory_order_acquire); worker && invited < wanted; worker = worker->next) {
      SharedTasks* state = worker->state.load(std::memory_order_relaxed);
      if (state && !(wake && state == asleep())) continue;
      worker->invited_from.store(here, std::memory_order_relaxed);
      if (!worker->state.compare_exchange_strong(state, &tasks, std::memory_order_acq_rel)) continue;
      ++invited;
      if (state == asleep()) ring(*worker);
    }
    while (invited < wanted && started_.load(std::memory_order_relaxed) < room_.load(std::memory_order_relaxed)) {
      const Start start_one = start_;
      if (!start_one || !start_one(*this, tasks)) break;
      ++invited;
    }
    return invited;
  }

  /// Withdraws the invitations that no thread has taken yet, and waits for those that have.
  LOD_TAGGED void finish(SharedTasks& tasks, std::uint32_t invited) noexcept {
    undelayed_.fetch_add(1, std::memory_order_relaxed);
    std::uint32_t expected = invited;
    if (tasks.finished_.load() == expected) return;
    for (Worker* worker = workers_.load(std::memory_order_acquire); worker; worker = worker->next) {
      SharedTasks* state = &tasks;
      if (worker->state.compare_exchange_strong(state, nullptr, std::memory_order_acq_rel)) --expected;
    }
    if (spin([&] { return tasks.finished_.load() == expected; }, waking)) return;
    for (std::uint32_t finished = tasks.finished_.set(SharedTasks::awaited) | SharedTasks::awaited;
         finished != (expected | SharedTasks::awaited); finished = tasks.finished_.load()) {
      const std::int64_t begin = clock();
      tasks.finished_.wait(finished);
      time_waited += clock() - begin;
    }
  }

  LOD_TAGGED static void ring(Worker& worker) noexcept {
    worker.bell.add(1);
    WaitWord::wake(&worker.bell);
  }

  // ---- The threads ----

  /// Starts a thread and invites it; false if that is impossible, or another thread is just starting one.
  LOD_TAGGED static bool start(ThreadPool& pool, SharedTasks& tasks) noexcept {
    if (pool.starting_.exchange(true)) return false;
    // Not by operator new: programs that count the allocations of a second call should not see those of a thread that
    // starts then.
    void* const memory = pool.start_.load() ? std::aligned_alloc(alignof(Worker), sizeof(Worker)) : nullptr;
    Worker* const worker = memory ? new (memory) Worker(pool, tasks) : nullptr;
    bool started = false;
    if (worker) {
      // Signals go to the program's own threads.
      sigset_t all, before;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      started = pthread_create(&worker->handle, nullptr, &ThreadPool::serve, worker) == 0;
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    if (started) {
      worker->next = pool.workers_.load(std::memory_order_relaxed);
      pool.workers_.store(worker, std::memory_order_release);
      pool.started_.fetch_add(1, std::memory_order_relaxed);
    } else {
      std::free(memory);
      pool.start_ = nullptr;  // what the system refused is not tried again: others need threads, too
    }
    pool.starting_ = false;
    return started;
  }

  LOD_TAGGED static void* serve(void* self) noexcept {
    Worker& worker = *static_cast<Worker*>(self);
    const int forks_before = worker.pool.forks_;
    note_time(worker);
    for (;;) {
      SharedTasks* tasks = worker.state.load(std::memory_order_relaxed);
      if (tasks == ended()) return nullptr;
      if (!tasks || tasks == asleep()) {
        worker.pool.doze(worker);
      } else if (worker.state.compare_exchange_strong(tasks, at_work(), std::memory_order_acq_rel)) {
        const bool displaces = displaces_caller(worker);
        if (!displaces) tasks->work();                           // else it is better off without this thread
        worker.state.store(nullptr, std::memory_order_release);  // first: the caller may have more work at once
        tasks->finish();
        if (forks_before != worker.pool.forks_)
          return nullptr;  // in a child that a task forked, whose only thread this is
        if (was_put_aside(worker) || displaces) worker.pool.note_delay();
      }
    }
  }

  /// Waits until there is something to do: looks for some time, then sleeps.
  LOD_TAGGED void doze(Worker& worker) noexcept {
    const auto invited = [&worker] { return worker.state.load(std::memory_order_relaxed) != nullptr; };
    if (displaces_caller(worker)) step_aside();
    if (!displaces_caller(worker) && spin(invited, patience)) return;
    SharedTasks* state = nullptr;
    if (!worker.state.compare_exchange_strong(state, asleep(), std::memory_order_acq_rel)) return;
    for (;;) {
      const std::uint32_t rings = worker.bell.load();
      if (worker.state.load(std::memory_order_acquire) != asleep()) return note_time(worker);
      worker.bell.wait(rings);
    }
  }

  /// Whether the calling thread, `worker`, runs on the processor from which it was last invited, because all others
  /// are busy: then it must leave that processor to the inviting thread. Known of each thread by itself, because tasks
  /// call operations, too: a thread that does a task may invite others, and displaces nobody then.
  LOD_TAGGED static bool displaces_caller(const Worker& worker) noexcept {
    const int here = processor();
    return here >= 0 && here == worker.invited_from.load(std::memory_order_relaxed);
  }
  /// Moves the calling thread to another of the processors that it may use.
  LOD_TAGGED static void step_aside() noexcept {
#ifdef __linux__
    cpu_set_t all;
    const int here = processor();
    if (here < 0 || sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return;
    cpu_set_t others = all;
    CPU_CLR(static_cast<std::size_t>(here), &others);
    if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof all, &all);
#endif
  }
  /// The number of the processor that the calling thread is on; negative where that is not known.
  LOD_TAGGED static int processor() noexcept {
#ifdef __linux__
    return sched_getcpu();
#else
    return -1;
#endif
  }

  /// Polls done() for at most `longest` nanoseconds; only once while the processors are busy.
  template <class Done>
  LOD_TAGGED bool spin(const Done& done, std::int64_t longest) noexcept {
    const std::int64_t begin = clock();
    if (begin < busy_until_.load(std::memory_order_relaxed)) return done();
    for (std::int64_t now = begin; now - begin < longest;) {
      for (int i = 0; i < 16; ++i) {
        if (done()) return true;
        pause();
      }
      const std::int64_t before = now;
      now = clock();
      if (now - before > waking) break;  // this thread has been put aside: there is other work for its processor
    }
    return done();
  }

  /// The difference of two values is the time during which the calling thread had no processor, though it could have
  /// used one: without the time that it waited for others.
  LOD_TAGGED static std::int64_t time_aside() noexcept {
    return clock() - clock(CLOCK_THREAD_CPUTIME_ID) - time_waited;
  }
  LOD_TAGGED static void note_time(Worker& worker) noexcept {
    worker.noted_at = clock();
    worker.aside = time_aside();
  }
  /// Whether the calling thread, `worker`, has had no processor for long since it was last noted. To ask the system for
  /// a thread's time takes as long as short tasks, so that is only done if so much time has passed at all.
  LOD_TAGGED static bool was_put_aside(Worker& worker) noexcept {
    constexpr std::int64_t longest = 2 * waking;
    if (clock() - worker.noted_at <= longest) return false;
    const std::int64_t before = worker.aside;
    note_time(worker);
    return worker.aside - before > longest;
  }

  /// To be called when a thread has been put aside in the middle of tasks. If that happens more often than once in 16
  /// times, the processors are taken to be busy: for 10 ms, and each time that it happens again, for longer.
  LOD_TAGGED void note_delay() noexcept {
    const std::int64_t now = clock();
    const bool often = undelayed_.exchange(0, std::memory_order_relaxed) < 16;
    if (now < busy_until_.load(std::memory_order_relaxed)) return;
    const std::int64_t last = busy_for_.load(std::memory_order_relaxed);
    const std::int64_t next = often ? std::clamp<std::int64_t>(2 * last, 10'000'000, 160'000'000) : 0;
    busy_for_.store(next, std::memory_order_relaxed);
    busy_until_.store(now + next, std::memory_order_relaxed);
  }
  LOD_TAGGED static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  // ---- Ends ----

  /// Ends all threads, except one that is calling this from a task; no more are started.
  LOD_TAGGED void end() noexcept {
    start_ = nullptr;
    while (starting_) sched_yield();
    for (Worker* worker = workers_.load(std::memory_order_acquire); worker; worker = worker->next) {
      if (pthread_equal(worker->handle, pthread_self()) != 0) continue;
      for (SharedTasks* state = nullptr;
           !worker->state.compare_exchange_weak(state, ended(), std::memory_order_acq_rel);) {
        if (state == asleep()) continue;
        state = nullptr;
        sched_yield();
      }
      ring(*worker);
      pthread_join(worker->handle, nullptr);
    }
  }

  /// In a child of fork(): there are no threads but the calling one.
  LOD_TAGGED void forget_threads() noexcept {
    ++forks_;
    workers_ = nullptr;
    started_ = 0;
    starting_ = false;
    callers_ = 0;
  }

  using Start = bool (*)(ThreadPool& pool, SharedTasks& tasks) noexcept;
  friend struct EndOfModule;

  std::atomic<Start> start_ = &ThreadPool::start;  // null once the module ends
  std::atomic<Worker*> workers_ = nullptr;         // a list that only grows
  std::atomic<int> started_ = 0;
  std::atomic<bool> starting_ = false;
  std::atomic<int> room_;
  std::atomic<std::int64_t> busy_until_ = 0, busy_for_ = 0, last_run_ = 0;  // on the clock
  std::atomic<int> undelayed_ = 0;  // shared operations since a thread was put aside
  int forks_ = 0;
  alignas(64) std::atomic<int> callers_ = 0;  // the threads in run()
};

// Hidden, so that each module has its own, whose threads run that module's code.
/// Never freed: executors that outlive the module may still ask it for threads, and get none.
[[gnu::visibility("hidden")]] inline std::atomic<ThreadPool*> pool_of_module = nullptr;

/// Ends the threads of a module before its code goes.
struct EndOfModule {
  LOD_TAGGED ~EndOfModule() {
    if (ThreadPool* const pool = pool_of_module.load(std::memory_order_acquire)) pool->end();
  }
};
#ifndef LOD_RUN  // the compiled library makes no executors, and runs nothing before a program has checked its processor
[[gnu::visibility("hidden")]] inline const EndOfModule end_of_module;
#endif

LOD_TAGGED inline ThreadPool& ThreadPool::of_module() {
  ThreadPool* pool = pool_of_module.load(std::memory_order_acquire);
  if (pool) return *pool;
  auto* const made = new ThreadPool(usable_processors() - 1);
  if (!pool_of_module.compare_exchange_strong(pool, made, std::memory_order_acq_rel)) {
    delete made;
    return *pool;
  }
  pthread_atfork(nullptr, nullptr, [] { pool_of_module.load(std::memory_order_acquire)->forget_threads(); });
  return *made;
}

}  // namespace lod::inline LOD_INTERFACE::detail
