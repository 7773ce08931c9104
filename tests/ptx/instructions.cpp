// SPDX-License-Identifier: Apache-2.0
/// What instructions do, lane by lane.
#include "ptx/machine.hpp"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

namespace lod_test::ptx {
namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
__extension__ using s128 = __int128;
__extension__ using u128 = unsigned __int128;
/// Not _Float16, which clang 14 does not have.
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

template <class T>
T taken(u64 word) {
  // Predicates that hold may be -1: `mov.pred %p1, -1`.
  if constexpr (std::is_same_v<T, bool>) return word != 0;
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}
template <class T>
u64 word_of(T value) {
  u64 word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}

template <class F>
[[gnu::always_inline]] inline void for_each_lane(u32 lanes, const F& f) {
  if (lanes == ~u32{0}) {
    for (int lane = 0; lane < warp_lanes; ++lane) f(lane);
  } else {
    for (; lanes != 0; lanes &= lanes - 1) f(std::countr_zero(lanes));
  }
}

template <class To, class A, auto f>
void unary(Warp& warp, const Instruction& one, u32 lanes) {
  u64* const to = warp.lanes(one.to[0]);
  const u64* const a = warp.lanes(one.from[0]);
  for_each_lane(lanes, [&](int lane) { to[lane] = word_of<To>(f(taken<A>(a[lane]))); });
}
template <class To, class A, class B, auto f>
void binary(Warp& warp, const Instruction& one, u32 lanes) {
  u64* const to = warp.lanes(one.to[0]);
  const u64 *const a = warp.lanes(one.from[0]), *const b = warp.lanes(one.from[1]);
  for_each_lane(lanes, [&](int lane) { to[lane] = word_of<To>(f(taken<A>(a[lane]), taken<B>(b[lane]))); });
}
template <class To, class A, class B, class C, auto f>
void ternary(Warp& warp, const Instruction& one, u32 lanes) {
  u64* const to = warp.lanes(one.to[0]);
  const u64 *const a = warp.lanes(one.from[0]), *const b = warp.lanes(one.from[1]), *const c = warp.lanes(one.from[2]);
  for_each_lane(lanes,
                [&](int lane) { to[lane] = word_of<To>(f(taken<A>(a[lane]), taken<B>(b[lane]), taken<C>(c[lane]))); });
}

/// Calls f<T>() for the type of this name; null if it is none of Ts.
template <class... Ts>
struct Types {
  template <class F>
  static Handler call(std::string_view type, const F& f) {
    Handler handler = nullptr;
    if (type.empty()) return handler;
    ((handler == nullptr && is<Ts>(type) ? (handler = f.template operator()<Ts>(), 0) : 0), ...);
    return handler;
  }

 private:
  template <class T>
  static bool is(std::string_view type) {
    if constexpr (std::is_same_v<T, f16>) return type == "f16";
    if constexpr (std::is_same_v<T, bf16>) return type == "bf16";
    if constexpr (std::is_same_v<T, float>) return type == "f32";
    if constexpr (std::is_same_v<T, double>) return type == "f64";
    if constexpr (std::is_integral_v<T>) {
      if (type == "pred") return std::is_same_v<T, bool>;
      if (std::is_same_v<T, bool>) return false;
      const std::string_view bits = type.substr(std::min<std::size_t>(1, type.size()));
      return (type[0] == 's') == std::is_signed_v<T> && (type[0] == 's' || type[0] == 'u' || type[0] == 'b') &&
             bits == (sizeof(T) == 1   ? "8"
                      : sizeof(T) == 2 ? "16"
                      : sizeof(T) == 4 ? "32"
                                       : "64");
    }
    return false;
  }
};
using Integers = Types<u16, s16, u32, s32, u64, s64>;
using Bits = Types<bool, u16, u32, u64>;
using Numbers = Types<u16, s16, u32, s32, u64, s64, float, double>;
using Floats = Types<float, double>;

template <class T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
/// Twice as wide.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
                                std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, s64, u64>,
                                                   std::conditional_t<std::is_signed_v<T>, s128, u128>>>;

template <class T>
T added(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <class T>
T subtracted(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
}
template <class T>
T multiplied(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(u64(static_cast<u64>(a)) * static_cast<u64>(b));
  return static_cast<T>(a * b);
}
template <class T>
T multiplied_high(T a, T b) {
  return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (8 * sizeof(T)));
}
template <class T>
T divided(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
    }
  }
  return static_cast<T>(a / b);
}
template <class T>
T remainder_of(T a, T b) {
  return subtracted<T>(a, multiplied<T>(divided<T>(a, b), b));
}
template <class T>
T least_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == b) return std::signbit(a) ? a : b;
    return std::fmin(a, b);
  }
  return b < a ? b : a;
}
template <class T>
T largest_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == b) return std::signbit(a) ? b : a;
    return std::fmax(a, b);
  }
  return a < b ? b : a;
}
template <class T>
T absolute(T a) {
  if constexpr (std::is_floating_point_v<T>) return std::fabs(a);
  return a < 0 ? subtracted<T>(T{}, a) : a;
}
template <class T>
T negated(T a) {
  if constexpr (std::is_floating_point_v<T>) return -a;
  return subtracted<T>(T{}, a);
}
template <class T>
T shifted_left(T a, u32 by) {
  return by >= 8 * sizeof(T) ? T{} : static_cast<T>(a << by);
}
template <class T>
T shifted_right(T a, u32 by) {
  constexpr u32 bits = 8 * sizeof(T);
  if (by >= bits) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{};
  return static_cast<T>(a >> by);
}
template <class T>
T multiply_added(T a, T b, T c) {
  if constexpr (std::is_floating_point_v<T>) return std::fma(a, b, c);
  return added<T>(multiplied<T>(a, b), c);
}
template <class T>
Wide<T> multiplied_wide(T a, T b) {
  return static_cast<Wide<T>>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
}
template <class T>
Wide<T> multiply_added_wide(T a, T b, Wide<T> c) {
  return added<Wide<T>>(multiplied_wide<T>(a, b), c);
}
template <class T>
T chosen(T a, T b, bool first) {
  return first ? a : b;
}
template <class T>
T bits_inserted(T a, T b, u32 from, u32 count) {
  from &= 255;
  count &= 255;
  if (from >= 8 * sizeof(T) || count == 0) return b;
  const T ones = count >= 8 * sizeof(T) ? static_cast<T>(~T{}) : static_cast<T>((T{1} << count) - 1);
  const T mask = static_cast<T>(ones << from);
  return static_cast<T>((b & ~mask) | ((a << from) & mask));
}
template <class T>
T bits_extracted(T a, u32 from, u32 count) {
  using U = std::make_unsigned_t<T>;
  constexpr u32 bits = 8 * sizeof(T);
  from &= 255;
  count &= 255;
  if (count == 0) return T{};
  const bool sign = std::is_signed_v<T> && ((static_cast<U>(a) >> std::min(from + count - 1, bits - 1)) & 1U) != 0;
  U value = from >= bits ? U{} : static_cast<U>(static_cast<U>(a) >> from);
  const u32 there = from >= bits ? 0 : std::min(count, bits - from);
  const U mask = there >= bits ? static_cast<U>(~U{}) : static_cast<U>((U{1} << there) - 1);
  value &= mask;
  if (sign) value |= static_cast<U>(~mask);
  return static_cast<T>(value);
}
u32 bytes_permuted(u32 a, u32 b, u32 selector) {
  const u64 both = (u64{b} << 32U) | a;
  u32 result = 0;
  for (u32 k = 0; k < 4; ++k) {
    const u32 which = (selector >> (4 * k)) & 15U;
    u32 byte = static_cast<u32>(both >> (8 * (which & 7U))) & 255U;
    if ((which & 8U) != 0) byte = (byte & 128U) != 0 ? 255 : 0;
    result |= byte << (8 * k);
  }
  return result;
}
template <class T>
u32 highest_bit(T a) {
  using U = std::make_unsigned_t<T>;
  U value = static_cast<U>(a);
  if (std::is_signed_v<T> && a < 0) value = static_cast<U>(~value);
  return value == 0 ? ~u32{0} : static_cast<u32>(std::bit_width(value) - 1);
}
template <class T>
T bits_reversed(T a) {
  T result = 0;
  for (std::size_t k = 0; k < 8 * sizeof(T); ++k)
    result = static_cast<T>(result | (((a >> k) & 1U) << (8 * sizeof(T) - 1 - k)));
  return result;
}

/// f(numbers...), rounded as fesetround says.
template <int rounding, auto f, class... Numbers>
[[gnu::noinline]] float in_direction(Numbers... numbers) {
  const int before = std::fegetround();
  std::fesetround(rounding);
  volatile float result = f(static_cast<volatile Numbers&>(numbers)...);
  std::fesetround(before);
  return result;
}

// Conversions ---------------------------------------------------------------------------------------------------------

float to_float(bf16 value) { return std::bit_cast<float>(u32{value.bits} << 16U); }
float to_float(f16 value) {
  const int exponent = (value.bits >> 10U) & 31, digits = value.bits & 1023;
  float result = 0;
  if (exponent == 31) {
    result = digits == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else {
    result = std::ldexp(static_cast<float>(exponent == 0 ? digits : digits + 1024), std::max(exponent, 1) - 25);
  }
  return (value.bits >> 15U) != 0 ? -result : result;
}
/// The nearest of the numbers with so many bits of an exponent and of digits after the point, or infinity.
template <int exponent_bits, int digits>
u16 narrowed(double value) {
  if (std::isnan(value)) return 0x7fff;
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  const u32 sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  const int exponent = size == 0 ? 1 - bias : std::max(1 - bias, std::min(std::ilogb(size), bias + 1));
  // In units of the last digit: what rounding makes too large for the digits is the next exponent's first number.
  const double units = std::nearbyint(std::ldexp(size, digits - exponent));
  constexpr u32 infinity = ((u32{1} << exponent_bits) - 1) << digits;
  const double bits = units + std::ldexp(exponent + bias - 1, digits);
  return static_cast<u16>(sign | (bits >= infinity ? infinity : static_cast<u32>(bits)));
}

enum class Rounding { none, nearest, zero, down, up };

template <class T>
T rounded(T value, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest:
      return std::nearbyint(value);
    case Rounding::zero:
      return std::trunc(value);
    case Rounding::down:
      return std::floor(value);
    case Rounding::up:
      return std::ceil(value);
    default:
      return value;
  }
}
template <class To, class From, Rounding rounding>
To converted(From value) {
  if constexpr (std::is_same_v<From, bf16> || std::is_same_v<From, f16>) {
    return converted<To, float, rounding>(to_float(value));
  } else if constexpr (std::is_same_v<To, bf16> || std::is_same_v<To, f16>) {
    double number = static_cast<double>(value);
    if constexpr (!std::is_integral_v<From>) number = rounded(number, rounding);
    return {std::is_same_v<To, bf16> ? narrowed<8, 7>(number) : narrowed<5, 10>(number)};
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    if (std::isnan(value)) {
      constexpr bool is_zero = !std::is_same_v<From, double> && sizeof(To) < 8;
      return is_zero ? To{} : static_cast<To>(u64{1} << (8 * sizeof(To) - 1));
    }
    const double whole = rounded(static_cast<double>(value), rounding);
    if (whole <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (whole >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(whole);
  } else if constexpr (std::is_integral_v<To> || std::is_integral_v<From>) {
    return static_cast<To>(value);
  } else {
    return static_cast<To>(rounded(value, rounding));
  }
}
template <class To, class From, Rounding rounding>
void convert(Warp& warp, const Instruction& one, u32 lanes) {
  u64* const to = warp.lanes(one.to[0]);
  const u64* const a = warp.lanes(one.from[0]);
  for_each_lane(lanes, [&](int lane) {
    const To result = converted<To, From, rounding>(taken<From>(a[lane]));
    // Integers fill a register that is wider than they are.
    if constexpr (std::is_integral_v<To>) {
      to[lane] = static_cast<u64>(result) & one.to_bits[0];
    } else {
      to[lane] = word_of(result);
    }
  });
}
float saturated(float value) { return std::isnan(value) ? 0.F : std::clamp(value, 0.F, 1.F); }

float flushed(float value) {
  return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.F, value) : value;
}
float power_of_two(float a) { return flushed(std::exp2(flushed(a))); }
float logarithm(float a) { return std::log2(flushed(a)); }
float reciprocal(float a) { return flushed(1 / flushed(a)); }
double exact_reciprocal(double a) { return 1 / a; }

// Comparisons ---------------------------------------------------------------------------------------------------------

enum class Compare { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

template <class T, Compare compare>
bool holds(T a, T b) {
  bool unordered = false;
  if constexpr (std::is_floating_point_v<T>) unordered = std::isnan(a) || std::isnan(b);
  switch (compare) {
    case Compare::eq:
      return a == b;
    case Compare::ne:
      return !unordered && a != b;
    case Compare::lt:
      return a < b;
    case Compare::le:
      return a <= b;
    case Compare::gt:
      return a > b;
    case Compare::ge:
      return a >= b;
    case Compare::equ:
      return unordered || a == b;
    case Compare::neu:
      return a != b;
    case Compare::ltu:
      return unordered || a < b;
    case Compare::leu:
      return unordered || a <= b;
    case Compare::gtu:
      return unordered || a > b;
    case Compare::geu:
      return unordered || a >= b;
    case Compare::num:
      return !unordered;
    case Compare::nan:
      return unordered;
  }
}
template <class T, Compare compare>
void set_predicate(Warp& warp, const Instruction& one, u32 lanes) {
  u64* const to = warp.lanes(one.to[0]);
  u64* const opposite = one.to[1] == no_register ? nullptr : warp.lanes(one.to[1]);
  const u64 *const a = warp.lanes(one.from[0]), *const b = warp.lanes(one.from[1]);
  for_each_lane(lanes, [&](int lane) {
    const bool result = holds<T, compare>(taken<T>(a[lane]), taken<T>(b[lane]));
    to[lane] = result;
    if (opposite != nullptr) opposite[lane] = !result;
  });
}
template <class T>
Handler comparison(std::string_view name) {
  static constexpr std::pair<std::string_view, Handler> all[] = {
      {"eq", set_predicate<T, Compare::eq>},   {"ne", set_predicate<T, Compare::ne>},
      {"lt", set_predicate<T, Compare::lt>},   {"le", set_predicate<T, Compare::le>},
      {"gt", set_predicate<T, Compare::gt>},   {"ge", set_predicate<T, Compare::ge>},
      {"lo", set_predicate<T, Compare::lt>},   {"ls", set_predicate<T, Compare::le>},
      {"hi", set_predicate<T, Compare::gt>},   {"hs", set_predicate<T, Compare::ge>},
      {"equ", set_predicate<T, Compare::equ>}, {"neu", set_predicate<T, Compare::neu>},
      {"ltu", set_predicate<T, Compare::ltu>}, {"leu", set_predicate<T, Compare::leu>},
      {"gtu", set_predicate<T, Compare::gtu>}, {"geu", set_predicate<T, Compare::geu>},
      {"num", set_predicate<T, Compare::num>}, {"nan", set_predicate<T, Compare::nan>}};
  for (const auto& [each, handler] : all) {
    if (each == name) return handler;
  }
  return nullptr;
}

// Memory --------------------------------------------------------------------------------------------------------------

std::uint64_t address_of(Warp& warp, const Instruction& one, int lane) {
  const u64 base = warp.lanes(one.from[0])[lane];
  // Addresses in the memory of a block or a thread may have 32 bits.
  return base + static_cast<u64>(one.offset);
}
/// Copies 1, 2, 4 or 8 bytes. For a size that it does not know, g++ copies in a loop, which takes half of the time of
/// all.
void copy_number(void* to, const void* from, std::size_t bytes) {
  switch (bytes) {
    case 1:
      std::memcpy(to, from, 1);
      break;
    case 2:
      std::memcpy(to, from, 2);
      break;
    case 4:
      std::memcpy(to, from, 4);
      break;
    default:
      std::memcpy(to, from, 8);
      break;
  }
}
/// What a register has of a number in memory.
u64 loaded_word(const Instruction& one, const void* from, std::size_t k) {
  u64 word = 0;
  copy_number(&word, static_cast<const std::byte*>(from) + k * one.bytes, one.bytes);
  if (one.is_signed) {
    const int above = 64 - 8 * one.bytes;
    word = static_cast<u64>(static_cast<s64>(word << above) >> above);
  }
  return word & one.to_bits[k];
}
void load(Warp& warp, const Instruction& one, u32 lanes) {
  warp.count_access(one, lanes);
  if (const std::byte* const first = warp.in_local(one, lanes); first != nullptr) {
    const std::size_t step = warp.local_bytes();
    for (std::size_t k = 0; k < one.numbers; ++k) {
      if (one.to[k] == no_register) continue;
      u64* const to = warp.lanes(one.to[k]);
      for_each_lane(lanes, [&](int lane) { to[lane] = loaded_word(one, first + static_cast<u32>(lane) * step, k); });
    }
    return;
  }
  std::byte bytes[32];
  u64 loaded = ~u64{0};
  for_each_lane(lanes, [&](int lane) {
    const u64 address = address_of(warp, one, lane);
    // Parameters are the same for all lanes, and stay so.
    if (one.space != Space::parameter || address != loaded) warp.load(one, lane, address, bytes);
    loaded = address;
    for (std::size_t k = 0; k < one.numbers; ++k) {
      if (one.to[k] != no_register) warp.lanes(one.to[k])[lane] = loaded_word(one, bytes, k);
    }
  });
}
void store(Warp& warp, const Instruction& one, u32 lanes) {
  warp.count_access(one, lanes);
  if (std::byte* const first = warp.in_local(one, lanes); first != nullptr) {
    const std::size_t step = warp.local_bytes();
    for (std::size_t k = 0; k < one.numbers; ++k) {
      const u64* const from = warp.lanes(one.from[k + 1]);
      for_each_lane(lanes, [&](int lane) {
        copy_number(first + static_cast<u32>(lane) * step + k * one.bytes, &from[lane], one.bytes);
      });
    }
    return;
  }
  for_each_lane(lanes, [&](int lane) {
    std::byte bytes[32];
    for (std::size_t k = 0; k < one.numbers; ++k) {
      copy_number(bytes + k * one.bytes, &warp.lanes(one.from[k + 1])[lane], one.bytes);
    }
    warp.store(one, lane, address_of(warp, one, lane), bytes);
  });
}

void begin_copy(Warp& warp, const Instruction& one, u32 lanes) {
  warp.count_access(one, lanes);
  for_each_lane(lanes, [&](int lane) {
    const u64 from = warp.lanes(one.from[1])[lane] + static_cast<u64>(one.source_offset);
    warp.begin_copy(one, lane, address_of(warp, one, lane), from);
  });
}
void group_copies(Warp& warp, const Instruction&, u32 lanes) { warp.group_copies(lanes); }
void wait_for_copies(Warp& warp, const Instruction& one, u32 lanes) {
  for_each_lane(lanes, [&](int lane) { warp.wait_for_copies(u32{1} << lane, warp.lanes(one.from[0])[lane]); });
}

template <class T, auto f>
void update(Warp& warp, const Instruction& one, u32 lanes) {
  warp.count_access(one, lanes);
  for_each_lane(lanes, [&](int lane) {
    const u64 address = address_of(warp, one, lane);
    T before;
    warp.load(one, lane, address, &before);
    const T b = taken<T>(warp.lanes(one.from[1])[lane]);
    const T c = one.from[2] == no_register ? T{} : taken<T>(warp.lanes(one.from[2])[lane]);
    const T after = f(before, b, c);
    warp.store(one, lane, address, &after);
    if (one.to[0] != no_register) warp.lanes(one.to[0])[lane] = word_of(before);
  });
}
template <class T>
T with_added(T before, T b, T) {
  return added<T>(before, b);
}
template <class T>
T with_least(T before, T b, T) {
  return least_of<T>(before, b);
}
template <class T>
T with_largest(T before, T b, T) {
  return largest_of<T>(before, b);
}
template <class T>
T exchanged(T, T b, T) {
  return b;
}
template <class T>
T exchanged_if_equal(T before, T b, T c) {
  return before == b ? c : before;
}
template <class T>
T counted_up(T before, T b, T) {
  return before >= b ? T{} : static_cast<T>(before + 1);
}
template <class T>
T with_and(T before, T b, T) {
  return before & b;
}
template <class T>
T with_or(T before, T b, T) {
  return before | b;
}
template <class T>
T with_xor(T before, T b, T) {
  return before ^ b;
}

// Lanes ---------------------------------------------------------------------------------------------------------------

enum class Shuffle { up, down, butterfly, index };

template <Shuffle how>
void shuffle(Warp& warp, const Instruction& one, u32 lanes) {
  const u64 *const a = warp.lanes(one.from[0]), *const b = warp.lanes(one.from[1]), *const c = warp.lanes(one.from[2]),
                   *const members = warp.lanes(one.from[3]);
  u64 results[warp_lanes] = {}, inside[warp_lanes] = {};
  for_each_lane(lanes, [&](int lane) {
    const int by = static_cast<int>(b[lane] & 31U);
    const int clamp = static_cast<int>(c[lane] & 31U), segment = static_cast<int>((c[lane] >> 8U) & 31U);
    const int first = lane & segment, last = first | (clamp & ~segment);
    int other = 0;
    bool in_segment = false;
    switch (how) {
      case Shuffle::up:
        other = lane - by;
        in_segment = other >= last;
        break;
      case Shuffle::down:
        other = lane + by;
        in_segment = other <= last;
        break;
      case Shuffle::butterfly:
        other = lane ^ by;
        in_segment = other <= last;
        break;
      case Shuffle::index:
        other = first | (by & ~segment);
        in_segment = other <= last;
        break;
    }
    if (!in_segment) other = lane;
    if (((members[lane] >> other) & 1U) == 0)
      warp.fault(one, lane, "asks for the word of a lane that does not take part");
    results[lane] = a[other];
    inside[lane] = in_segment;
  });
  for_each_lane(lanes, [&](int lane) {
    warp.lanes(one.to[0])[lane] = results[lane] & u64{0xffffffff};
    if (one.to[1] != no_register) warp.lanes(one.to[1])[lane] = inside[lane];
  });
}

enum class Vote { ballot, any, all, uniform };

/// Among the lanes that a lane waits for, which are a part of all that do this now.
template <Vote how>
void vote(Warp& warp, const Instruction& one, u32 lanes) {
  const u64 *const a = warp.lanes(one.from[0]), *const members = warp.lanes(one.from[1]);
  u32 yes = 0;
  for_each_lane(lanes, [&](int lane) { yes |= a[lane] != 0 ? u32{1} << lane : 0; });
  for_each_lane(lanes, [&](int lane) {
    const u32 mask = static_cast<u32>(members[lane]), votes = yes & mask;
    u64 result = 0;
    switch (how) {
      case Vote::ballot:
        result = votes;
        break;
      case Vote::any:
        result = votes != 0;
        break;
      case Vote::all:
        result = votes == mask;
        break;
      case Vote::uniform:
        result = votes == mask || votes == 0;
        break;
    }
    warp.lanes(one.to[0])[lane] = result;
  });
}
void match_any(Warp& warp, const Instruction& one, u32 lanes) {
  const u64 *const a = warp.lanes(one.from[0]), *const members = warp.lanes(one.from[1]);
  u64 results[warp_lanes] = {};
  for_each_lane(lanes, [&](int lane) {
    for_each_lane(static_cast<u32>(members[lane]) & lanes, [&](int other) {
      if (a[other] == a[lane]) results[lane] |= u64{1} << other;
    });
  });
  for_each_lane(lanes, [&](int lane) { warp.lanes(one.to[0])[lane] = results[lane]; });
}
template <class T, auto f>
void reduce(Warp& warp, const Instruction& one, u32 lanes) {
  const u64 *const a = warp.lanes(one.from[0]), *const members = warp.lanes(one.from[1]);
  u64 results[warp_lanes] = {};
  for_each_lane(lanes, [&](int lane) {
    const u32 mask = static_cast<u32>(members[lane]);
    T result = taken<T>(a[std::countr_zero(mask)]);
    for_each_lane(mask & (mask - 1), [&](int other) { result = f(result, taken<T>(a[other]), T{}); });
    results[lane] = word_of(result);
  });
  for_each_lane(lanes, [&](int lane) { warp.lanes(one.to[0])[lane] = results[lane]; });
}

void nothing(Warp&, const Instruction&, u32) {}
void fence(Warp& warp, const Instruction&, u32 lanes) { warp.fence(lanes); }
void trap(Warp& warp, const Instruction& one, u32 lanes) { warp.fault(one, std::countr_zero(lanes), "traps"); }

/// One word, of which sources may be parts, or results.
void move(Warp& warp, const Instruction& one, u32 lanes) {
  const unsigned bits = 8U * one.bytes / one.numbers;
  const u64 part = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
  if (one.numbers == 1) {
    u64* const to = warp.lanes(one.to[0]);
    const u64* const from = warp.lanes(one.from[0]);
    for_each_lane(lanes, [&](int lane) { to[lane] = from[lane] & part; });
    return;
  }
  const bool has_parts = one.from[1] != no_register;
  for_each_lane(lanes, [&](int lane) {
    u64 word = warp.lanes(one.from[0])[lane];
    if (has_parts) {
      word = 0;
      for (unsigned k = 0; k < one.numbers; ++k) word |= (warp.lanes(one.from[k])[lane] & part) << (k * bits);
      warp.lanes(one.to[0])[lane] = word;
      return;
    }
    for (unsigned k = 0; k < one.numbers; ++k) {
      if (one.to[k] != no_register) warp.lanes(one.to[k])[lane] = (word >> (k * bits)) & part;
    }
  });
}
void add_window(Warp& warp, const Instruction& one, u32 lanes) {
  const u64 window = one.space == Space::shared ? shared_window : one.space == Space::local ? local_window : 0;
  const u64* const a = warp.lanes(one.from[0]);
  u64* const to = warp.lanes(one.to[0]);
  for_each_lane(lanes, [&](int lane) { to[lane] = a[lane] | window; });
}
void remove_window(Warp& warp, const Instruction& one, u32 lanes) {
  const u64* const a = warp.lanes(one.from[0]);
  u64* const to = warp.lanes(one.to[0]);
  const bool has_window = one.space == Space::shared || one.space == Space::local;
  for_each_lane(lanes, [&](int lane) { to[lane] = has_window ? a[lane] & ~window_mask & one.to_bits[0] : a[lane]; });
}
void is_in_space(Warp& warp, const Instruction& one, u32 lanes) {
  const u64* const a = warp.lanes(one.from[0]);
  u64* const to = warp.lanes(one.to[0]);
  for_each_lane(lanes, [&](int lane) {
    const u64 window = a[lane] & window_mask;
    const Space space = window == shared_window ? Space::shared : window == local_window ? Space::local : Space::global;
    to[lane] = space == one.space;
  });
}
void three_inputs(Warp& warp, const Instruction& one, u32 lanes) {
  const u64 *const a = warp.lanes(one.from[0]), *const b = warp.lanes(one.from[1]), *const c = warp.lanes(one.from[2]),
                   *const table = warp.lanes(one.from[3]);
  u64* const to = warp.lanes(one.to[0]);
  for_each_lane(lanes, [&](int lane) {
    u64 result = 0;
    for (unsigned bit = 0; bit < 32; ++bit) {
      const u64 which = (((a[lane] >> bit) & 1U) << 2U) | (((b[lane] >> bit) & 1U) << 1U) | ((c[lane] >> bit) & 1U);
      result |= ((table[lane] >> which) & 1U) << bit;
    }
    to[lane] = result;
  });
}
template <bool left, bool wraps>
u32 shifted_funnel(u32 a, u32 b, u32 by) {
  by = wraps ? by & 31U : std::min<u32>(by, 32);
  const u64 both = (u64{b} << 32U) | a;
  return left ? static_cast<u32>((both << by) >> 32U) : static_cast<u32>(both >> by);
}
template <class T>
void insert_bits(Warp& warp, const Instruction& one, u32 lanes) {
  u64* const to = warp.lanes(one.to[0]);
  for_each_lane(lanes, [&](int lane) {
    const auto operand = [&](std::size_t k) { return warp.lanes(one.from[k])[lane]; };
    to[lane] = word_of<T>(
        bits_inserted<T>(taken<T>(operand(0)), taken<T>(operand(1)), taken<u32>(operand(2)), taken<u32>(operand(3))));
  });
}

template <class To, class From>
Handler conversion([[maybe_unused]] Rounding rounding) {
  // Integers have nothing to round, and this file takes long enough to compile.
  if constexpr (std::is_integral_v<From>) {
    return convert<To, From, Rounding::none>;
  } else {
    switch (rounding) {
      case Rounding::none:
        return convert<To, From, Rounding::none>;
      case Rounding::nearest:
        return convert<To, From, Rounding::nearest>;
      case Rounding::zero:
        return convert<To, From, Rounding::zero>;
      case Rounding::down:
        return convert<To, From, Rounding::down>;
      case Rounding::up:
        return convert<To, From, Rounding::up>;
    }
    return nullptr;
  }
}

bool is_type(std::string_view word) {
  if (word == "pred" || word == "bf16") return true;
  return word.size() >= 2 && std::string_view("bsuf").find(word[0]) != std::string_view::npos &&
         (word.substr(1) == "8" || word.substr(1) == "16" || word.substr(1) == "32" || word.substr(1) == "64");
}

}  // namespace

Handler find_handler(std::string_view operation, Instruction& one) {
  std::vector<std::string_view> words;
  for (std::string_view rest = operation; !rest.empty();) {
    const std::size_t dot = rest.find('.');
    words.push_back(rest.substr(0, dot));
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  }
  const std::string_view base = words[0];
  std::vector<std::string_view> types;
  while (words.size() > 1 && is_type(words.back())) {
    types.insert(types.begin(), words.back());
    words.pop_back();
  }
  const auto has = [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  const std::string_view type = types.empty() ? std::string_view() : types.back();
  // What changes a result, and is not understood of most.
  if (has("sat") && base != "cvt") return nullptr;
  if (has("cc") || has("x2") || has("NaN") || has("xorsign") || has("relu") || has("oob")) return nullptr;
  if (has("rp") || (has("rm") && base != "fma") || (has("rz") && base != "add")) return nullptr;
  if (has("ftz") && !has("approx")) return nullptr;
  for (const auto& [word, space] : {std::pair<std::string_view, Space>{"global", Space::global},
                                    {"const", Space::global},
                                    {"shared", Space::shared},
                                    {"shared::cta", Space::shared},
                                    {"local", Space::local},
                                    {"param", Space::parameter}}) {
    if (has(word)) one.space = space;
  }

  if (base == "ld" || base == "st" || base == "atom" || base == "red") {
    if (type.empty()) return nullptr;
    one.bytes = static_cast<std::uint8_t>(type.ends_with("64")   ? 8
                                          : type.ends_with("32") ? 4
                                          : type.ends_with("16") ? 2
                                                                 : 1);
    one.is_signed = type[0] == 's';
    one.numbers = has("v4") ? 4 : has("v2") ? 2 : 1;
    one.is_strong = has("volatile") || has("relaxed") || has("acquire") || has("release") || base[0] != 'l';
    if (base == "st") one.is_strong = has("volatile") || has("relaxed") || has("release");
    if (base == "ld") return load;
    if (base == "st") return store;
    one.is_signed = false;
    if (has("add")) {
      return Types<u32, s32, u64, s64, float, double>::call(
          type, []<class T>() -> Handler { return update<T, with_added<T>>; });
    }
    using Words = Types<u32, s32, u64, s64>;
    if (has("min")) return Words::call(type, []<class T>() -> Handler { return update<T, with_least<T>>; });
    if (has("max")) return Words::call(type, []<class T>() -> Handler { return update<T, with_largest<T>>; });
    if (has("exch")) return Words::call(type, []<class T>() -> Handler { return update<T, exchanged<T>>; });
    if (has("cas")) return Words::call(type, []<class T>() -> Handler { return update<T, exchanged_if_equal<T>>; });
    if (has("inc")) return Words::call(type, []<class T>() -> Handler { return update<T, counted_up<T>>; });
    if (has("and")) return Words::call(type, []<class T>() -> Handler { return update<T, with_and<T>>; });
    if (has("or")) return Words::call(type, []<class T>() -> Handler { return update<T, with_or<T>>; });
    if (has("xor")) return Words::call(type, []<class T>() -> Handler { return update<T, with_xor<T>>; });
    return nullptr;
  }
  if (base == "cp" && has("async")) {
    if (has("commit_group")) return group_copies;
    if (has("wait_group")) return wait_for_copies;
    return has("shared") && has("global") ? begin_copy : nullptr;
  }
  if (base == "mov") {
    if (type.empty()) return nullptr;
    one.bytes = static_cast<std::uint8_t>(type.ends_with("64") ? 8 : type.ends_with("16") ? 2 : 4);
    return move;
  }
  if (has("param") && (base == "cvta" || base == "isspacep")) return nullptr;
  if (base == "cvta") return has("to") ? remove_window : add_window;
  if (base == "isspacep") return is_in_space;
  if (base == "membar" || base == "fence") return fence;
  if (base == "nanosleep") {
    one.control = Control::yield;
    return nothing;
  }
  if (base == "prefetch" || base == "griddepcontrol") return nothing;
  if (base == "trap") return trap;
  if (base == "shfl") {
    one.control = Control::warp_sync;
    return has("up")     ? shuffle<Shuffle::up>
           : has("down") ? shuffle<Shuffle::down>
           : has("bfly") ? shuffle<Shuffle::butterfly>
                         : shuffle<Shuffle::index>;
  }
  if (base == "vote") {
    one.control = Control::warp_sync;
    return has("ballot") ? vote<Vote::ballot>
           : has("any")  ? vote<Vote::any>
           : has("all")  ? vote<Vote::all>
                         : vote<Vote::uniform>;
  }
  if (base == "match") {
    one.control = Control::warp_sync;
    return has("any") ? match_any : nullptr;
  }
  if (base == "redux") {
    one.control = Control::warp_sync;
    using Words = Types<u32, s32>;
    if (has("add")) return Words::call(type, []<class T>() -> Handler { return reduce<T, with_added<T>>; });
    if (has("min")) return Words::call(type, []<class T>() -> Handler { return reduce<T, with_least<T>>; });
    if (has("max")) return Words::call(type, []<class T>() -> Handler { return reduce<T, with_largest<T>>; });
    if (has("or")) return Words::call(type, []<class T>() -> Handler { return reduce<T, with_or<T>>; });
    if (has("and")) return Words::call(type, []<class T>() -> Handler { return reduce<T, with_and<T>>; });
    return nullptr;
  }
  if (base == "bar" || base == "barrier") {
    if (has("warp")) {
      one.control = Control::warp_sync;
      return nothing;
    }
    one.control = Control::barrier;
    // What the barrier makes of the predicates of all threads is worked out by the block.
    return has("or") || has("and") || !has("red") ? nothing : nullptr;
  }

  if (base == "add" && has("rz")) {
    return type == "f32" ? binary<float, float, float, in_direction<FE_TOWARDZERO, added<float>, float, float>>
                         : nullptr;
  }
  if (base == "add") return Numbers::call(type, []<class T>() -> Handler { return binary<T, T, T, added<T>>; });
  if (base == "sub") return Numbers::call(type, []<class T>() -> Handler { return binary<T, T, T, subtracted<T>>; });
  if (base == "mul" && has("hi")) {
    return Integers::call(type, []<class T>() -> Handler { return binary<T, T, T, multiplied_high<T>>; });
  }
  if (base == "mul" && has("wide")) {
    return Types<u16, s16, u32, s32>::call(
        type, []<class T>() -> Handler { return binary<Wide<T>, T, T, multiplied_wide<T>>; });
  }
  if (base == "mul") return Numbers::call(type, []<class T>() -> Handler { return binary<T, T, T, multiplied<T>>; });
  if (base == "mad" && has("wide")) {
    return Types<u16, s16, u32, s32>::call(
        type, []<class T>() -> Handler { return ternary<Wide<T>, T, T, Wide<T>, multiply_added_wide<T>>; });
  }
  if (base == "mad" && has("hi")) return nullptr;
  if (base == "fma" && has("rm")) {
    return type == "f32" ? ternary<float, float, float, float,
                                   in_direction<FE_DOWNWARD, multiply_added<float>, float, float, float>>
                         : nullptr;
  }
  if (base == "mad" || base == "fma") {
    return Numbers::call(type, []<class T>() -> Handler { return ternary<T, T, T, T, multiply_added<T>>; });
  }
  if (base == "div") return Numbers::call(type, []<class T>() -> Handler { return binary<T, T, T, divided<T>>; });
  if (base == "rem") return Integers::call(type, []<class T>() -> Handler { return binary<T, T, T, remainder_of<T>>; });
  if (base == "min") return Numbers::call(type, []<class T>() -> Handler { return binary<T, T, T, least_of<T>>; });
  if (base == "max") return Numbers::call(type, []<class T>() -> Handler { return binary<T, T, T, largest_of<T>>; });
  if (base == "abs") return Numbers::call(type, []<class T>() -> Handler { return unary<T, T, absolute<T>>; });
  if (base == "neg") return Numbers::call(type, []<class T>() -> Handler { return unary<T, T, negated<T>>; });
  if (base == "sqrt")
    return Floats::call(type, []<class T>() -> Handler { return unary<T, T, [](T a) { return std::sqrt(a); }>; });
  if (base == "rsqrt") {
    return Floats::call(type, []<class T>() -> Handler { return unary<T, T, [](T a) { return 1 / std::sqrt(a); }>; });
  }
  if (base == "rcp") {
    return type == "f64"   ? unary<double, double, exact_reciprocal>
           : has("approx") ? unary<float, float, reciprocal>
                           : unary<float, float, [](float a) { return 1 / a; }>;
  }
  if (base == "ex2" && type == "f32") return unary<float, float, power_of_two>;
  if (base == "lg2" && type == "f32") return unary<float, float, logarithm>;
  if (base == "tanh" && type == "f32") return unary<float, float, [](float a) { return std::tanh(a); }>;
  if (base == "copysign") {
    return Floats::call(
        type, []<class T>() -> Handler { return binary<T, T, T, [](T sign, T a) { return std::copysign(a, sign); }>; });
  }
  if (base == "and")
    return Bits::call(
        type, []<class T>() -> Handler { return binary<T, T, T, [](T a, T b) { return static_cast<T>(a & b); }>; });
  if (base == "or")
    return Bits::call(
        type, []<class T>() -> Handler { return binary<T, T, T, [](T a, T b) { return static_cast<T>(a | b); }>; });
  if (base == "xor")
    return Bits::call(
        type, []<class T>() -> Handler { return binary<T, T, T, [](T a, T b) { return static_cast<T>(a ^ b); }>; });
  if (base == "not") {
    return Bits::call(type, []<class T>() -> Handler {
      return unary<T, T, [](T a) { return static_cast<T>(std::is_same_v<T, bool> ? a == 0 : ~static_cast<u64>(a)); }>;
    });
  }
  using Unsigned = Types<u16, u32, u64>;
  if (base == "shl")
    return Unsigned::call(type, []<class T>() -> Handler { return binary<T, T, u32, shifted_left<T>>; });
  if (base == "shr")
    return Integers::call(type, []<class T>() -> Handler { return binary<T, T, u32, shifted_right<T>>; });
  if (base == "shf") {
    return has("l")      ? has("wrap") ? ternary<u32, u32, u32, u32, shifted_funnel<true, true>>
                                       : ternary<u32, u32, u32, u32, shifted_funnel<true, false>>
                : has("wrap") ? ternary<u32, u32, u32, u32, shifted_funnel<false, true>>
                         : ternary<u32, u32, u32, u32, shifted_funnel<false, false>>;
  }
  if (base == "bfi") return Unsigned::call(type, []<class T>() -> Handler { return insert_bits<T>; });
  if (base == "bfe") {
    return Types<u32, s32, u64, s64>::call(
        type, []<class T>() -> Handler { return ternary<T, T, u32, u32, bits_extracted<T>>; });
  }
  if (base == "prmt" && words.size() == 1) return ternary<u32, u32, u32, u32, bytes_permuted>;
  if (base == "lop3" && words.size() == 1) return three_inputs;
  if (base == "popc")
    return Unsigned::call(type, []<class T>() -> Handler {
      return unary<u32, T, [](T a) { return static_cast<u32>(std::popcount(a)); }>;
    });
  if (base == "clz")
    return Unsigned::call(type, []<class T>() -> Handler {
      return unary<u32, T, [](T a) { return static_cast<u32>(std::countl_zero(a)); }>;
    });
  if (base == "brev") return Unsigned::call(type, []<class T>() -> Handler { return unary<T, T, bits_reversed<T>>; });
  if (base == "bfind" && !has("shiftamt")) {
    return Types<u32, s32, u64, s64>::call(type, []<class T>() -> Handler { return unary<u32, T, highest_bit<T>>; });
  }
  if (base == "selp") {
    return Types<u16, s16, u32, s32, u64, s64, float, double>::call(
        type, []<class T>() -> Handler { return ternary<T, T, T, bool, chosen<T>>; });
  }
  if (base == "setp") {
    if (words.size() != 2) return nullptr;
    return Numbers::call(type, [&]<class T>() -> Handler { return comparison<T>(words[1]); });
  }
  if (base == "cvt") {
    if (types.size() != 2) return nullptr;
    if (has("sat")) {
      return types[0] == "f32" && types[1] == "f32" ? unary<float, float, saturated> : nullptr;
    }
    const Rounding rounding = has("rni")   ? Rounding::nearest
                              : has("rzi") ? Rounding::zero
                              : has("rmi") ? Rounding::down
                              : has("rpi") ? Rounding::up
                                           : Rounding::none;
    using All = Types<u8, s8, u16, s16, u32, s32, u64, s64, f16, bf16, float, double>;
    return All::call(types[0], [&]<class To>() -> Handler {
      return All::call(types[1], [&]<class From>() -> Handler { return conversion<To, From>(rounding); });
    });
  }
  return nullptr;
}

}
