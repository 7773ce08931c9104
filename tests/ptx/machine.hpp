// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs kernels on the CPU, warp by warp, blocks and warps in turns drawn by chance, and looks for what a GPU forbids:
/// addresses outside of memory or off their alignment, threads of a block that touch the same bytes of shared memory
/// without waiting for each other, threads that read what others of the same launch wrote to global memory and have not
/// told them of by a fence and an atomic access, lanes that others wait for in vain.
#pragma once

#include "ptx/program.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace lod_test::ptx {

struct Size3 {
  std::uint32_t x = 1, y = 1, z = 1;
  [[nodiscard]] std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

struct Launch {
  const Kernel* kernel = nullptr;
  Size3 blocks;
  Size3 threads;
  std::size_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;
  /// Of warps: after so many, the kernel is taken for one that does not end.
  std::int64_t most_instructions = std::int64_t{4} << 30U;
  /// The memory around an address that kernels may read and write; an empty range if there is none.
  std::function<Range(std::uintptr_t)> memory;
};

/// What the warps of launches did.
struct Work {
  std::int64_t launches = 0;
  std::int64_t threads = 0;
  std::int64_t instructions = 0;       ///< of warps
  std::int64_t lane_instructions = 0;  ///< of lanes that took part
  std::int64_t global_accesses = 0;    ///< of warps
  std::int64_t global_sectors = 0;     ///< of 32 bytes that these touched
  std::int64_t shared_accesses = 0;    ///< of warps
  std::int64_t local_accesses = 0;     ///< of warps

  Work& operator+=(const Work& other);
};

/// A kernel did what it may not. The text names the kernel, the block, the thread and the instruction.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs all blocks. The order follows from the seed alone.
Work run(const Launch& launch, std::uint64_t seed);

// For the instructions ------------------------------------------------------------------------------------------------

/// Where the memory of a block and of a thread lies among generic addresses.
constexpr std::uint64_t shared_window = std::uint64_t{0x7100} << 48U;
constexpr std::uint64_t local_window = std::uint64_t{0x7200} << 48U;
constexpr std::uint64_t window_mask = std::uint64_t{0xffff} << 48U;

class Block;
class Machine;

/// A fence of a thread: what it did before, and what others did before they waited for it.
struct Fence {
  std::uint64_t at = 0;  ///< 0 if there was none
  std::uint64_t block_released_at = 0;
  std::uint64_t met_at = 0;
  std::uint32_t met = 0;
};

class Warp {
 public:
  enum class State : std::uint8_t { ready, waits_for_lanes, waits_for_block, ended };

  std::uint64_t* lanes(Register place) { return registers_.data() + std::size_t{place} * warp_lanes; }

  /// Copies bytes of the memory of a lane from or to an address, and checks that it may.
  void load(const Instruction& instruction, int lane, std::uint64_t address, void* to);
  void store(const Instruction& instruction, int lane, std::uint64_t address, const void* from);
  /// Where an address that is the same for all these lanes lies in the local memory of lane 0: that of each lane is
  /// `local_bytes()` after the one before. Null if it is elsewhere, or if an access there is a fault.
  std::byte* in_local(const Instruction& instruction, std::uint32_t lanes);
  [[nodiscard]] std::size_t local_bytes() const { return local_.size() / warp_lanes; }
  /// Counts an access of all these lanes.
  void count_access(const Instruction& instruction, std::uint32_t lanes);

  /// Begins to copy bytes to shared memory. These are there, and may be read, when the lane has waited for them.
  void begin_copy(const Instruction& instruction, int lane, std::uint64_t to, std::uint64_t from);
  /// The copies that these lanes have begun since the last time are a group.
  void group_copies(std::uint32_t lanes);
  /// Waits for all groups but the last `left`.
  void wait_for_copies(std::uint32_t lanes, std::uint64_t left);

  /// What these lanes did or learned before, comes before what they do from here on, for all threads.
  void fence(std::uint32_t lanes);
  [[noreturn]] void fault(const Instruction& instruction, int lane, const std::string& what) const;

 private:
  friend class Block;
  friend class Machine;

  struct Copy {
    const Instruction* instruction;
    std::uint64_t to;
    std::array<std::byte, 16> bytes;
    std::uint64_t group;
  };

  std::byte* checked(const Instruction& instruction, int lane, std::uint64_t address, bool writes, bool is_atomic);
  /// Returns how many instructions it did.
  std::int64_t run(std::int64_t most);
  std::uint32_t lanes_that_meet(const Instruction& instruction, std::uint32_t lanes);
  std::uint32_t in_state(State state) const;

  Block* block_ = nullptr;
  int number_ = 0;
  std::uint32_t there_ = 0;  ///< the lanes that are threads
  std::vector<std::uint64_t> registers_;
  std::vector<std::byte> local_;
  std::array<std::uint32_t, warp_lanes> at_{};
  std::array<State, warp_lanes> state_{};
  std::array<std::uint64_t, warp_lanes> met_at_{};    ///< when the lane last met others of its warp
  std::array<std::uint32_t, warp_lanes> met_{};       ///< which lanes these were
  std::array<Fence, warp_lanes> fenced_{};            ///< the last fence of the lane
  std::array<std::uint64_t, warp_lanes> asked_at_{};  ///< when it last touched global memory atomically
  std::array<std::uint64_t, warp_lanes> told_at_{};   ///< what others have told by then, it knows
  std::array<std::vector<Copy>, warp_lanes> copies_;  ///< that are under way
  std::array<std::uint64_t, warp_lanes> groups_{};    ///< how many groups of copies the lane has made
};

}
