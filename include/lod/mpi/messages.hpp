// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup ranks
/// Messages of any number of bytes, operations that take several steps of them, and the handle of one that is under
/// way.
#pragma once

#include <lod/core/target.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/interface.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks {

/// Bytes in several places, which may become one message. A place may be null, as in `Messages`.
template <class Byte>
struct Part {
  Byte* data = nullptr;
  std::int64_t bytes = 0;
};
template <class Byte>
using Parts = std::array<Part<Byte>, 3>;

/// Copies all parts, one after the other, and returns where they end; the bytes of a null part are left as they are.
LOD_TAGGED inline std::byte* pack(const Parts<const void>& parts, std::byte* to) noexcept {
  for (const auto& [data, bytes] : parts) {
    if (data && bytes > 0) std::memcpy(to, data, static_cast<std::size_t>(bytes));
    to += bytes;
  }
  return to;
}
LOD_TAGGED inline void unpack(const std::byte* from, const Parts<void>& parts) noexcept {
  for (const auto& [data, bytes] : parts) {
    if (data && bytes > 0) std::memcpy(data, from, static_cast<std::size_t>(bytes));
    from += bytes;
  }
}

/// Messages under way. What is sent or received must stay where it is until `complete` has returned true.
class Messages {
 public:
  LOD_TAGGED explicit Messages(Group& group) noexcept : group_(&group) {}
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  /// Requests that remain belong to a call of MPI that failed.
  LOD_TAGGED ~Messages() {
    for (MPI_Request& request : requests_) {
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    }
  }

  /// The bytes, in pieces; none for no bytes. Where `data` is null, for a rank that has nothing to send but is waited
  /// for, any.
  LOD_TAGGED void send(int to, int tag, const void* data, std::int64_t bytes) {
    if (!data && bytes > 0) {
      send_anything(to, tag, bytes);
      return;
    }
    for_each_piece(bytes, [&](std::int64_t first, int count) {
      MPI_Request& request = requests_.emplace_back(MPI_REQUEST_NULL);
      check(MPI_Isend(static_cast<const std::byte*>(data) + first, count, MPI_BYTE, to, tag, group_->handle, &request),
            "MPI_Isend");
      ++group_->traffic.messages;
      group_->traffic.bytes += count;
    });
  }
  /// Where `data` is null, for a rank that has no memory for them, they are received and dropped.
  LOD_TAGGED void receive(int from, int tag, void* data, std::int64_t bytes) {
    if (!data) {
      if (bytes > 0) dropped_.push_back({from, tag, bytes});
      return;
    }
    for_each_piece(bytes, [&](std::int64_t first, int count) {
      MPI_Request& request = requests_.emplace_back(MPI_REQUEST_NULL);
      check(MPI_Irecv(static_cast<std::byte*>(data) + first, count, MPI_BYTE, from, tag, group_->handle, &request),
            "MPI_Irecv");
    });
  }
  /// @{
  /// Parts that go to the same rank: as one message where they have at most `group.merged` bytes together, or the first
  /// of them; so a message that is sent is to be received by parts of the same sizes.
  LOD_TAGGED void send(int to, int tag, const Parts<const void>& parts) {
    for_each_message(
        parts,
        [&](const Parts<const void>& merged, std::int64_t bytes) {
          std::byte* const all = keep(bytes);
          pack(merged, all);
          send(to, tag, all, bytes);
        },
        [&](const Part<const void>& part) { send(to, tag, part.data, part.bytes); });
  }
  LOD_TAGGED void receive(int from, int tag, const Parts<void>& parts) {
    for_each_message(
        parts,
        [&](const Parts<void>& merged, std::int64_t bytes) {
          std::byte* const all = keep(bytes);
          receive(from, tag, all, bytes);
          merged_.push_back({all, merged});
        },
        [&](const Part<void>& part) { receive(from, tag, part.data, part.bytes); });
  }
  /// @}
  /// Memory, zeros at first, until the end of this. Ends the program if there is none.
  LOD_TAGGED std::byte* keep(std::int64_t bytes) {
    if (bytes == 0) return nullptr;
    return static_cast<std::byte*>(kept_.emplace_back(memory(bytes)).get());
  }
  /// Calls f(), which may begin further messages, when those under way have arrived, before `complete` says so.
  LOD_TAGGED void then(std::function<void()> f) { next_.push_back(std::move(f)); }
  /// A collective of MPI whose first step sends `bytes`; start(handle, request) calls it.
  template <class Start>
  LOD_TAGGED void collective(const char* call, std::int64_t bytes, const Start& start) {
    MPI_Request& request = requests_.emplace_back(MPI_REQUEST_NULL);
    check(start(group_->handle, &request), call);
    ++group_->traffic.collectives;
    group_->traffic.bytes += bytes;
  }

  /// Whether all of them have arrived, and nothing comes after them; waits for that if asked to.
  LOD_TAGGED bool complete(bool wait) {
    while (have_arrived(wait)) {
      for (const auto& [all, parts] : std::exchange(merged_, {})) unpack(all, parts);
      if (next_.empty()) return true;
      const std::function<void()> next = std::move(next_.front());
      next_.erase(next_.begin());
      next();
    }
    return false;
  }

 private:
  struct Dropped {
    int from;
    int tag;
    std::int64_t bytes;
  };
  struct Merged {
    const std::byte* all;
    Parts<void> parts;
  };

  LOD_TAGGED bool have_arrived(bool wait) {
    for (const Dropped& message : std::exchange(dropped_, {})) drop(message);
    const auto count = static_cast<int>(requests_.size());
    int complete = 1;
    if (wait) {
      check(MPI_Waitall(count, requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    } else {
      check(MPI_Testall(count, requests_.data(), &complete, MPI_STATUSES_IGNORE), "MPI_Testall");
    }
    if (complete) requests_.clear();
    return complete != 0;
  }

  template <class F>
  LOD_TAGGED void for_each_piece(std::int64_t bytes, const F& f) const {
    for (std::int64_t first = 0; first < bytes; first += group_->piece) {
      f(first, static_cast<int>(std::min(bytes - first, group_->piece)));
    }
  }
  /// Calls merge(parts, their bytes) for parts that are one message, otherwise each(part).
  template <class Byte, class Merge, class Each>
  LOD_TAGGED void for_each_message(const Parts<Byte>& parts, const Merge& merge, const Each& each) const {
    for (std::size_t i = 0; i < parts.size();) {
      Parts<Byte> merged{};
      merged[0] = parts[i];
      std::int64_t bytes = parts[i++].bytes;
      int count = bytes > 0 ? 1 : 0;
      for (std::size_t next = 1; i < parts.size() && parts[i].bytes <= group_->merged - bytes; ++next, ++i) {
        merged[next] = parts[i];
        bytes += parts[i].bytes;
        count += parts[i].bytes > 0 ? 1 : 0;
      }
      if (count > 1) merge(merged, bytes);
      for (std::size_t j = 0; count == 1 && j < merged.size(); ++j) each(merged[j]);
    }
  }
  LOD_TAGGED std::unique_ptr<void, void (*)(void*)> memory(std::int64_t bytes) const {
    void* const memory = std::calloc(static_cast<std::size_t>(bytes), 1);
    if (!memory) MPI_Abort(group_->handle, EXIT_FAILURE);  // the others would wait for ever
    return {memory, &std::free};
  }
  /// For one piece of a message.
  LOD_TAGGED std::unique_ptr<void, void (*)(void*)> memory_of_piece(std::int64_t bytes) const {
    return memory(std::min(bytes, group_->piece));
  }
  LOD_TAGGED void drop(const Dropped& message) {
    const auto memory = memory_of_piece(message.bytes);
    for_each_piece(message.bytes, [&](std::int64_t, int count) {
      check(MPI_Recv(memory.get(), count, MPI_BYTE, message.from, message.tag, group_->handle, MPI_STATUS_IGNORE),
            "MPI_Recv");
    });
  }
  LOD_TAGGED void send_anything(int to, int tag, std::int64_t bytes) {
    const void* const anything = keep(std::min(bytes, group_->piece));
    for_each_piece(bytes, [&](std::int64_t, int count) { send(to, tag, anything, count); });
  }

  Group* group_;
  std::vector<MPI_Request> requests_;
  std::vector<Dropped> dropped_;
  std::vector<Merged> merged_;
  std::vector<std::function<void()>> next_;
  std::vector<std::unique_ptr<void, void (*)(void*)>> kept_;
};

/// An operation that has begun.
class Running {
 public:
  LOD_TAGGED Running() = default;
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  LOD_TAGGED virtual ~Running() = default;
  /// Goes as far as it can; to the end, if it is to wait. Whether that is reached. Throws what the operation does.
  LOD_TAGGED virtual bool advance(bool wait) = 0;
};

/// An operation as steps, each of which waits for messages of the one before.
class Steps : public Running {
 public:
  LOD_TAGGED explicit Steps(const mpi::Communicator& communicator)
      : communicator_(communicator), group(group_of(communicator)), messages(group) {}

  /// Takes the next step, for which all messages have arrived. False after the last one. Throws what the operation
  /// does.
  LOD_TAGGED virtual bool next() = 0;

  LOD_TAGGED bool advance(bool wait) override {
    while (messages.complete(wait)) {
      if (!next()) return true;
    }
    return false;
  }

 private:
  mpi::Communicator communicator_;  // kept alive

 public:
  Group& group;
  Messages messages;
};

/// An operation that does not wait, and its end. In the list of its group until then.
class UnderWay {
 public:
  LOD_TAGGED UnderWay(Group& group, std::unique_ptr<Running> steps) : steps_(std::move(steps)), group_(&group) {
    group.under_way.push_back(this);
    advance(false);
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  LOD_TAGGED ~UnderWay() { wait(); }

  LOD_TAGGED bool ended() const noexcept { return ended_; }
  /// Goes as far as it can; to the end, if it is to wait.
  LOD_TAGGED void advance(bool wait) noexcept {
    if (ended_ || advancing_) return;
    advancing_ = true;
    bool ended = true;
    try {
      ended = steps_->advance(wait);
    } catch (...) {
      error_ = std::current_exception();
    }
    advancing_ = false;
    if (!ended) return;
    ended_ = true;
    std::erase(group_->under_way, this);
  }
  LOD_TAGGED void wait() noexcept;
  /// Throws what the operation has thrown.
  LOD_TAGGED void check() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  std::unique_ptr<Running> steps_;
  Group* group_;  // which the steps keep alive
  std::exception_ptr error_;
  bool ended_ = false;
  bool advancing_ = false;
};

/// Calls advance(wait), which says whether it has reached its end, until it has. While other operations are under way,
/// it does not wait in MPI, and lets them go on.
template <class Advance>
LOD_TAGGED void finish(Group& group, const UnderWay* self, const Advance& advance) {
  const auto is_other = [self](const UnderWay* other) { return other != self; };
  while (!advance(std::none_of(group.under_way.begin(), group.under_way.end(), is_other))) {
    // One that ends leaves the list.
    const std::vector<UnderWay*> others = group.under_way;
    for (UnderWay* other : others) {
      if (is_other(other)) other->advance(false);
    }
    std::this_thread::yield();
  }
}
inline void UnderWay::wait() noexcept {
  if (ended_) return;
  finish(*group_, this, [this](bool wait) {
    advance(wait);
    return ended_;
  });
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks

namespace lod::inline LOD_INTERFACE::mpi {

/// An operation that is under way. The arguments must stay as they are, and outputs must not be touched, until it has
/// ended. Messages move while MPI is called: `ready`, called now and then, lets them, as do all operations on the same
/// communicator that wait. Ranks may wait for several operations in different orders.
///
/// If it is destroyed before, it waits, and errors are lost.
template <class Result>
class [[nodiscard]] Pending {
 public:
  /// For the functions that begin one.
  template <class Of>
  LOD_TAGGED Pending(const Communicator& communicator, std::unique_ptr<Of> steps) {
    if constexpr (!std::is_void_v<Result>) result_ = &steps->result;
    under_way_ = std::make_unique<between_ranks::UnderWay>(between_ranks::group_of(communicator), std::move(steps));
  }

  /// Whether it has ended, with or without an error: `wait` would not wait. Never waits.
  LOD_TAGGED bool ready() noexcept {
    under_way_->advance(false);
    return under_way_->ended();
  }
  /// Waits for the end, and returns the result. To be called once. Throws what the operation throws.
  LOD_TAGGED Result wait() {
    under_way_->wait();
    under_way_->check();
    if constexpr (!std::is_void_v<Result>) return std::move(*result_);
  }

 private:
  std::unique_ptr<between_ranks::UnderWay> under_way_;
  std::add_pointer_t<Result> result_ = nullptr;
};

}  // namespace lod::inline LOD_INTERFACE::mpi

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// An operation with its result: make(result) gives the steps.
template <class Result, class Make>
class Returning final : public Running {
 public:
  Returning(Result first, const Make& make) : result(std::move(first)), steps_(make(result)) {}
  bool advance(bool wait) override { return steps_.advance(wait); }

  Result result;

 private:
  std::invoke_result_t<Make, Result&> steps_;
};

/// @{
/// The forms of an operation whose steps make(result) gives: blocking or not, with the result in `y` or returned.
inline void run(Steps&& steps) {
  finish(steps.group, nullptr, [&](bool wait) { return steps.advance(wait); });
}
template <class Result, class Make>
void run_into(Result& y, const Make& make) {
  run(make(y));
}
template <class Result, class Make>
Result run(Result y, const Make& make) {
  run_into(y, make);
  return y;
}
template <class Result, class Make>
mpi::Pending<void> start_into(const mpi::Communicator& communicator, Result& y, const Make& make) {
  return {communicator, std::unique_ptr<std::invoke_result_t<Make, Result&>>(new auto(make(y)))};
}
template <class Result, class Make>
mpi::Pending<Result> start(const mpi::Communicator& communicator, Result y, const Make& make) {
  return {communicator, std::make_unique<Returning<Result, Make>>(std::move(y), make)};
}
/// @}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
