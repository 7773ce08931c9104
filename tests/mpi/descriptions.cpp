// SPDX-License-Identifier: Apache-2.0
// Descriptions between ranks, which arrive as they were, field for field.
#include "ranks.hpp"
#include <lod/mpi_descriptions.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using lod::ProgramDesc;
using lod::VarDesc;
using lod_test::all_ranks;
using lod_test::check_fails_together;
using lod_test::own;
namespace mpi = lod::mpi;

namespace {

/// One with fields of every kind, a field that no version of the schema has among them.
VarDesc variable_of(int rank) {
  VarDesc var;
  var.name = "variable " + std::string(static_cast<std::size_t>(rank) * 100, 'x');
  var.type.type = lod::VarType::LOD_TENSOR;
  var.type.lod_tensor = lod::LoDTensorDesc{.tensor = {.data_type = lod::DataType::BF16, .dims = {-1, rank, 7}}};
  var.type.lod_tensor->lod_level = rank;
  var.persistable = rank % 2 == 0;
  var.unknown_fields = {static_cast<char>(0xF8), 0x3F, static_cast<char>(rank)};  // field 127
  return var;
}
std::vector<VarDesc> variables(const mpi::Communicator& ranks) {
  std::vector<VarDesc> all;
  for (int rank = 0; rank < ranks.size(); ++rank) all.push_back(variable_of(rank));
  return all;
}
ProgramDesc program_of_blocks(int count) {
  ProgramDesc program;
  for (int i = 0; i < count; ++i) {
    auto& block = program.blocks.emplace_back();
    block.idx = i;
    block.parent_idx = i - 1;
    block.vars.push_back(variable_of(i));
    block.ops.push_back({.type = "op " + std::to_string(i)});
  }
  return program;
}
VarDesc broken() {
  VarDesc var = variable_of(0);
  var.type.lod_tensor->tensor.data_type = static_cast<lod::DataType>(99);
  return var;
}

}  // namespace

TEST_CASE("descriptions: from one rank to another, one or a list, to be received as either") {
  const auto ranks = all_ranks(50);
  const int to = (ranks.rank() + 1) % ranks.size(), from = (ranks.rank() + ranks.size() - 1) % ranks.size();
  const VarDesc var = variable_of(ranks.rank());
  const std::vector<VarDesc> list{var}, none, two{var, broken()};
  const ProgramDesc program = program_of_blocks(ranks.rank() + 1);
  auto sent = mpi::start_send(ranks, var, to), as_list = mpi::start_send(ranks, var, to);
  CHECK(mpi::receive<VarDesc>(ranks, from) == variable_of(from));
  CHECK(mpi::receive<std::vector<VarDesc>>(ranks, from) == std::vector<VarDesc>{variable_of(from)});
  sent.wait();
  as_list.wait();
  sent = mpi::start_send(ranks, list, to);
  CHECK(mpi::start_receive<VarDesc>(ranks, from).wait() == variable_of(from));
  sent.wait();
  sent = mpi::start_send(ranks, program, to);
  CHECK(mpi::receive<ProgramDesc>(ranks, from) == program_of_blocks(from + 1));
  sent.wait();

  // What is not one description, or another one, is an error, and dropped.
  sent = mpi::start_send(ranks, none, to);
  CHECK_THROWS_WITH_AS(static_cast<void>(mpi::receive<VarDesc>(ranks, from)),
                       doctest::Contains("VarDesc: 0 descriptions, expected one"), lod::ShapeMismatch);
  sent.wait();
  sent = mpi::start_send(ranks, program, to);
  CHECK_THROWS_WITH_AS(static_cast<void>(mpi::receive<VarDesc>(ranks, from)),
                       doctest::Contains("descriptions: expected VarDesc, found ProgramDesc"), lod::ShapeMismatch);
  sent.wait();
  sent = mpi::start_send(ranks, program, to);
  CHECK_THROWS_WITH_AS(static_cast<void>(mpi::receive<lod::LoD>(ranks, from)),
                       doctest::Contains("expected a LoD, found descriptions"), lod::ShapeMismatch);
  sent.wait();
  sent = mpi::start_send(ranks, two, to);
  CHECK_THROWS_AS(static_cast<void>(mpi::receive<std::vector<VarDesc>>(ranks, from)), mpi::RankError);
  CHECK_THROWS_AS(sent.wait(), std::invalid_argument);
}

TEST_CASE("descriptions: of each rank on all, of one on all, and of all on one") {
  const auto ranks = all_ranks();
  const auto vars = variables(ranks);
  CHECK(mpi::all_gather(ranks, own(vars, ranks)) == vars);
  CHECK(mpi::start_all_gather(ranks, own(vars, ranks)).wait() == vars);
  for (int root = 0; root < ranks.size(); ++root) {
    const auto gathered = mpi::gather(ranks, own(vars, ranks), root);
    CHECK(gathered == (ranks.rank() == root ? vars : std::vector<VarDesc>()));
    CHECK(mpi::broadcast(ranks, root, own(vars, ranks)) == vars[static_cast<std::size_t>(root)]);
    ProgramDesc program = program_of_blocks(ranks.rank());
    mpi::start_broadcast_into(ranks, root, program).wait();
    CHECK(program == program_of_blocks(root));
  }
  // Lists of different lengths, among them empty ones, one after the other.
  const std::vector<VarDesc> mine(vars.begin(), vars.begin() + ranks.rank());
  std::vector<VarDesc> expected;
  for (int rank = 0; rank < ranks.size(); ++rank) expected.insert(expected.end(), vars.begin(), vars.begin() + rank);
  CHECK(mpi::all_gather(ranks, mine) == expected);
}

TEST_CASE("descriptions: one that cannot be encoded is an error on all ranks, and another kind too") {
  const auto ranks = all_ranks();
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const VarDesc var = ranks.rank() == rank ? broken() : variable_of(ranks.rank());
    check_fails_together<std::invalid_argument>(ranks, rank, "data_type",
                                                [&] { static_cast<void>(mpi::all_gather(ranks, var)); });
    check_fails_together<std::invalid_argument>(ranks, rank, "data_type",
                                                [&] { static_cast<void>(mpi::broadcast(ranks, rank, var)); });
  }
  if (ranks.size() == 1) return;
  const auto call = [&] {
    if (ranks.rank() == 0) {
      static_cast<void>(mpi::all_gather(ranks, ProgramDesc()));
    } else {
      static_cast<void>(mpi::all_gather(ranks, VarDesc()));
    }
  };
  CHECK_THROWS_WITH_AS(call(), doctest::Contains("all_gather: rank 1: descriptions: expected ProgramDesc, found"),
                       lod::ShapeMismatch);
}
