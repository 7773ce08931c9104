// SPDX-License-Identifier: Apache-2.0
/// Threads, lanes and memory, and each of the faults that the machine looks for.
#include "ptx/test_kernel.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

using namespace lod_test::ptx;

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// Whether the machine finds this fault, whatever the order is in which it runs warps.
void check_fault(const std::string& statements, const std::string& what, TestLaunch how = {}) {
  CAPTURE(statements);
  for (u64 seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    how.seed = seed;
    const std::string text = fault_of(statements, how);
    CAPTURE(text);
    CHECK(text.find(what) != std::string::npos);
    CHECK(text.starts_with("kernel: "));
  }
}
void check_no_fault(const std::string& statements, TestLaunch how = {}) {
  CAPTURE(statements);
  for (u64 seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    how.seed = seed;
    CHECK(fault_of(statements, how) == "");
  }
}

TestLaunch threads(u32 count) {
  TestLaunch how;
  how.threads = count;
  return how;
}

/// Each thread's word of shared memory: its address in %r3.
const std::string own_shared = R"(
    .shared .align 16 .b8 memory[1024];
    mov.u32 %r2, memory;
    shl.b32 %r3, %r1, 2;
    add.u32 %r3, %r2, %r3;
)";
/// The word of the thread after it, in a ring of 64 or 32 threads: its address in %r4.
std::string next_shared(u32 count) {
  return own_shared + R"(
    add.u32 %r4, %r1, 1;
    and.b32 %r4, %r4, )" +
         std::to_string(count - 1) + R"(;
    shl.b32 %r4, %r4, 2;
    add.u32 %r4, %r2, %r4;
)";
}

}  // namespace

TEST_CASE("PTX, threads: branches part and meet again") {
  const auto words = run_statements(R"(
    and.b32 %r2, %r1, 1;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra even;
    mul.lo.u32 %r3, %r1, 10;
    bra.uni together;
even:
    add.u32 %r3, %r1, 100;
together:
    vote.sync.ballot.b32 %r4, %p1, 0xffffffff;
    mov.b64 %rd4, {%r3, %r4};
    st.global.u64 [%rd3], %rd4;)");
  for (u32 t = 0; t < 32; ++t) CHECK(words[t] == ((u64{0x55555555} << 32U) | (t % 2 == 0 ? t + 100 : t * 10)));
}

TEST_CASE("PTX, threads: loops end for each thread when it is done") {
  const auto words = run_statements(R"(
    mov.u32 %r2, 0;
    mov.u32 %r3, 0;
again:
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra done;
    add.u32 %r2, %r2, 1;
    add.u32 %r3, %r3, %r2;
    bra again;
done:
    cvt.u64.u32 %rd4, %r3;
    st.global.u64 [%rd3], %rd4;)",
                                    threads(50));
  for (u32 t = 0; t < 50; ++t) CHECK(words[t] == t * (t + 1) / 2);
}

TEST_CASE("PTX, threads: guards leave threads out, of stores and of the end") {
  const auto words = run_statements(R"(
    setp.lt.u32 %p1, %r1, 5;
    mov.u64 %rd4, 1;
    @!%p1 st.global.u64 [%rd3], %rd4;
    @%p1 exit;
    mov.u64 %rd4, 2;
    st.global.u64 [%rd3+256], %rd4;)");
  for (u32 t = 0; t < 32; ++t) {
    CHECK(words[t] == (t < 5 ? 0 : 1));
    CHECK(words[t + 32] == (t < 5 ? 0 : 2));
  }
}

TEST_CASE("PTX, threads: functions take arguments and return a result, early or late") {
  TestLaunch how;
  how.before_kernel = R"(
.func (.param .b32 result) half_or_triple(
  .param .b32 argument
)
{
  .reg .pred %p<2>;
  .reg .b32 %r<5>;
  ld.param.u32 %r1, [argument];
  and.b32 %r2, %r1, 1;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra odd;
  shr.u32 %r3, %r1, 1;
  st.param.b32 [result], %r3;
  ret;
odd:
  mul.lo.u32 %r4, %r1, 3;
  st.param.b32 [result], %r4;
  ret;
}
)";
  const std::string call = R"(
    {
    .param .b32 param0;
    .param .b32 retval0;
    st.param.b32 [param0], %r1;
    call.uni (retval0), half_or_triple, (param0);
    ld.param.b32 %r1, [retval0];
    }
)";
  const auto words = run_statements(call + call + "cvt.u64.u32 %rd4, %r1;\nst.global.u64 [%rd3], %rd4;", how);
  const auto expected = [](u32 n) { return n % 2 == 0 ? n / 2 : n * 3; };
  for (u32 t = 0; t < 32; ++t) CHECK(words[t] == expected(expected(t)));
}

TEST_CASE("PTX, threads: arguments are numbers, with and without a sign, and several in one") {
  TestLaunch how;
  how.threads = 1;
  how.before_kernel = R"(
.func (.param .align 8 .b8 result[16]) both(.param .b32 first, .param .align 8 .b8 second[16])
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.s8 %r1, [first];
  ld.param.u16 %r2, [first];
  st.param.v2.b32 [result], {%r1, %r2};
  ld.param.u64 %rd1, [second+8];
  st.param.b64 [result+8], %rd1;
  ret;
}
)";
  const auto words = run_statements(R"(
    {
    .param .b32 param0;
    .param .align 8 .b8 param1[16];
    .param .align 8 .b8 retval0[16];
    st.param.b32 [param0], 0x12345680;
    st.param.b64 [param1+8], 77;
    call.uni (retval0), both, (param0, param1);
    ld.param.v2.u32 {%r2, %r3}, [retval0];
    ld.param.u64 %rd4, [retval0+8];
    st.global.v2.u32 [%rd1], {%r2, %r3};
    st.global.u64 [%rd1+8], %rd4;
    })",
                                    how);
  CHECK(words[0] == (u64{0x5680} << 32U | 0xffffff80U));
  CHECK(words[1] == 77);
}
TEST_CASE("PTX, threads: functions call each other, as deep as they are, but not themselves") {
  const auto sum_of = [](int depth, const std::string& innermost) {
    TestLaunch how;
    for (int k = 0; k < depth; ++k) {
      const std::string callee = k == 0 ? innermost : "add" + std::to_string(k - 1);
      how.before_kernel += ".func (.param .b32 result) add" + std::to_string(k) + R"((.param .b32 argument)
{
  .local .align 4 .b8 depot[4];
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  mov.u64 %rd1, depot;
  ld.param.u32 %r1, [argument];
  st.local.u32 [%rd1], %r1;
)" + (callee.empty() ? "mov.u32 %r2, 0;" : R"(
  {
  .param .b32 param0;
  .param .b32 retval0;
  st.param.b32 [param0], %r1;
  call.uni (retval0), )" + callee + R"(, (param0);
  ld.param.b32 %r2, [retval0];
  })") + R"(
  ld.local.u32 %r3, [%rd1];
  add.u32 %r3, %r3, %r2;
  st.param.b32 [result], %r3;
  ret;
}
)";
    }
    return run_statements(R"(
    {
    .param .b32 param0;
    .param .b32 retval0;
    st.param.b32 [param0], %r1;
    call.uni (retval0), add)" +
                              std::to_string(depth - 1) + R"(, (param0);
    ld.param.b32 %r2, [retval0];
    st.global.u32 [%rd3], %r2;
    })",
                          how);
  };
  const auto words = sum_of(30, "");
  for (u32 t = 0; t < 32; ++t) CHECK(words[t] == 30 * t);
  CHECK_THROWS_WITH_AS(sum_of(2, "add1"), doctest::Contains("functions that call themselves"), std::runtime_error);
}
TEST_CASE("PTX, threads: an argument has no address and no parts, and a function no shared memory") {
  for (const std::string statement :
       {"mov.b64 %rd1, argument", "ld.param.u32 %rd1, [argument+4]", "st.param.b32 [argument], 1",
        "atom.param.add.u64 %rd1, [argument], 1", ".shared .align 4 .b8 memory[4]"}) {
    CAPTURE(statement);
    TestLaunch how;
    how.before_kernel = ".func f(.param .b64 argument)\n{\n.reg .b64 %rd<2>;\n" + statement + ";\nret;\n}\n";
    CHECK_THROWS_WITH_AS(run_statements("{ .param .b64 param0; call.uni f, (param0); }", how),
                         doctest::Contains("is not understood"), std::runtime_error);
  }
}
TEST_CASE("PTX, threads: blocks and threads find their place") {
  TestLaunch how = threads(64);
  how.blocks = 2;
  const auto words = run_statements(R"(
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %nctaid.x;
    mov.u32 %r5, %laneid;
    mov.u32 %r6, %lanemask_lt;
    mad.lo.u32 %r7, %r2, %r3, %r1;
    mul.wide.u32 %rd4, %r7, 8;
    add.u64 %rd5, %rd1, %rd4;
    mad.lo.u32 %r8, %r4, 1000, %r5;
    mov.b64 %rd6, {%r8, %r6};
    st.global.u64 [%rd5], %rd6;)",
                                    how);
  for (u32 t = 0; t < 128; ++t) CHECK(words[t] == ((u64{(u32{1} << t % 32) - 1} << 32U) | (2000 + t % 32)));
}

TEST_CASE("PTX, lanes: shuffles give a lane its own word where there is none in its segment") {
  const auto shuffled = [](const std::string& how, u32 by, u32 clamp) {
    return run_statements("add.u32 %r2, %r1, 100;\nshfl.sync." + how + ".b32 %r3|%p1, %r2, " + std::to_string(by) +
                          ", " + std::to_string(clamp) + R"(, 0xffffffff;
    selp.b32 %r4, 1, 0, %p1;
    mov.b64 %rd4, {%r3, %r4};
    st.global.u64 [%rd3], %rd4;)");
  };
  const auto word = [](u32 lane, bool is_inside) { return (u64{is_inside} << 32U) | (lane + 100); };
  // Segments of 8 lanes: 0x1800 leaves the number of the segment.
  const auto up = shuffled("up", 3, 0x1800), down = shuffled("down", 3, 0x181f), index = shuffled("idx", 13, 0x181f),
             butterfly = shuffled("bfly", 5, 0x1f), whole_down = shuffled("down", 16, 0x1f),
             whole_up = shuffled("up", 1, 0), butterfly_over = shuffled("bfly", 8, 0x1807);
  for (u32 t = 0; t < 32; ++t) {
    CAPTURE(t);
    CHECK(up[t] == word(t % 8 >= 3 ? t - 3 : t, t % 8 >= 3));
    CHECK(down[t] == word(t % 8 + 3 < 8 ? t + 3 : t, t % 8 + 3 < 8));
    CHECK(index[t] == word(t / 8 * 8 + 5, true));
    CHECK(butterfly[t] == word(t ^ 5U, true));
    CHECK(whole_down[t] == word(t < 16 ? t + 16 : t, t < 16));
    CHECK(whole_up[t] == word(t > 0 ? t - 1 : t, t > 0));
    CHECK(butterfly_over[t] == word((t ^ 8U) <= (t / 8 * 8 + 7) ? t ^ 8U : t, (t ^ 8U) <= (t / 8 * 8 + 7)));
  }
}

TEST_CASE("PTX, lanes: votes and matches are among the lanes that are named") {
  const auto words = run_statements(R"(
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra low;
    setp.ge.u32 %p2, %r1, 16;
    vote.sync.all.pred %p3, %p2, 0xffff0000;
    bra next;
low:
    setp.eq.u32 %p2, %r1, 3;
    vote.sync.any.pred %p3, %p2, 0x0000ffff;
next:
    vote.sync.ballot.b32 %r2, %p2, 0xffffffff;
    selp.b32 %r3, 1, 0, %p3;
    mov.b64 %rd4, {%r3, %r2};
    st.global.u64 [%rd3], %rd4;
    and.b32 %r4, %r1, 7;
    match.any.sync.b32 %r5, %r4, 0xffffffff;
    redux.sync.add.u32 %r6, %r1, 0xffffffff;
    mov.b64 %rd4, {%r5, %r6};
    st.global.u64 [%rd3+256], %rd4;)");
  for (u32 t = 0; t < 32; ++t) {
    CHECK(words[t] == ((u64{0xffff0008U} << 32U) | 1));
    CHECK(words[t + 32] == ((u64{31 * 16} << 32U) | (u64{0x01010101} << (t % 8))));
  }
}

TEST_CASE("PTX, memory: barriers let threads of a block see each other's words") {
  const std::string statements = next_shared(64) + R"(
    st.shared.u32 [%r3], %r1;
    bar.sync 0;
    ld.shared.u32 %r5, [%r4];
    cvt.u64.u32 %rd4, %r5;
    st.global.u64 [%rd3], %rd4;)";
  const auto words = run_statements(statements, threads(64));
  for (u32 t = 0; t < 64; ++t) CHECK(words[t] == (t + 1) % 64);
}

TEST_CASE("PTX, memory: barriers tell whether a predicate holds for one thread") {
  const auto words = run_statements(R"(
    setp.eq.u32 %p1, %r1, 40;
    bar.red.or.pred %p2, 0, %p1;
    bar.red.and.pred %p3, 0, %p1;
    selp.u64 %rd4, 1, 0, %p2;
    selp.u64 %rd5, 2, 0, %p3;
    or.b64 %rd4, %rd4, %rd5;
    st.global.u64 [%rd3], %rd4;)",
                                    threads(64));
  for (u32 t = 0; t < 64; ++t) CHECK(words[t] == 1);
}

TEST_CASE("PTX, memory: atomic updates of all threads are kept") {
  TestLaunch how = threads(96);
  how.blocks = 5;
  const auto words = run_statements(R"(
    atom.global.add.u64 %rd4, [%rd1], 1;
    atom.global.max.u32 %r2, [%rd1+8], %r1;
    atom.global.min.s32 %r2, [%rd1+16], -5;
    atom.global.cas.b32 %r2, [%rd1+24], 0, 7;
    atom.global.exch.b32 %r2, [%rd1+32], 9;
    red.global.add.f32 [%rd1+40], 0x3f800000;
    atom.global.or.b32 %r2, [%rd1+48], %r1;
    atom.global.inc.u32 %r2, [%rd1+56], 99;)",
                                    how);
  CHECK(words[0] == 480);
  CHECK(words[1] == 95);
  CHECK(words[2] == 0xfffffffbU);
  CHECK(words[3] == 7);
  CHECK(words[4] == 9);
  CHECK(words[5] == 0x43f00000U);
  CHECK(words[6] == 127);
  CHECK(words[7] == 480 % 100);
}

TEST_CASE("PTX, memory: each thread has local memory of its own, by both kinds of addresses") {
  const auto words = run_statements(R"(
    .local .align 8 .b8 depot[16];
    mov.u64 %rd4, depot;
    st.local.u32 [%rd4], %r1;
    cvta.local.u64 %rd5, %rd4;
    add.u32 %r2, %r1, 1000;
    st.u32 [%rd5+4], %r2;
    ld.local.v2.u32 {%r3, %r4}, [%rd4];
    mov.b64 %rd6, {%r4, %r3};
    st.global.u64 [%rd3], %rd6;)");
  for (u32 t = 0; t < 32; ++t) CHECK(words[t] == ((u64{t} << 32U) | (t + 1000)));
}

TEST_CASE("PTX, memory: two and four numbers at a time, small ones with and without a sign") {
  const auto words = run_statements(R"(
    st.global.v4.u32 [%rd1], {0xffffff80, 2, 3, 0x80};
    bar.warp.sync 0xff;
    ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1];
    ld.global.v2.u64 {%rd4, %rd5}, [%rd1];
    ld.global.s8 %r6, [%rd1];
    ld.global.u8 %r7, [%rd1];
    ld.global.s8 %rs1, [%rd1+12];
    cvt.u32.u16 %r8, %rs1;
    st.global.v2.u32 [%rd1+16], {%r5, %r2};
    st.global.v2.u32 [%rd1+24], {%r6, %r7};
    st.global.v2.u64 [%rd1+32], {%rd5, %rd4};
    st.global.u32 [%rd1+48], %r8;)",
                                    threads(8));
  CHECK(words[2] == ((u64{0xffffff80U} << 32U) | 0x80));
  CHECK(words[3] == ((u64{0x80} << 32U) | 0xffffff80U));
  CHECK(words[4] == ((u64{0x80} << 32U) | 3));
  CHECK(words[5] == ((u64{2} << 32U) | 0xffffff80U));
  CHECK(words[6] == 0xff80);
}

TEST_CASE("PTX, memory: variables of the device have what they begin with") {
  TestLaunch how = threads(3);
  how.before_kernel = ".global .align 4 .u32 table[3] = {5, 7, 11};\n";
  const auto words = run_statements(R"(
    mov.u64 %rd4, table;
    cvta.global.u64 %rd4, %rd4;
    mul.wide.u32 %rd5, %r1, 4;
    add.u64 %rd4, %rd4, %rd5;
    ld.u32 %r2, [%rd4];
    cvt.u64.u32 %rd6, %r2;
    st.global.u64 [%rd3], %rd6;)",
                                    how);
  CHECK(words == std::vector<u64>{5, 7, 11, 0, 0, 0});
}

TEST_CASE("PTX, threads: copies to shared memory are there when they have been waited for") {
  TestLaunch how = threads(4);
  const std::string make_own_word = R"(
    add.u32 %r10, %r1, 100;
    cvt.u64.u32 %rd10, %r10;
    st.global.u64 [%rd3], %rd10;
  )";
  const std::string copy_twice = R"(
    cp.async.ca.shared.global [%r3], [%rd3], 4, 4;
    cp.async.commit_group;
    cp.async.ca.shared.global [%r3+64], [%rd3+0], 4, 4;
    cp.async.commit_group;
  )";
  // In bits 0, 1: whether the first and the second copy are there.
  const std::string look = R"(
    ld.shared.u32 %r11, [%r3];
    ld.shared.u32 %r12, [%r3+64];
    setp.eq.u32 %p1, %r10, %r11;
    setp.eq.u32 %p2, %r10, %r12;
    selp.u64 %rd11, 1, 0, %p1;
    selp.u64 %rd12, 2, 0, %p2;
    or.b64 %rd11, %rd11, %rd12;
    st.global.u64 [%rd3], %rd11;
  )";
  const auto seen = [&](const std::string& wait) {
    return run_statements(own_shared + make_own_word + copy_twice + wait + look, how).at(3);
  };
  CHECK(seen("") == 0);
  CHECK(seen("cp.async.wait_group 2;") == 0);
  CHECK(seen("cp.async.wait_group 1;") == 1);
  CHECK(seen("cp.async.wait_group 0;") == 3);
  // What belongs to no group yet is not waited for.
  CHECK(run_statements(own_shared + make_own_word + "cp.async.ca.shared.global [%r3], [%rd3], 4, 4;\n" +
                           "cp.async.wait_group 0;\n" + look,
                       how)
            .at(3) == 0);
}

TEST_CASE("PTX, faults: copies to shared memory") {
  const std::string copy = "cp.async.ca.shared.global [%r3], [%rd3], 4, 4;\ncp.async.commit_group;\n";
  const std::string wait = "cp.async.wait_group 0;\n", load_next = "ld.shared.u32 %r5, [%r4];\n";
  check_fault(own_shared + "cp.async.ca.shared.global [%r3], [%rd1+512], 4, 4;", "touches what is no memory");
  check_fault(own_shared + "cp.async.ca.shared.global [%r3+1024], [%rd1], 4, 4;", "touches what is no shared memory");
  check_fault(own_shared + "cp.async.cg.shared.global [%r3], [%rd1], 16, 16;", "touches memory off its alignment");
  // Others read before, or after the wait of the thread alone, or while it has not waited.
  check_fault(next_shared(32) + load_next + copy, "that reads this shared memory");
  check_fault(next_shared(32) + copy + wait + load_next, "that wrote this shared memory");
  check_fault(next_shared(32) + copy + "bar.sync 0;\n" + load_next + wait, "shared memory");
  check_no_fault(next_shared(32) + copy + wait + "bar.sync 0;\n" + load_next);
}

TEST_CASE("PTX, faults: addresses outside of memory") {
  const std::string of_the_device = "touches what is no memory of the device: ";
  check_fault("mov.u64 %rd4, 0;\nld.global.u32 %r2, [%rd4];", of_the_device + "ld.global.u32 %r2, [%rd4]");
  check_fault("ld.global.u64 %rd4, [%rd1+512];", of_the_device + "ld.global.u64 %rd4, [%rd1+512]");
  check_fault("st.global.u64 [%rd1+-8], %rd1;", of_the_device);
  check_fault("mov.u64 %rd4, -8;\nld.global.u64 %rd4, [%rd4];", of_the_device);
  check_fault("mov.u64 %rd4, -8;\nst.u64 [%rd4], %rd4;", of_the_device);
  check_fault("mov.u64 %rd4, 0;\natom.global.add.u32 %r2, [%rd4], 1;", of_the_device);
  check_fault(own_shared + "st.shared.u32 [%r2+1024], %r1;",
              "touches what is no shared memory: st.shared.u32 [%r2+1024]");
  check_fault("mov.u32 %r2, 0;\nld.shared.u32 %r3, [%r2];", "touches what is no shared memory");
  check_fault(own_shared + "ld.shared.u32 %r5, [%r2+-4];", "touches what is no shared memory");
  const std::string local = ".local .align 8 .b8 depot[16];\nmov.u64 %rd4, depot;\n";
  check_fault(local + "st.local.u64 [%rd4+16], %rd1;", "touches what is no local memory");
  check_fault(local + "ld.local.u64 %rd5, [%rd4+-8];", "touches what is no local memory");
  check_fault(local + "cvta.local.u64 %rd5, %rd4;\nld.u32 %r2, [%rd5+16];", "touches what is no local memory");
  check_fault("ld.param.u64 %rd4, [kernel_param_0+8];", "touches what is no parameter");
  // The last words, beside them.
  check_no_fault("ld.global.u64 %rd4, [%rd1+504];");
  check_no_fault(own_shared + "st.shared.u8 [%r2+1023], 0;", threads(1));
  check_no_fault(local + "st.local.u64 [%rd4+8], %rd1;");
}

TEST_CASE("PTX, faults: the thread and the block are named") {
  TestLaunch how = threads(40);
  how.blocks = 3;
  check_fault(R"(
    mov.u32 %r2, %ctaid.x;
    setp.eq.u32 %p1, %r2, 2;
    setp.eq.u32 %p2, %r1, 37;
    and.pred %p1, %p1, %p2;
    mov.u64 %rd4, 0;
    @%p1 ld.global.u32 %r2, [%rd4];)",
              "kernel: block 2,0 of 3, thread 37: touches what is no memory of the device: @%p1 ld.global.u32", how);
}

TEST_CASE("PTX, faults: addresses off their alignment") {
  const std::string what = "touches memory off its alignment";
  check_fault("ld.global.u32 %r2, [%rd1+2];", what);
  check_fault("ld.global.v2.u64 {%rd4, %rd5}, [%rd1+8];", what, threads(1));
  check_fault("st.global.v4.u32 [%rd1+4], {%r1, %r1, %r1, %r1};", what);
  check_fault(own_shared + "st.shared.u16 [%r2+1], %r1;", what);
  check_fault("atom.global.add.u64 %rd4, [%rd1+4], 1;", what);
}

TEST_CASE("PTX, faults: races in shared memory between warps") {
  const std::string load_next = "ld.shared.u32 %r5, [%r4];\n", store_own = "st.shared.u32 [%r3], %r1;\n";
  // What one writes, another reads; what one reads, another writes; what two write.
  check_fault(next_shared(64) + store_own + load_next, "shared memory: ", threads(64));
  check_fault(next_shared(64) + store_own + "bar.warp.sync 0xffffffff;\n" + load_next, "shared memory: ", threads(64));
  check_fault(next_shared(64) + store_own + "bar.sync 0;\n" + load_next + "bar.warp.sync 0xffffffff;\n" + store_own,
              "shared memory: ", threads(64));
  check_fault(own_shared + "st.shared.u32 [%r2], %r1;", "that wrote this shared memory", threads(64));
  // A reader of another warp, before readers of the writer's own.
  check_fault(own_shared + R"(
    ld.shared.u32 %r5, [%r2];
    bar.warp.sync 0xffffffff;
    setp.eq.u32 %p1, %r1, 33;
    @%p1 st.shared.u32 [%r2], %r1;)",
              "that reads this shared memory", threads(64));
  check_no_fault(next_shared(64) + store_own + "bar.sync 0;\n" + load_next + "bar.sync 0;\n" + store_own, threads(64));
  check_no_fault(own_shared + "ld.shared.u32 %r5, [%r2];", threads(64));
}

TEST_CASE("PTX, faults: races in shared memory between lanes of a warp") {
  const std::string load_next = "ld.shared.u32 %r5, [%r4];\n", store_own = "st.shared.u32 [%r3], %r1;\n";
  const std::string meet = "bar.warp.sync 0xffffffff;\n";
  check_fault(next_shared(32) + store_own + load_next, "that wrote this shared memory: ld.shared.u32 %r5, [%r4]");
  check_fault(next_shared(32) + load_next + store_own, "that reads this shared memory: st.shared.u32 [%r3], %r1");
  // A shuffle makes lanes meet, but orders no memory.
  check_fault(next_shared(32) + store_own + "shfl.sync.idx.b32 %r6, %r1, 0, 31, 0xffffffff;\n" + load_next,
              "that wrote this shared memory");
  // Only some of the lanes meet.
  check_fault(next_shared(32) + store_own + R"(
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra low;
    bar.warp.sync 0xffff0000;
    bra next;
low:
    bar.warp.sync 0x0000ffff;
next:
)" + load_next,
              "that wrote this shared memory");
  // All lanes have read what one of them writes.
  check_fault(own_shared + "ld.shared.u32 %r5, [%r2];\nsetp.eq.u32 %p1, %r1, 31;\n@%p1 st.shared.u32 [%r2], %r1;",
              "that reads this shared memory");
  check_no_fault(next_shared(32) + store_own + meet + load_next + meet + store_own);
  check_no_fault(next_shared(32) + store_own + "bar.sync 0;\n" + load_next + "bar.sync 0;\n" + store_own);
  check_no_fault(own_shared + store_own + "ld.shared.u32 %r5, [%r3];\n" + store_own);
}

TEST_CASE("PTX, faults: atomic accesses to shared memory race with plain ones only") {
  const std::string count = "atom.shared.add.u32 %r5, [%r2], 1;\n";
  const std::string clear = "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%r2], 0;\n";
  check_no_fault(own_shared + clear + "bar.sync 0;\n" + count + count, threads(64));
  check_no_fault(own_shared + "st.volatile.shared.u32 [%r2], 1;\nld.volatile.shared.u32 %r5, [%r2];\n", threads(64));
  check_fault(own_shared + clear + count, "shared memory: ", threads(64));
  check_fault(own_shared + clear + "bar.sync 0;\n" + count + "ld.shared.u32 %r6, [%r2];\n",
              "shared memory: ", threads(64));
  check_fault(own_shared + clear + "bar.sync 0;\n" + count + "bar.sync 0;\nld.shared.u32 %r6, [%r2];\n" + count,
              "that reads this shared memory: atom.shared.add.u32", threads(64));
}

TEST_CASE("PTX, faults: what another block wrote to global memory is read before it has told") {
  TestLaunch how = threads(32);
  how.blocks = 3;
  const std::string write_own = R"(
    mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %rd4, %r2, 8;
    add.s64 %rd5, %rd1, %rd4;
    st.global.u32 [%rd5+64], 7;
  )";
  const std::string fence = "membar.gl;\n", only_first = "setp.ne.u32 %p1, %r1, 0;\n@%p1 exit;\n";
  const std::string come = "atom.global.add.u32 %r3, [%rd1], 1;\n";
  const std::string last_reads_all = R"(
    setp.ne.u32 %p2, %r3, 2;
    @%p2 exit;
    ld.global.u32 %r4, [%rd1+64];
    ld.global.u32 %r5, [%rd1+72];
    ld.global.u32 %r6, [%rd1+80];
  )";
  check_no_fault(only_first + write_own + fence + come + fence + last_reads_all, how);
  check_fault(only_first + write_own + come + fence + last_reads_all, "has not been told", how);
  check_fault(only_first + write_own + fence + come + last_reads_all, "has not been told", how);

  // One thread of a block writes, and another one tells of it.
  const std::string second_writes = "setp.ne.u32 %p3, %r1, 1;\n@%p3 bra $written;\n" + write_own + "$written:\n";
  check_no_fault(second_writes + "bar.sync 0;\n" + only_first + fence + come + fence + last_reads_all, how);
  check_no_fault(second_writes + "bar.warp.sync 0xffffffff;\n" + only_first + fence + come + fence + last_reads_all,
                 how);
  check_fault(second_writes + only_first + fence + come + fence + last_reads_all, "has not been told", how);
  // And what one of them has been told, others know that have waited for it.
  const std::string first_asks =
      "mov.u32 %r3, 0;\nsetp.ne.u32 %p4, %r1, 0;\n@%p4 bra $asked;\n" + write_own + fence + come + fence + "$asked:\n";
  const std::string share = "shfl.sync.idx.b32 %r3, %r3, 0, 31, 0xffffffff;\n";
  check_no_fault(first_asks + share + "bar.warp.sync 0xffffffff;\n" + last_reads_all, how);
  check_fault(first_asks + share + last_reads_all, "has not been told", how);
}

TEST_CASE("PTX, faults: barriers that not all threads reach") {
  check_fault("setp.lt.u32 %p1, %r1, 16;\n@%p1 bar.sync 0;\n",
              "has ended while its block waits for it: @%p1 bar.sync 0");
  check_fault("setp.lt.u32 %p1, %r1, 32;\n@%p1 exit;\nbar.sync 0;\n", "has ended while its block waits", threads(64));
  check_fault(R"(
    setp.lt.u32 %p1, %r1, 16;
    @%p1 bra low;
    bar.sync 0;
    bra next;
low:
    bar.sync 0;
next:)",
              "waits for the block where others wait elsewhere: bar.sync 0");
}

TEST_CASE("PTX, faults: lanes that others wait for in vain") {
  check_fault("setp.eq.u32 %p1, %r1, 7;\n@%p1 exit;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, 0xffffffff;\n",
              "waits for lanes that have ended: shfl.sync.idx.b32");
  check_fault("vote.sync.any.pred %p1, %p2, 0xffffffff;\n", "waits for lanes that have ended: vote", threads(20));
  check_fault("setp.eq.u32 %p1, %r1, 7;\n@!%p1 bar.warp.sync 0xffffffff;\n@%p1 bar.sync 0;\nbar.sync 0;\n",
              "waits for lanes that do not come: @!%p1 bar.warp.sync");
  check_fault("bar.warp.sync 0x0000ffff;\n", "waits for lanes of which it is none: bar.warp.sync 0x0000ffff");
  check_fault(R"(
    setp.lt.u32 %p1, %r1, 16;
    selp.b32 %r2, 0xffffffff, 0xffff0000, %p1;
    bar.warp.sync %r2;)",
              "waits for lanes that do not wait for the same ones");
  check_fault(R"(
    setp.lt.u32 %p1, %r1, 16;
    selp.b32 %r2, 0x0000ffff, 0xffff0000, %p1;
    shfl.sync.bfly.b32 %r3, %r1, 16, 31, %r2;)",
              "asks for the word of a lane that does not take part: shfl.sync.bfly.b32");
  check_no_fault("setp.lt.u32 %p1, %r1, 20;\n@!%p1 exit;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, 0x000fffff;\n");
}

TEST_CASE("PTX, faults: kernels without an end, and those that end themselves") {
  TestLaunch many;
  many.most_instructions = 50000;
  check_fault("again:\nadd.u32 %r2, %r2, 1;\nbra again;\n", "does not end", many);
  // Waits for a word that nobody writes.
  check_fault(
      "again:\nld.volatile.global.u32 %r2, [%rd1];\nnanosleep.u32 20;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra again;\n",
      "does not end", many);
  check_fault("setp.eq.u32 %p1, %r1, 3;\n@%p1 trap;\n", "thread 3: traps: @%p1 trap");
  TestLaunch few = threads(32);
  few.most_instructions = 1000;
  check_no_fault("mov.u32 %r2, 0;\nagain:\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 100;\n@%p1 bra again;\n", few);
}

TEST_CASE("PTX, faults: a launch of more threads than the kernel allows") {
  Program program(".visible .entry kernel()\n.maxntid 64\n{\n  ret;\n}\n");
  Launch launch;
  launch.kernel = program.find("kernel");
  REQUIRE(launch.kernel != nullptr);
  launch.threads = {64, 1, 1};
  CHECK_NOTHROW(run(launch, 1));
  launch.threads = {32, 3, 1};
  CHECK_THROWS_AS(run(launch, 1), Fault);
  CHECK(program.find("another") == nullptr);
}

TEST_CASE("PTX, work: what warps did is counted") {
  Program program(R"(
.visible .entry kernel(
  .param .u64 kernel_param_0
)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [kernel_param_0];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
}
)");
  alignas(32) static u32 numbers[64];
  const auto first = reinterpret_cast<std::uintptr_t>(numbers);
  Launch launch;
  launch.kernel = program.find("kernel");
  launch.threads = {64, 1, 1};
  launch.parameters.resize(8);
  std::memcpy(launch.parameters.data(), &first, 8);
  launch.memory = [&](std::uintptr_t) { return Range{first, first + sizeof numbers}; };
  const Work work = run(launch, 1);
  CHECK(work.launches == 1);
  CHECK(work.threads == 64);
  CHECK(work.instructions == 12);
  CHECK(work.lane_instructions == 384);
  CHECK(work.global_accesses == 2);
  CHECK(work.global_sectors == 8);
  CHECK(numbers[63] == 63);
}
