// SPDX-License-Identifier: Apache-2.0
/// @file
/// PTX, the instructions that nvcc makes for GPUs, made ready to be run by a CPU: each kernel as a list of decoded
/// instructions. What of PTX nvcc does not use for this library is not understood, and an error when it is met.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lod_test::ptx {

class Warp;
struct Instruction;

constexpr int warp_lanes = 32;

/// Does an instruction for some lanes of a warp.
using Handler = void (*)(Warp&, const Instruction&, std::uint32_t lanes);

enum class Space : std::uint8_t { generic, global, shared, local, parameter };

/// What an instruction does to the order in which others are done.
enum class Control : std::uint8_t {
  next,       ///< nothing
  branch,     ///< goes on at `target`
  exit,       ///< the end of the thread
  warp_sync,  ///< waits for the lanes that its last source names
  barrier,    ///< waits for all threads of the block
  yield,      ///< lets others run
};

/// Addresses from `begin` on, before `end`.
struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

using Register = std::uint32_t;
constexpr Register no_register = ~Register{0};

struct Instruction {
  Handler handler = nullptr;
  Control control = Control::next;
  bool guard_negated = false;
  Register guard = no_register;
  std::array<Register, 4> to{no_register, no_register, no_register, no_register};
  std::array<Register, 5> from{no_register, no_register, no_register, no_register, no_register};
  std::array<std::uint64_t, 4> to_bits{};  ///< the bits that the registers have
  std::uint32_t target = 0;
  // Of what reads or writes memory:
  Space space = Space::generic;
  std::uint8_t bytes = 0;    ///< of a number
  std::uint8_t numbers = 1;  ///< side by side
  bool is_signed = false;
  bool is_strong = false;          ///< volatile, relaxed or atomic: such accesses may be at the same time
  std::int64_t offset = 0;         ///< added to the address
  std::int64_t source_offset = 0;  ///< of a copy: added to the address that it reads
  std::string_view text;           ///< for messages
};

/// Registers that each thread finds filled.
enum Special : Register {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  lane,
  warp_number,
  lanes_below,
  lanes_up_to,
  lanes_above,
  lanes_from,
  lane_bit,
  clock,
  special_registers
};

struct Parameter {
  std::size_t offset;
  std::size_t bytes;
};

struct Constant {
  Register place;
  std::uint64_t value;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  std::size_t parameter_bytes = 0;
  int most_threads = 1024;
  std::vector<Instruction> code;
  std::vector<Constant> constants;
  Register registers = special_registers;
  std::size_t shared_bytes = 0;
  std::size_t local_bytes = 0;  ///< of a thread
};

/// The kernels of one file. They are decoded when they are asked for.
class Program {
 public:
  explicit Program(std::string text);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  /// Null if there is none of this name. Throws std::runtime_error if it has something that is not understood.
  const Kernel* find(const std::string& name);
  /// The memory of a variable of the device; null if there is none of this name.
  [[nodiscard]] const std::byte* variable(std::string_view name) const;
  /// The variable of the device around an address; an empty range if there is none.
  [[nodiscard]] Range around(std::uintptr_t address) const;

 private:
  friend class Decoder;
  struct Variable {
    std::unique_ptr<std::byte[]> memory;
    std::byte* first;
    std::size_t bytes;
  };

  std::string text_;
  std::map<std::string, std::string_view, std::less<>> entries_;    ///< from the list of parameters on
  std::map<std::string, std::string_view, std::less<>> functions_;  ///< from the result on
  std::map<std::string, Variable, std::less<>> variables_;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
};

/// The handler of an operation, with what belongs to it of the instruction filled in; null if there is none.
Handler find_handler(std::string_view operation, Instruction& instruction);

}
