// SPDX-License-Identifier: Apache-2.0
#include "ptx/machine.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <random>
#include <unordered_map>

namespace lod_test::ptx {
namespace {

/// How many blocks are on the machine at a time.
constexpr std::size_t resident_blocks = 3;

constexpr int nobody = -1;

/// Who touched a byte of shared memory last.
struct Touched {
  bool read_atomically = false;        ///< by all of the readers
  bool other_read_atomically = false;  ///< by the other reader
  int writer = nobody;                 ///< not atomically
  std::uint64_t written_at = 0;
  int updater = nobody;  ///< atomically, since then
  std::uint64_t updated_at = 0;
  int reader = nobody;        ///< the last one
  std::uint32_t readers = 0;  ///< lanes of its warp
  std::uint64_t read_at = 0;
  int other_reader = nobody;  ///< of another warp, if any
  std::uint64_t other_read_at = 0;
};

/// Who wrote a word of global memory last, in this launch.
struct Written {
  std::uint64_t at = 0;  ///< 0 if nobody did
  std::uint32_t block = 0;
  std::uint16_t thread = 0;
  std::uint8_t bytes = 0;  ///< a bit for each
  bool atomically = false;
};
constexpr std::uintptr_t word_bytes = 4;
constexpr std::uintptr_t page_words = 1024;
using WrittenPage = std::array<Written, page_words>;

/// What a thread has told all that ask after it did: what it did before its last fence.
struct Told {
  std::uint64_t at;
  int thread;
  Fence fence;
};

}  // namespace

class Block {
 public:
  Block(Machine& machine, const Launch& launch);

  void start(const Size3& place);
  /// Runs one of the warps for a while.
  void run();
  [[nodiscard]] bool is_done() const { return done_; }

  std::byte* shared(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset, bool writes,
                    bool is_atomic);
  [[nodiscard]] const Launch& launch() const { return launch_; }
  Machine& machine() { return machine_; }
  [[nodiscard]] const Size3& place() const { return place_; }
  [[nodiscard]] std::uint32_t number() const {
    return place_.x + launch_.blocks.x * (place_.y + launch_.blocks.y * place_.z);
  }
  void wait_for_block(Warp& warp, const Instruction& instruction, std::uint32_t lanes);
  std::uint64_t tick();
  [[nodiscard]] std::uint64_t released_at() const { return released_at_; }
  [[nodiscard]] bool in_order(const Warp& warp, int lane, int other, std::uint64_t other_at) const;

 private:
  void release();

  Machine& machine_;
  const Launch& launch_;
  Size3 place_;
  std::vector<Warp> warps_;
  std::vector<std::byte> shared_;
  std::vector<Touched> touched_;
  std::uint64_t released_at_ = 0;
  const Instruction* barrier_ = nullptr;  ///< where the first thread waits
  bool any_ = false, all_ = true;
  bool done_ = false;
};

class Machine {
 public:
  Machine(const Launch& launch, std::uint64_t seed) : launch_(launch), random_(seed) {}

  Work run() {
    const Kernel& kernel = *launch_.kernel;
    if (launch_.threads.count() > static_cast<std::uint64_t>(kernel.most_threads)) {
      throw Fault(kernel.name + ": launched with more threads than it allows");
    }
    work.launches = 1;
    work.threads = static_cast<std::int64_t>(launch_.blocks.count() * launch_.threads.count());
    const std::uint64_t count = launch_.blocks.count();
    std::vector<std::unique_ptr<Block>> resident;
    std::uint64_t started = 0;
    const auto start = [&](Block& block) {
      const auto x = static_cast<std::uint32_t>(started % launch_.blocks.x);
      const std::uint64_t rest = started++ / launch_.blocks.x;
      block.start({x, static_cast<std::uint32_t>(rest % launch_.blocks.y),
                   static_cast<std::uint32_t>(rest / launch_.blocks.y)});
    };
    for (std::size_t k = 0; k < std::min<std::uint64_t>(resident_blocks, count); ++k) {
      start(*resident.emplace_back(std::make_unique<Block>(*this, launch_)));
    }
    while (!resident.empty()) {
      const std::size_t which = below(resident.size());
      resident[which]->run();
      if (resident[which]->is_done()) {
        if (started < count) {
          start(*resident[which]);
        } else {
          resident.erase(resident.begin() + static_cast<std::ptrdiff_t>(which));
        }
      }
      if (work.instructions > launch_.most_instructions) throw Fault(kernel.name + ": does not end");
    }
    return work;
  }

  std::size_t below(std::size_t size) { return static_cast<std::size_t>(random_() % size); }

  std::uint64_t tick() { return ++time_; }

  std::byte* global(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address, std::size_t bytes,
                    bool writes) {
    // Without a sum, which begins again from 0 for addresses just before it.
    const auto is_inside = [&] {
      return address >= range_.begin && address < range_.end && bytes <= range_.end - address;
    };
    if (!is_inside()) {
      range_ = launch_.memory(address);
      if (!is_inside()) {
        warp.fault(instruction, lane, "touches what is no memory of the device");
      }
    }
    if (instruction.is_strong) ask_and_tell(warp, lane, writes);
    follow(warp, instruction, lane, address, bytes, writes);
    return reinterpret_cast<std::byte*>(address);
  }

  Work work;

 private:
  /// An atomic access asks what others have told, and, where it writes, tells them what the thread did before its last
  /// fence.
  void ask_and_tell(Warp& warp, int lane, bool writes) {
    const auto l = static_cast<std::size_t>(lane);
    const std::uint64_t now = tick();
    warp.asked_at_[l] = now;
    if (!writes || warp.fenced_[l].at == 0) return;
    told_[warp.block_->number()].push_back({now, warp.number_ * warp_lanes + lane, warp.fenced_[l]});
  }

  WrittenPage* page(std::uintptr_t number, bool is_needed) {
    if (number != page_number_ || (page_ == nullptr && is_needed)) {
      page_number_ = number;
      const auto found = written_.find(number);
      page_ = found == written_.end() ? nullptr : found->second.get();
      if (page_ == nullptr && is_needed) page_ = (written_[number] = std::make_unique<WrittenPage>()).get();
    }
    return page_;
  }

  /// Looks who wrote what is read, and notes who writes.
  void follow(Warp& warp, const Instruction& instruction, int lane, std::uintptr_t address, std::size_t bytes,
              bool writes) {
    for (std::uintptr_t at = address; at < address + bytes;) {
      const std::uintptr_t word = at / word_bytes,
                           end = std::min<std::uintptr_t>((word + 1) * word_bytes, address + bytes);
      const auto touched = static_cast<std::uint8_t>(((1U << (end - at)) - 1) << (at % word_bytes));
      at = end;
      WrittenPage* const all = page(word / page_words, writes);
      if (all == nullptr) continue;
      Written& written = (*all)[word % page_words];
      if (writes) {
        written = {tick(), warp.block_->number(), static_cast<std::uint16_t>(warp.number_ * warp_lanes + lane), touched,
                   instruction.is_strong};
      } else if (written.at != 0 && (written.bytes & touched) != 0 && !(written.atomically && instruction.is_strong) &&
                 !knows(warp, lane, written)) {
        warp.fault(instruction, lane,
                   "has not been told what thread " + std::to_string(written.thread) + " of block " +
                       std::to_string(written.block) + " wrote to this global memory");
      }
    }
  }
  bool knows(const Warp& warp, int lane, const Written& written) const {
    if (written.block == warp.block_->number() && warp.block_->in_order(warp, lane, written.thread, written.at)) {
      return true;
    }
    const auto told = told_.find(written.block);
    if (told == told_.end()) return false;
    return std::any_of(told->second.begin(), told->second.end(), [&](const Told& one) {
      if (one.at >= warp.told_at_[static_cast<std::size_t>(lane)]) return false;
      const Fence& fence = one.fence;
      const bool is_own = one.thread == written.thread && written.at < fence.at;
      const bool met = one.thread / warp_lanes == written.thread / warp_lanes && written.at < fence.met_at &&
                       ((fence.met >> (written.thread % warp_lanes)) & 1U) != 0;
      return is_own || met || written.at < fence.block_released_at;
    });
  }

  const Launch& launch_;
  std::minstd_rand random_;
  Range range_;
  std::uint64_t time_ = 1;
  std::unordered_map<std::uintptr_t, std::unique_ptr<WrittenPage>> written_;
  std::uintptr_t page_number_ = ~std::uintptr_t{0};  ///< of the page that was looked up last
  WrittenPage* page_ = nullptr;
  std::unordered_map<std::uint32_t, std::vector<Told>> told_;  ///< by the blocks that told it
};

// Blocks --------------------------------------------------------------------------------------------------------------

std::uint64_t Block::tick() { return machine_.tick(); }

Block::Block(Machine& machine, const Launch& launch) : machine_(machine), launch_(launch) {
  const Kernel& kernel = *launch.kernel;
  const std::size_t bytes = kernel.shared_bytes + launch.dynamic_shared_bytes;
  shared_.resize(bytes);
  touched_.resize(bytes);
  const auto threads = static_cast<std::uint32_t>(launch.threads.count());
  warps_.resize((threads + warp_lanes - 1) / warp_lanes);
  for (std::size_t number = 0; number < warps_.size(); ++number) {
    Warp& warp = warps_[number];
    warp.block_ = this;
    warp.number_ = static_cast<int>(number);
    warp.registers_.resize(std::size_t{kernel.registers} * warp_lanes);
    warp.local_.resize(kernel.local_bytes * warp_lanes);
    const auto fill = [&](Register place, auto value) {
      for (std::uint32_t l = 0; l < warp_lanes; ++l) warp.lanes(place)[l] = value(l);
    };
    for (const Constant& constant : kernel.constants) fill(constant.place, [&](auto) { return constant.value; });
    const auto thread = [&](std::uint32_t l) { return static_cast<std::uint32_t>(number) * warp_lanes + l; };
    warp.there_ = 0;
    for (std::uint32_t l = 0; l < warp_lanes; ++l) warp.there_ |= thread(l) < threads ? std::uint32_t{1} << l : 0;
    const Size3 size = launch.threads;
    fill(tid_x, [&](auto l) { return thread(l) % size.x; });
    fill(tid_y, [&](auto l) { return thread(l) / size.x % size.y; });
    fill(tid_z, [&](auto l) { return thread(l) / size.x / size.y; });
    fill(ntid_x, [&](auto) { return size.x; });
    fill(ntid_y, [&](auto) { return size.y; });
    fill(ntid_z, [&](auto) { return size.z; });
    fill(nctaid_x, [&](auto) { return launch.blocks.x; });
    fill(nctaid_y, [&](auto) { return launch.blocks.y; });
    fill(nctaid_z, [&](auto) { return launch.blocks.z; });
    fill(lane, [](auto l) { return l; });
    fill(warp_number, [&](auto) { return number; });
    fill(lanes_below, [](auto l) { return (std::uint64_t{1} << l) - 1; });
    fill(lanes_up_to, [](auto l) { return (std::uint64_t{2} << l) - 1; });
    fill(lanes_above, [](auto l) { return ~((std::uint64_t{2} << l) - 1) & 0xffffffffU; });
    fill(lanes_from, [](auto l) { return ~((std::uint64_t{1} << l) - 1) & 0xffffffffU; });
    fill(lane_bit, [](auto l) { return std::uint64_t{1} << l; });
  }
}

void Block::start(const Size3& place) {
  place_ = place;
  done_ = false;
  std::fill(shared_.begin(), shared_.end(), std::byte{0xFB});
  std::fill(touched_.begin(), touched_.end(), Touched{});
  barrier_ = nullptr;
  any_ = false;
  all_ = true;
  for (Warp& warp : warps_) {
    for (int l = 0; l < warp_lanes; ++l) {
      warp.lanes(ctaid_x)[l] = place.x;
      warp.lanes(ctaid_y)[l] = place.y;
      warp.lanes(ctaid_z)[l] = place.z;
      warp.lanes(clock)[l] = 0;
      warp.at_[static_cast<std::size_t>(l)] = 0;
      warp.state_[static_cast<std::size_t>(l)] =
          ((warp.there_ >> l) & 1U) != 0 ? Warp::State::ready : Warp::State::ended;
    }
    warp.met_at_.fill(0);
    warp.met_.fill(0);
    warp.fenced_.fill({});
    warp.asked_at_.fill(0);
    warp.told_at_.fill(0);
    for (auto& copies : warp.copies_) copies.clear();
    warp.groups_.fill(0);
    std::fill(warp.local_.begin(), warp.local_.end(), std::byte{0xFB});
  }
}

void Block::run() {
  const std::size_t first = machine_.below(warps_.size());
  for (std::size_t k = 0; k < warps_.size(); ++k) {
    Warp& warp = warps_[(first + k) % warps_.size()];
    if (warp.in_state(Warp::State::ready) == 0) continue;
    machine_.work.instructions += warp.run(1 + static_cast<std::int64_t>(machine_.below(2000)));
    return;
  }
  // None can go on: all that are left wait for the block, or for lanes that do not come.
  bool any_left = false;
  for (Warp& warp : warps_) {
    if (const std::uint32_t stuck = warp.in_state(Warp::State::waits_for_lanes); stuck != 0) {
      const int l = std::countr_zero(stuck);
      warp.fault(launch_.kernel->code[warp.at_[static_cast<std::size_t>(l)]], l, "waits for lanes that do not come");
    }
    any_left |= warp.in_state(Warp::State::waits_for_block) != 0;
  }
  if (any_left) {
    release();
  } else {
    done_ = true;
  }
}

void Block::wait_for_block(Warp& warp, const Instruction& instruction, std::uint32_t lanes) {
  if (barrier_ == nullptr) barrier_ = &instruction;
  for (; lanes != 0; lanes &= lanes - 1) {
    const int l = std::countr_zero(lanes);
    if (&instruction != barrier_) warp.fault(instruction, l, "waits for the block where others wait elsewhere");
    warp.state_[static_cast<std::size_t>(l)] = Warp::State::waits_for_block;
    if (instruction.from[1] != no_register) {
      const bool value = warp.lanes(instruction.from[1])[l] != 0;
      any_ |= value;
      all_ &= value;
    }
  }
}

void Block::release() {
  released_at_ = tick();
  const Instruction& instruction = *barrier_;
  std::uint64_t told_at = 0;
  for (const Warp& warp : warps_) {
    told_at = std::max(told_at, *std::max_element(warp.told_at_.begin(), warp.told_at_.end()));
  }
  for (Warp& warp : warps_) warp.told_at_.fill(told_at);
  for (Warp& warp : warps_) {
    for (std::size_t l = 0; l < warp_lanes; ++l) {
      if (warp.state_[l] != Warp::State::waits_for_block) {
        // Waiting threads wait for those that have ended, too: that is allowed, but not meant.
        if (((warp.there_ >> l) & 1U) != 0) {
          warp.fault(instruction, static_cast<int>(l), "has ended while its block waits for it");
        }
        continue;
      }
      warp.state_[l] = Warp::State::ready;
      ++warp.at_[l];
      if (instruction.to[0] != no_register) {
        warp.lanes(instruction.to[0])[l] = instruction.text.find(".or.") != std::string_view::npos ? any_ : all_;
      }
    }
  }
  barrier_ = nullptr;
  any_ = false;
  all_ = true;
}

/// Whether what the other thread did then is before what a lane does now, because they waited for each other.
bool Block::in_order(const Warp& warp, int lane, int other, std::uint64_t other_at) const {
  if (other == nobody || other == warp.number_ * warp_lanes + lane || other_at < released_at_) return true;
  if (other / warp_lanes != warp.number_) return false;
  const auto own = static_cast<std::size_t>(lane);
  return warp.met_at_[own] > other_at && ((warp.met_[own] >> (other % warp_lanes)) & 1U) != 0;
}

std::byte* Block::shared(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset, bool writes,
                         bool is_atomic) {
  const std::size_t bytes = std::size_t{instruction.bytes} * instruction.numbers;
  if (offset + bytes > shared_.size()) warp.fault(instruction, lane, "touches what is no shared memory");
  const int self = warp.number_ * warp_lanes + lane;
  const std::uint64_t now = tick();
  for (std::size_t at = offset; at < offset + bytes; ++at) {
    Touched& touched = touched_[at];
    const auto wait_for_reader = [&](int reader, std::uint64_t read_at) {
      if (in_order(warp, lane, reader, read_at)) return;
      warp.fault(instruction, lane,
                 "does not wait for thread " + std::to_string(reader) + " that reads this shared memory");
    };
    const auto wait_for_writer = [&](int writer, std::uint64_t written_at) {
      if (in_order(warp, lane, writer, written_at)) return;
      warp.fault(instruction, lane,
                 "does not wait for thread " + std::to_string(writer) + " that wrote this shared memory");
    };
    wait_for_writer(touched.writer, touched.written_at);
    if (!is_atomic) wait_for_writer(touched.updater, touched.updated_at);
    if (writes) {
      if (!(is_atomic && touched.read_atomically) && touched.read_at >= released_at_) {
        const int first = touched.reader / warp_lanes * warp_lanes;
        for (std::uint32_t rest = touched.readers; rest != 0; rest &= rest - 1) {
          wait_for_reader(first + std::countr_zero(rest), touched.read_at);
        }
      }
      if (!(is_atomic && touched.other_read_atomically)) wait_for_reader(touched.other_reader, touched.other_read_at);
      if (is_atomic) {
        touched.updater = self;
        touched.updated_at = now;
      } else {
        touched.writer = self;
        touched.written_at = now;
        touched.updater = nobody;
      }
      touched.reader = touched.other_reader = nobody;
      touched.readers = 0;
    } else {
      const auto own = static_cast<std::size_t>(lane);
      if (touched.reader != nobody && touched.reader / warp_lanes != warp.number_) {
        touched.other_reader = touched.reader;
        touched.other_read_at = touched.read_at;
        touched.other_read_atomically = touched.read_atomically;
        touched.readers = 0;
      } else if (touched.read_at < released_at_ ||
                 (warp.met_at_[own] > touched.read_at && (touched.readers & ~warp.met_[own]) == 0)) {
        // Who waits for this lane has waited for those, too.
        touched.readers = 0;
      }
      touched.read_atomically = is_atomic && (touched.readers == 0 || touched.read_atomically);
      touched.reader = self;
      touched.readers |= std::uint32_t{1} << lane;
      touched.read_at = now;
    }
  }
  return shared_.data() + offset;
}

// Warps ---------------------------------------------------------------------------------------------------------------

std::uint32_t Warp::in_state(State state) const {
  std::uint32_t lanes = 0;
  for (std::size_t l = 0; l < warp_lanes; ++l) lanes |= state_[l] == state ? std::uint32_t{1} << l : 0;
  return lanes & there_;
}

std::int64_t Warp::run(std::int64_t most) {
  const std::vector<Instruction>& code = block_->launch().kernel->code;
  Work& work = block_->machine().work;
  std::int64_t done = 0;
  while (done < most) {
    const std::uint32_t ready = in_state(State::ready);
    if (ready == 0) break;
    // The lanes that are the furthest behind go on, until they reach the next ones.
    std::uint32_t at = ~std::uint32_t{0}, next = at;
    for (std::uint32_t rest = ready; rest != 0; rest &= rest - 1) {
      const std::uint32_t place = at_[static_cast<std::size_t>(std::countr_zero(rest))];
      if (place < at) {
        next = at;
        at = place;
      } else if (place > at) {
        next = std::min(next, place);
      }
    }
    std::uint32_t lanes = 0;
    for (std::uint32_t rest = ready; rest != 0; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      if (at_[static_cast<std::size_t>(l)] == at) lanes |= std::uint32_t{1} << l;
    }
    const auto go_to = [&](std::uint32_t which, std::uint32_t place) {
      for (; which != 0; which &= which - 1) at_[static_cast<std::size_t>(std::countr_zero(which))] = place;
    };
    bool together = true;
    while (together && done < most && at < next) {
      const Instruction& one = code[at];
      std::uint32_t active = lanes;
      if (one.guard != no_register) {
        std::uint32_t yes = 0;
        const std::uint64_t* const guard = this->lanes(one.guard);
        for (std::uint32_t l = 0; l < warp_lanes; ++l) yes |= guard[l] != 0 ? std::uint32_t{1} << l : 0;
        active &= one.guard_negated ? ~yes : yes;
      }
      ++done;
      if (active == 0 && one.control != Control::branch && one.control != Control::yield) {
        ++at;
        continue;
      }
      work.lane_instructions += active == ~std::uint32_t{0} ? warp_lanes : std::popcount(active);
      switch (one.control) {
        case Control::next:
          one.handler(*this, one, active);
          ++at;
          break;
        case Control::branch:
          if (active == lanes) {
            at = one.target;
          } else if (active == 0) {
            ++at;
          } else {
            go_to(active, one.target);
            go_to(lanes & ~active, at + 1);
            together = false;
          }
          break;
        case Control::exit:
          for (std::uint32_t rest = active; rest != 0; rest &= rest - 1) {
            state_[static_cast<std::size_t>(std::countr_zero(rest))] = State::ended;
          }
          lanes &= ~active;
          ++at;
          together = lanes != 0;
          break;
        case Control::yield:
          ++at;
          go_to(lanes, at);
          return done;
        case Control::barrier:
          go_to(lanes & ~active, at + 1);
          go_to(active, at);
          block_->wait_for_block(*this, one, active);
          together = false;
          break;
        case Control::warp_sync: {
          go_to(lanes & ~active, at + 1);
          go_to(active, at);
          const std::uint32_t meeting = lanes_that_meet(one, active);
          if (meeting != 0) {
            one.handler(*this, one, meeting);
            go_to(meeting, at + 1);
          }
          if (meeting == lanes) {
            ++at;
          } else {
            together = false;
          }
          break;
        }
      }
    }
    if (together) go_to(lanes, at);
  }
  return done;
}

/// Of lanes that come to an instruction and of those that wait there, the ones whose others are all there. The rest
/// waits.
std::uint32_t Warp::lanes_that_meet(const Instruction& one, std::uint32_t coming) {
  // shfl and the like name the lanes last.
  std::size_t last = 0;
  while (last + 1 < one.from.size() && one.from[last + 1] != no_register) ++last;
  const std::uint64_t* const members = lanes(one.from[last]);
  const auto index = [](int l) { return static_cast<std::size_t>(l); };
  std::uint32_t here = coming;
  const std::uint32_t place = at_[index(std::countr_zero(coming))];
  for (int l = 0; l < warp_lanes; ++l) {
    if (state_[index(l)] == State::waits_for_lanes && at_[index(l)] == place) here |= std::uint32_t{1} << l;
  }
  // Nearly always all that wait for each other come together.
  bool is_usual = true;
  for (std::uint32_t rest = here; rest != 0; rest &= rest - 1) {
    is_usual &= static_cast<std::uint32_t>(members[std::countr_zero(rest)]) == here;
  }
  std::uint32_t meeting = is_usual ? here : 0;
  for (std::uint32_t rest = is_usual ? 0 : here; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const auto named = static_cast<std::uint32_t>(members[l]);
    if (((named >> l) & 1U) == 0) fault(one, l, "waits for lanes of which it is none");
    if ((named & ~there_) != 0 || (named & in_state(State::ended)) != 0) {
      fault(one, l, "waits for lanes that have ended");
    }
    for (std::uint32_t others = named & here; others != 0; others &= others - 1) {
      if (static_cast<std::uint32_t>(members[std::countr_zero(others)]) != named) {
        fault(one, l, "waits for lanes that do not wait for the same ones");
      }
    }
    if ((named & ~here) == 0) meeting |= std::uint32_t{1} << l;
  }
  const bool orders_memory = one.text.find("bar.warp") != std::string_view::npos;
  const std::uint64_t now = block_->tick();
  for (std::uint32_t rest = here; rest != 0; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const bool meets = ((meeting >> l) & 1U) != 0;
    state_[index(l)] = meets ? State::ready : State::waits_for_lanes;
    if (meets && orders_memory) {
      met_at_[index(l)] = now;
      met_[index(l)] = static_cast<std::uint32_t>(members[l]);
      for (std::uint32_t others = met_[index(l)]; others != 0; others &= others - 1) {
        told_at_[index(l)] = std::max(told_at_[index(l)], told_at_[index(std::countr_zero(others))]);
      }
    }
  }
  return meeting;
}

void Warp::fault(const Instruction& instruction, int l, const std::string& what) const {
  const Size3& place = block_->place();
  throw Fault(block_->launch().kernel->name + ": block " + std::to_string(place.x) + "," + std::to_string(place.y) +
              " of " + std::to_string(block_->launch().blocks.x) + ", thread " +
              std::to_string(number_ * warp_lanes + l) + ": " + what + ": " + std::string(instruction.text));
}

void Warp::fence(std::uint32_t active) {
  const std::uint64_t now = block_->tick();
  for (; active != 0; active &= active - 1) {
    const auto l = static_cast<std::size_t>(std::countr_zero(active));
    fenced_[l] = {now, block_->released_at(), met_at_[l], met_[l]};
    told_at_[l] = std::max(told_at_[l], asked_at_[l]);
  }
}

std::byte* Warp::checked(const Instruction& instruction, int l, std::uint64_t address, bool writes, bool is_atomic) {
  const std::size_t bytes = std::size_t{instruction.bytes} * instruction.numbers;
  Space space = instruction.space;
  if (space == Space::generic) {
    const std::uint64_t window = address & window_mask;
    space = window == shared_window ? Space::shared : window == local_window ? Space::local : Space::global;
    if (space != Space::global) address &= ~window_mask;
  }
  // A power of two.
  if ((address & (bytes - 1)) != 0) {
    fault(instruction, l, "touches memory off its alignment, at " + std::to_string(address));
  }
  switch (space) {
    case Space::shared:
      return block_->shared(*this, instruction, l, address & 0xffffffffU, writes, is_atomic);
    case Space::local: {
      const std::size_t size = local_bytes();
      if (address > size || bytes > size - address) fault(instruction, l, "touches what is no local memory");
      return local_.data() + static_cast<std::size_t>(l) * size + address;
    }
    case Space::parameter: {
      const std::vector<std::byte>& parameters = block_->launch().parameters;
      if (writes || address > parameters.size() || bytes > parameters.size() - address) {
        fault(instruction, l, "touches what is no parameter");
      }
      return const_cast<std::byte*>(parameters.data()) + address;
    }
    default:
      return block_->machine().global(*this, instruction, l, address, bytes, writes);
  }
}

std::byte* Warp::in_local(const Instruction& instruction, std::uint32_t active) {
  if (instruction.space != Space::local && instruction.space != Space::generic) return nullptr;
  const std::uint64_t* const base = lanes(instruction.from[0]);
  const std::uint64_t first = base[std::countr_zero(active)];
  if (instruction.space == Space::generic && (first & window_mask) != local_window) return nullptr;
  std::uint64_t other = 0;
  for (std::uint32_t rest = active; rest != 0; rest &= rest - 1) other |= base[std::countr_zero(rest)] ^ first;
  if (other != 0) return nullptr;
  std::uint64_t address = first + static_cast<std::uint64_t>(instruction.offset);
  if (instruction.space == Space::generic) address -= local_window;
  const std::size_t bytes = std::size_t{instruction.bytes} * instruction.numbers, size = local_bytes();
  if ((address & (bytes - 1)) != 0 || address > size || bytes > size - address) return nullptr;
  return local_.data() + address;
}

void Warp::load(const Instruction& instruction, int l, std::uint64_t address, void* to) {
  const std::byte* const from = checked(instruction, l, address, false, instruction.is_strong);
  std::memcpy(to, from, std::size_t{instruction.bytes} * instruction.numbers);
}
void Warp::store(const Instruction& instruction, int l, std::uint64_t address, const void* from) {
  std::byte* const to = checked(instruction, l, address, true, instruction.is_strong);
  std::memcpy(to, from, std::size_t{instruction.bytes} * instruction.numbers);
}

void Warp::begin_copy(const Instruction& instruction, int l, std::uint64_t to, std::uint64_t from) {
  Copy copy{&instruction, to, {}, groups_[static_cast<std::size_t>(l)]};
  Instruction read = instruction;
  read.space = Space::global;
  load(read, l, from, copy.bytes.data());
  // Nobody can know what is there until then.
  std::array<std::byte, 16> unknown;
  unknown.fill(std::byte{0xFB});
  store(instruction, l, to, unknown.data());
  copies_[static_cast<std::size_t>(l)].push_back(copy);
}
void Warp::group_copies(std::uint32_t active) {
  for (; active != 0; active &= active - 1) ++groups_[static_cast<std::size_t>(std::countr_zero(active))];
}
void Warp::wait_for_copies(std::uint32_t active, std::uint64_t left) {
  for (; active != 0; active &= active - 1) {
    const int l = std::countr_zero(active);
    const auto lane = static_cast<std::size_t>(l);
    std::erase_if(copies_[lane], [&](const Copy& copy) {
      if (copy.group + left >= groups_[lane]) return false;
      store(*copy.instruction, l, copy.to, copy.bytes.data());
      return true;
    });
  }
}

void Warp::count_access(const Instruction& instruction, std::uint32_t active) {
  Work& work = block_->machine().work;
  if (instruction.space == Space::parameter) return;
  const std::uint64_t* const base = lanes(instruction.from[0]);
  const std::uint64_t window = base[std::countr_zero(active)] & window_mask;
  if (instruction.space == Space::shared || (instruction.space == Space::generic && window == shared_window)) {
    ++work.shared_accesses;
  } else if (instruction.space == Space::local || (instruction.space == Space::generic && window == local_window)) {
    ++work.local_accesses;
  } else {
    ++work.global_accesses;
    const std::size_t bytes = std::size_t{instruction.bytes} * instruction.numbers;
    std::uint64_t before = ~std::uint64_t{0};
    for (; active != 0; active &= active - 1) {
      const std::uint64_t address = base[std::countr_zero(active)] + static_cast<std::uint64_t>(instruction.offset);
      for (std::uint64_t sector = address / 32; sector <= (address + bytes - 1) / 32; ++sector) {
        if (sector != before) ++work.global_sectors;
        before = sector;
      }
    }
  }
}

Work& Work::operator+=(const Work& other) {
  launches += other.launches;
  threads += other.threads;
  instructions += other.instructions;
  lane_instructions += other.lane_instructions;
  global_accesses += other.global_accesses;
  global_sectors += other.global_sectors;
  shared_accesses += other.shared_accesses;
  local_accesses += other.local_accesses;
  return *this;
}

Work run(const Launch& launch, std::uint64_t seed) { return Machine(launch, seed).run(); }

}
