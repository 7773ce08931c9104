// SPDX-License-Identifier: Apache-2.0
/// Each result is what the PTX ISA says, worked out by hand.
#include "ptx/test_kernel.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

using namespace lod_test::ptx;

namespace {

using s16 = std::int16_t;
using u16 = std::uint16_t;
using s32 = std::int32_t;
using u32 = std::uint32_t;
using s64 = std::int64_t;
using u64 = std::uint64_t;

constexpr s32 lowest32 = std::numeric_limits<s32>::min(), highest32 = std::numeric_limits<s32>::max();
constexpr s64 lowest64 = std::numeric_limits<s64>::min(), highest64 = std::numeric_limits<s64>::max();
constexpr float infinity = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr double infinity64 = std::numeric_limits<double>::infinity(),
                 not_a_number64 = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("PTX, integers: sums, differences and negation wrap") {
  CHECK(calculate<s16>("add.s16", s16{32767}, s16{1}) == -32768);
  CHECK(calculate<s32>("add.s32", highest32, 1) == lowest32);
  CHECK(calculate<s64>("add.s64", highest64, s64{1}) == lowest64);
  CHECK(calculate<u16>("sub.u16", u16{0}, u16{1}) == 0xffff);
  CHECK(calculate<u32>("sub.u32", 0U, 1U) == 0xffffffffU);
  CHECK(calculate<u64>("sub.u64", u64{0}, u64{1}) == ~u64{0});
  CHECK(calculate<s32>("neg.s32", lowest32) == lowest32);
  CHECK(calculate<s32>("abs.s32", -7) == 7);
  CHECK(calculate<s64>("abs.s64", lowest64) == lowest64);
}

TEST_CASE("PTX, integers: products have a low half, a high half and both") {
  CHECK(calculate<s16>("mul.lo.s16", s16{-300}, s16{300}) == static_cast<s16>(-90000));
  CHECK(calculate<u16>("mul.hi.u16", u16{0xffff}, u16{0xffff}) == 0xfffe);
  CHECK(calculate<s16>("mul.hi.s16", s16{-32768}, s16{-32768}) == 0x4000);
  CHECK(calculate<u32>("mul.lo.u32", 0x80000001U, 3U) == 0x80000003U);
  CHECK(calculate<u32>("mul.hi.u32", 0xffffffffU, 0xffffffffU) == 0xfffffffeU);
  CHECK(calculate<s32>("mul.hi.s32", lowest32, lowest32) == 0x40000000);
  CHECK(calculate<s32>("mul.hi.s32", -1, 1) == -1);
  CHECK(calculate<u64>("mul.hi.u64", ~u64{0}, ~u64{0}) == ~u64{0} - 1);
  CHECK(calculate<s64>("mul.hi.s64", lowest64, s64{2}) == -1);
  CHECK(calculate<u64>("mul.wide.u32", 0xffffffffU, 0xffffffffU) == 0xfffffffe00000001U);
  CHECK(calculate<s64>("mul.wide.s32", lowest32, lowest32) == s64{1} << 62);
  CHECK(calculate<u32>("mul.wide.u16", u16{0xffff}, u16{0xffff}) == 0xfffe0001U);
  CHECK(calculate<s32>("mul.wide.s16", s16{-32768}, s16{2}) == -65536);
  CHECK(calculate<s32>("mad.lo.s32", -3, 5, 7) == -8);
  CHECK(calculate<s64>("mad.wide.s32", lowest32, 2, s64{1}) == (s64{-1} << 32) + 1);
}

TEST_CASE("PTX, integers: quotients are cut off, remainders have the sign of what is divided") {
  CHECK(calculate<s32>("div.s32", -7, 2) == -3);
  CHECK(calculate<s32>("rem.s32", -7, 2) == -1);
  CHECK(calculate<s64>("div.s64", s64{-7}, s64{-2}) == 3);
  CHECK(calculate<s64>("rem.s64", s64{7}, s64{-2}) == 1);
  CHECK(calculate<u32>("div.u32", 0xffffffffU, 2U) == 0x7fffffffU);
  CHECK(calculate<u64>("rem.u64", ~u64{0}, u64{10}) == 5);
  CHECK(calculate<s32>("div.s32", lowest32, -1) == lowest32);
  CHECK(calculate<s32>("rem.s32", lowest32, -1) == 0);
}

TEST_CASE("PTX, integers: the smaller and the larger one, with and without a sign") {
  CHECK(calculate<s32>("min.s32", -1, 1) == -1);
  CHECK(calculate<u32>("min.u32", 0xffffffffU, 1U) == 1);
  CHECK(calculate<s64>("max.s64", lowest64, s64{0}) == 0);
  CHECK(calculate<u64>("max.u64", u64{1} << 63U, u64{0}) == u64{1} << 63U);
  CHECK(calculate<bool>("setp.lt.s32", -1, 1));
  CHECK(!calculate<bool>("setp.lt.u32", -1, 1));
  CHECK(calculate<bool>("setp.hi.u32", -1, 1));
  CHECK(calculate<bool>("setp.gt.u16", u16{0xffff}, u16{1}));
  CHECK(!calculate<bool>("setp.gt.s16", u16{0xffff}, u16{1}));
}

TEST_CASE("PTX, bits: shifts by the width and by more leave nothing but signs") {
  CHECK(calculate<u32>("shl.b32", 1U, 31U) == 0x80000000U);
  CHECK(calculate<u32>("shl.b32", 1U, 32U) == 0);
  CHECK(calculate<u32>("shl.b32", 1U, 0xffffffffU) == 0);
  CHECK(calculate<u64>("shl.b64", u64{1}, 63U) == u64{1} << 63U);
  CHECK(calculate<u64>("shl.b64", u64{1}, 64U) == 0);
  CHECK(calculate<u16>("shl.b16", u16{1}, 15U) == 0x8000);
  CHECK(calculate<u16>("shl.b16", u16{1}, 16U) == 0);
  CHECK(calculate<u32>("shr.u32", 0x80000000U, 31U) == 1);
  CHECK(calculate<u32>("shr.u32", 0x80000000U, 32U) == 0);
  CHECK(calculate<s32>("shr.s32", -8, 1U) == -4);
  CHECK(calculate<s32>("shr.s32", -8, 99U) == -1);
  CHECK(calculate<s32>("shr.s32", 8, 99U) == 0);
  CHECK(calculate<s64>("shr.s64", lowest64, 64U) == -1);
  CHECK(calculate<s16>("shr.s16", s16{-2}, 20U) == -1);
  CHECK(calculate<u32>("shf.l.wrap.b32", 0x80000000U, 1U, 33U) == 3);
  CHECK(calculate<u32>("shf.l.clamp.b32", 0x12345678U, 1U, 40U) == 0x12345678U);
  CHECK(calculate<u32>("shf.r.wrap.b32", 0U, 1U, 33U) == 0x80000000U);
  CHECK(calculate<u32>("shf.r.clamp.b32", 0U, 7U, 40U) == 7);
}

TEST_CASE("PTX, bits: fields are put in and taken out, also where they leave the word") {
  CHECK(calculate<u32>("bfi.b32", 0xffU, 0U, 8U, 4U) == 0xf00);
  CHECK(calculate<u32>("bfi.b32", 0xffU, 0x12345678U, 28U, 8U) == 0xf2345678U);
  CHECK(calculate<u32>("bfi.b32", 0xffU, 5U, 32U, 8U) == 5);
  CHECK(calculate<u32>("bfi.b32", 0xffU, 5U, 0U, 0U) == 5);
  CHECK(calculate<u32>("bfi.b32", 0xffU, 5U, 0U, 255U) == 0xff);
  CHECK(calculate<u64>("bfi.b64", u64{0xffff}, u64{0}, 48U, 16U) == u64{0xffff} << 48U);
  CHECK(calculate<u32>("bfe.u32", 0x12345678U, 8U, 8U) == 0x56);
  CHECK(calculate<s32>("bfe.s32", 0x00008000, 8U, 8U) == -128);
  CHECK(calculate<s32>("bfe.s32", lowest32, 28U, 32U) == -8);
  CHECK(calculate<s32>("bfe.s32", lowest32, 40U, 8U) == -1);
  CHECK(calculate<u64>("bfe.u64", ~u64{0}, 60U, 16U) == 15);
  CHECK(calculate<u32>("bfe.u32", ~0U, 3U, 0U) == 0);
}

TEST_CASE("PTX, bits: bytes permuted, logic of three, bits counted and reversed") {
  CHECK(calculate<u32>("prmt.b32", 0x33221100U, 0x77665544U, 0x7610U) == 0x77661100U);
  CHECK(calculate<u32>("prmt.b32", 0x80807f00U, 0U, 0xa9b8U) == 0xff00ff00U);
  CHECK(calculate<u32>("lop3.b32", 0xf0U, 0xccU, 0xaaU, 0x96U) == (0xf0U ^ 0xccU ^ 0xaaU));
  CHECK(calculate<u32>("lop3.b32", 0xf0U, 0xccU, 0xaaU, 0xe8U) == 0xe8U);
  CHECK(calculate<u32>("popc.b32", 0xf0f0f0f0U) == 16);
  CHECK(calculate<u32>("popc.b64", ~u64{0}) == 64);
  CHECK(calculate<u32>("clz.b32", 0U) == 32);
  CHECK(calculate<u32>("clz.b64", u64{1}) == 63);
  CHECK(calculate<u32>("brev.b32", 1U) == 0x80000000U);
  CHECK(calculate<u64>("brev.b64", u64{2}) == u64{1} << 62U);
  CHECK(calculate<u32>("bfind.u32", 0U) == ~0U);
  CHECK(calculate<u32>("bfind.s32", -1) == ~0U);
  CHECK(calculate<u32>("bfind.u64", u64{1} << 40U) == 40);
  CHECK(calculate<u16>("not.b16", u16{0xff}) == 0xff00);
  CHECK(calculate<u64>("xor.b64", ~u64{0}, u64{1}) == ~u64{1});
}

TEST_CASE("PTX, words: parts are put together and taken apart, the first one lowest") {
  const auto words = run_statements(R"(
    mov.b32 %r10, 0x11223344;
    mov.b32 %r11, 0x55667788;
    mov.b64 %rd10, {%r10, %r11};
    mov.b64 {%r12, %r13}, %rd10;
    mov.b32 {%rs1, %rs2}, %r13;
    mov.b32 %r14, {%rs2, %rs1};
    mov.b64 {_, %r15}, %rd10;
    st.global.u64 [%rd3], %rd10;
    st.global.v2.u32 [%rd3+8], {%r14, %r15};)",
                                    {.threads = 1, .before_kernel = {}});
  CHECK(words[0] == 0x5566778811223344U);
  CHECK(words[1] == 0x5566778877885566U);
}

TEST_CASE("PTX, predicates: one that holds may be -1, as nvcc writes it") {
  const auto holds = [](const std::string& statement) {
    const std::string store = "selp.u16 %rs10, 1, 0, %p3;\nst.global.u16 [%rd3], %rs10;";
    return run_statements("mov.pred %p1, -1;\nmov.pred %p2, %p1;\n" + statement + ";\n" + store,
                          {.threads = 1, .before_kernel = {}})
        .at(0);
  };
  CHECK(holds("mov.pred %p3, %p2") == 1);
  CHECK(holds("not.pred %p3, %p2") == 0);
  CHECK(holds("xor.pred %p3, %p1, %p2") == 0);
  CHECK(holds("and.pred %p3, %p2, -1") == 1);
  CHECK(holds("setp.eq.s32 %p2, 1, 1;\nxor.pred %p3, %p1, %p2") == 0);
}
TEST_CASE("PTX, conversions: between integers, the sign of the source counts") {
  CHECK(calculate<s32>("cvt.s32.s8", 0x80) == -128);
  CHECK(calculate<u32>("cvt.u32.u8", 0x1ff) == 0xff);
  CHECK(calculate<s64>("cvt.s64.s32", -5) == -5);
  CHECK(calculate<u64>("cvt.u64.u32", -5) == 0xfffffffbU);
  CHECK(calculate<u16>("cvt.u16.u64", u64{0x12345}) == 0x2345);
  CHECK(calculate<u32>("cvt.u32.s16", u16{0xffff}) == 0xffffffffU);
}

TEST_CASE("PTX, conversions: floats become integers by the rounding named, at most the last ones") {
  CHECK(calculate<s32>("cvt.rni.s32.f32", 2.5F) == 2);
  CHECK(calculate<s32>("cvt.rni.s32.f32", 3.5F) == 4);
  CHECK(calculate<s32>("cvt.rzi.s32.f32", -2.7F) == -2);
  CHECK(calculate<s32>("cvt.rmi.s32.f32", -2.1F) == -3);
  CHECK(calculate<s32>("cvt.rpi.s32.f64", 2.1) == 3);
  CHECK(calculate<float>("cvt.rni.f32.f32", -0.5F) == 0);
  CHECK(std::signbit(calculate<float>("cvt.rni.f32.f32", -0.5F)));
  CHECK(calculate<float>("cvt.rmi.f32.f32", -0.5F) == -1);
  CHECK(calculate<s32>("cvt.rzi.s32.f32", 3e9F) == highest32);
  CHECK(calculate<s32>("cvt.rzi.s32.f32", -infinity) == lowest32);
  CHECK(calculate<u32>("cvt.rzi.u32.f32", -1.F) == 0);
  CHECK(calculate<u32>("cvt.rzi.u32.f64", infinity64) == 0xffffffffU);
  CHECK(calculate<s64>("cvt.rzi.s64.f64", 1e30) == highest64);
  CHECK(calculate<u64>("cvt.rzi.u64.f32", infinity) == ~u64{0});
  CHECK(calculate<s64>("cvt.rzi.s64.f64", -0x1p62) == s64{-1} << 62);
}

TEST_CASE("PTX, conversions: NaN becomes 0 only from a float of 32 bits to an integer of as many") {
  CHECK(calculate<s32>("cvt.rzi.s32.f32", not_a_number) == 0);
  CHECK(calculate<u32>("cvt.rzi.u32.f32", not_a_number) == 0);
  CHECK(calculate<s32>("cvt.rzi.s32.f64", not_a_number64) == lowest32);
  CHECK(calculate<u32>("cvt.rzi.u32.f64", not_a_number64) == 0x80000000U);
  CHECK(calculate<s64>("cvt.rzi.s64.f32", not_a_number) == lowest64);
  CHECK(calculate<u64>("cvt.rzi.u64.f64", not_a_number64) == u64{1} << 63U);
}

TEST_CASE("PTX, conversions: to floats the nearest one, between two the even one") {
  CHECK(calculate<float>("cvt.rn.f32.s32", 16777217) == 16777216);
  CHECK(calculate<float>("cvt.rn.f32.u64", ~u64{0}) == 0x1p64F);
  CHECK(calculate<float>("cvt.rn.f32.f64", 1 + 0x1p-24) == 1);
  CHECK(calculate<float>("cvt.rn.f32.f64", 1 + 0x1.8p-23) == 1 + 0x1p-22F);
  CHECK(calculate<float>("cvt.rn.f32.f64", 1e300) == infinity);
  CHECK(calculate<double>("cvt.f64.f32", 0.1F) == static_cast<double>(0.1F));
  CHECK(calculate<float>("cvt.sat.f32.f32", not_a_number) == 0);
  CHECK(calculate<float>("cvt.sat.f32.f32", 1.5F) == 1);
  CHECK(calculate<float>("cvt.sat.f32.f32", -1.5F) == 0);
}

TEST_CASE("PTX, conversions: floats of 16 bits") {
  CHECK(calculate<u16>("cvt.rn.f16.f32", 1.F) == 0x3c00);
  CHECK(calculate<u16>("cvt.rn.f16.f32", -2.F) == 0xc000);
  CHECK(calculate<u16>("cvt.rn.f16.f32", 65504.F) == 0x7bff);
  CHECK(calculate<u16>("cvt.rn.f16.f32", 65519.F) == 0x7bff);
  CHECK(calculate<u16>("cvt.rn.f16.f32", 65520.F) == 0x7c00);
  CHECK(calculate<u16>("cvt.rn.f16.f32", -infinity) == 0xfc00);
  CHECK(calculate<u16>("cvt.rn.f16.f32", not_a_number) == 0x7fff);
  CHECK(calculate<u16>("cvt.rn.f16.f32", 0x1p-24F) == 1);
  CHECK(calculate<u16>("cvt.rn.f16.f32", 0x1p-25F) == 0);
  CHECK(calculate<u16>("cvt.rn.f16.f32", 0x1.8p-24F) == 2);
  CHECK(calculate<u16>("cvt.rn.f16.f32", 0x1.ffcp-15F) == 0x3ff + 1);
  CHECK(calculate<u16>("cvt.rn.f16.f32", 1 + 0x1p-11F) == 0x3c00);
  CHECK(calculate<u16>("cvt.rn.f16.f32", 1 + 0x1.8p-10F) == 0x3c02);
  CHECK(calculate<float>("cvt.f32.f16", u16{0x0001}) == 0x1p-24F);
  CHECK(calculate<float>("cvt.f32.f16", u16{0xfbff}) == -65504);
  CHECK(calculate<float>("cvt.f32.f16", u16{0x7c00}) == infinity);
  CHECK(std::isnan(calculate<float>("cvt.f32.f16", u16{0x7c01})));
  CHECK(calculate<u16>("cvt.rn.bf16.f32", 1.F) == 0x3f80);
  CHECK(calculate<u16>("cvt.rn.bf16.f32", 1 + 0x1p-8F) == 0x3f80);
  CHECK(calculate<u16>("cvt.rn.bf16.f32", 1 + 0x1.8p-7F) == 0x3f82);
  CHECK(calculate<u16>("cvt.rn.bf16.f32", std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(calculate<u16>("cvt.rn.bf16.f32", 0x1p-133F) == 1);
  CHECK(calculate<u16>("cvt.rn.bf16.f32", not_a_number) == 0x7fff);
  CHECK(calculate<float>("cvt.f32.bf16", u16{0xc000}) == -2);
  // Every number comes back.
  for (u32 bits = 0; bits < 0x10000; bits += 257) {
    const auto half = static_cast<u16>(bits);
    const auto wide = calculate<float>("cvt.f32.f16", half);
    if (!std::isnan(wide)) CHECK(calculate<u16>("cvt.rn.f16.f32", wide) == half);
  }
}

TEST_CASE("PTX, floats: a product and a sum are rounded once, downwards or to zero where it is asked for") {
  const float a = 1 + 0x1p-23F;
  CHECK(calculate<float>("fma.rn.f32", a, a, -(1 + 0x1p-22F)) == 0x1p-46F);
  CHECK(calculate<double>("fma.rn.f64", 1 + 0x1p-52, 1 + 0x1p-52, -(1 + 0x1p-51)) == 0x1p-104);
  CHECK(calculate<float>("fma.rn.f32", 1.F, 1.F, 0x1.8p-24F) == 1 + 0x1p-23F);
  CHECK(calculate<float>("fma.rm.f32", 1.F, 1.F, 0x1.8p-24F) == 1);
  CHECK(calculate<float>("fma.rm.f32", -1.F, 1.F, -0x1p-40F) == -(1 + 0x1p-23F));
  CHECK(calculate<float>("add.rz.f32", 1.F, 0x1.8p-24F) == 1);
  CHECK(calculate<float>("add.rz.f32", -1.F, -0x1.8p-24F) == -1);
  CHECK(calculate<float>("add.rn.f32", 1.F, 0x1.8p-24F) == 1 + 0x1p-23F);
  // mul and add keep their own rounding.
  CHECK(calculate<float>("mul.f32", a, a) == 1 + 0x1p-22F);
}

TEST_CASE("PTX, floats: the smaller and the larger one, of NaN, infinity and zeros") {
  CHECK(calculate<float>("min.f32", not_a_number, 2.F) == 2);
  CHECK(calculate<float>("min.f32", 2.F, not_a_number) == 2);
  CHECK(calculate<float>("max.f32", not_a_number, -infinity) == -infinity);
  CHECK(std::isnan(calculate<float>("max.f32", not_a_number, not_a_number)));
  CHECK(calculate<double>("max.f64", 1.0, not_a_number64) == 1);
  CHECK(std::signbit(calculate<float>("min.f32", 0.F, -0.F)));
  CHECK(!std::signbit(calculate<float>("max.f32", -0.F, 0.F)));
  CHECK(calculate<float>("abs.f32", -infinity) == infinity);
  CHECK(calculate<float>("copysign.f32", -0.F, 3.F) == -3);
  CHECK(calculate<double>("div.rn.f64", 1.0, -0.0) == -infinity64);
  CHECK(calculate<float>("sqrt.rn.f32", 2.F) == std::sqrt(2.F));
  CHECK(std::isnan(calculate<float>("sqrt.rn.f32", -2.F)));
  CHECK(calculate<float>("ex2.approx.ftz.f32", 10.F) == 1024);
  CHECK(calculate<float>("lg2.approx.f32", 0.F) == -infinity);
  CHECK(calculate<float>("rcp.approx.ftz.f32", 0x1p-127F) == infinity);
}

TEST_CASE("PTX, floats: comparisons that NaN is a part of hold only if they say so") {
  for (const std::string comparison : {"eq", "ne", "lt", "le", "gt", "ge", "num"}) {
    CAPTURE(comparison);
    CHECK(!calculate<bool>("setp." + comparison + ".f32", not_a_number, 1.F));
  }
  for (const std::string comparison : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"}) {
    CAPTURE(comparison);
    CHECK(calculate<bool>("setp." + comparison + ".f64", 1.0, not_a_number64));
  }
  CHECK(!calculate<bool>("setp.gtu.f32", 1.F, 2.F));
  CHECK(calculate<bool>("setp.eq.f32", 0.F, -0.F));
}

TEST_CASE("PTX: what is not understood is an error that has the statement") {
  for (const std::string statement : {"frobnicate.u32 %r2, %r1",
                                      "add.sat.s32 %r2, %r1, %r1",
                                      "add.cc.u32 %r2, %r1, %r1",
                                      "mul.rz.f32 %r2, %r1, %r1",
                                      "add.rm.f32 %r2, %r1, %r1",
                                      "mul.rp.f64 %rd2, %rd1, %rd1",
                                      "cvt.rz.f32.s32 %r2, %r1",
                                      "cvt.rm.f32.f64 %r2, %rd1",
                                      "add.ftz.f32 %r2, %r1, %r1",
                                      "setp.lt.ftz.f32 %p1, %r1, %r1",
                                      "min.NaN.f32 %r2, %r1, %r1",
                                      "fma.rn.relu.f16 %rs1, %rs1, %rs1, %rs1",
                                      "prmt.b32.f4e %r2, %r1, %r1, %r1",
                                      "setp.lt.and.s32 %p1, %r1, %r1, %p2",
                                      "mov.u32 %r2, %smid",
                                      "mov.b128 %rd2, %rd1",
                                      "add.f16x2 %r2, %r1, %r1",
                                      "cvta.param.u64 %rd2, %rd1",
                                      "isspacep.param %p1, %rd1",
                                      "add.u32 %r2, %r99, 1",
                                      "bar.sync 1, 64",
                                      "@%p1 call nothing, ()",
                                      "call missing, ()",
                                      "selp.b32 %r2, %r1, %r1, !%p1"}) {
    CAPTURE(statement);
    std::string text;
    try {
      run_statements(statement + ";");
    } catch (const std::runtime_error& error) {
      text = error.what();
    }
    CAPTURE(text);
    // Of an operand, the operand; its statement is that of the kernel's only line with it.
    const std::string part = statement.find("%smid") != std::string::npos  ? "%smid"
                             : statement.find("%r99") != std::string::npos ? "%r99"
                             : statement.find("!%p1") != std::string::npos ? "!%p1"
                                                                           : statement;
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK_THROWS_AS(run_statements("bra nowhere;"), std::runtime_error);
}
