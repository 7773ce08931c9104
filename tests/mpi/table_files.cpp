// SPDX-License-Identifier: Apache-2.0
// Sharded tables in files: written by some ranks, read by more or fewer, and without MPI.
#include "shared_folder.hpp"
#include "tables.hpp"
#include <lod/mpi_files.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

using lod::LoDTensor;
using lod::SelectedRows;
using namespace lod_test;
namespace mpi = lod::mpi;

namespace {

/// The first ranks as a communicator of their own; none for the others.
std::optional<mpi::Communicator> first_ranks(const mpi::Communicator& ranks, int count) {
  MPI_Comm some = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, ranks.rank() < count ? 0 : MPI_UNDEFINED, 0, &some);
  if (some == MPI_COMM_NULL) return std::nullopt;
  std::optional<mpi::Communicator> found(some);
  MPI_Comm_free(&some);
  return found;
}

SelectedRows<float> gradient_of_step(int step) {
  SelectedRows<float> g({1, 60 + step, 7, 13, 8, 95}, 100, {3});
  for (std::size_t i = 0; i < g.value().values().size(); ++i) {
    g.value().data()[i] = static_cast<float>(step) / static_cast<float>(i + 3);
  }
  return g;
}
/// Rank 0 has all of it.
SelectedRows<float> gradient_on_first(const mpi::Communicator& ranks, int step) {
  return ranks.rank() == 0 ? gradient_of_step(step) : SelectedRows<float>({}, 100, {3});
}
void step_of_whole(WholeTable<float>& whole, int step) {
  const auto g = whole.at_positions(lod::merge_add(gradient_of_step(step)));  // adds rows
  lod::adam(whole.rows.value(), whole.first_state(), whole.second_state(), g, {.learning_rate = 0.1, .step = step});
}

}  // namespace

TEST_CASE("save, load of a ShardedTable: by more ranks or fewer, divided otherwise, and training goes on") {
  const auto ranks = all_ranks();
  const SharedFolder folder(ranks);
  const auto divisions = all_divisions(100);
  for (int writers = 1; writers <= ranks.size(); ++writers) {
    for (int readers = 1; readers <= ranks.size(); ++readers) {
      const std::string path = folder / ("table-" + std::to_string(writers) + "-" + std::to_string(readers));
      WholeTable<float> whole({3});
      step_of_whole(whole, 1);
      step_of_whole(whole, 2);
      if (const auto some = first_ranks(ranks, writers)) {
        RandomTable<float> table(*some, {3}, divisions[static_cast<std::size_t>(readers % 2)], usual_rows);
        for (int step = 1; step <= 2; ++step) {
          table.adam(gradient_on_first(*some, step), {.learning_rate = 0.1, .step = step});
        }
        mpi::save(path, table);
        check_parts(*some, table, whole.rows);
      }
      MPI_Barrier(MPI_COMM_WORLD);
      if (const auto some = first_ranks(ranks, readers)) {
        RandomTable<float> table(*some, {3}, divisions[static_cast<std::size_t>(writers % 2)], usual_rows);
        static_cast<void>(table.look_up(IdBatch::from_values({}, {}, {3})));  // which goes
        mpi::load(path, table);
        check_parts(*some, table, whole.rows);
        step_of_whole(whole, 3);
        table.adam(gradient_on_first(*some, 3), {.learning_rate = 0.1, .step = 3});
        check_parts(*some, table, whole.rows);
        CHECK_THROWS_AS(table.adagrad(gradient_on_first(*some, 3), {}), std::exception);
      }
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
}

TEST_CASE("save of a ShardedTable: a file that one process reads without MPI, with states row for row") {
  const auto ranks = all_ranks();
  const SharedFolder folder(ranks);
  RandomTable<lod::bfloat16> table(ranks, {2}, {}, usual_rows);
  const auto any = table.height();
  SelectedRows<lod::bfloat16> g({5, 900, 31}, any, {2});
  g.value().fill(static_cast<lod::bfloat16>(ranks.rank() == 0 ? 1 : 0));
  table.adagrad(g, {});
  mpi::save(folder / "words", table);
  MPI_Barrier(MPI_COMM_WORLD);
  const auto file = lod::File::open(folder / "words");
  file.verify();
  std::int64_t found = 0;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto rows = file.load<SelectedRows<lod::bfloat16>>("rows." + std::to_string(rank));
    const auto squares = file.load<LoDTensor<float>>("adagrad.squares." + std::to_string(rank));
    CHECK(rows.height() == any);
    CHECK(squares.shape() == rows.value().shape());
    for (const float square : squares.values()) CHECK(square == 1);
    for (const std::int64_t id : rows.rows()) CHECK(table.owner(id) == rank);
    if (rank == ranks.rank()) CHECK(same_bits(rows.value(), table.local_rows()));
    found += rows.value().rows();
  }
  CHECK(found == 3);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_CASE("save, load of a ShardedTable: what fails on one rank fails on all, and leaves file and table as they were") {
  const auto ranks = all_ranks();
  const SharedFolder folder(ranks);
  RandomTable<float> table(ranks, {3}, {.height = 100}, usual_rows);
  WholeTable<float> whole({3});
  table.sgd(gradient_on_first(ranks, 1), {.learning_rate = 0});
  static_cast<void>(whole.rows.positions(gradient_of_step(1).rows()));
  mpi::save(folder / "table", table);
  check_fails_together<std::system_error>(ranks, 0, "no-such-folder",
                                          [&] { mpi::save(folder / "no-such-folder/table", table); });
  for (int rank = 0; rank < ranks.size(); ++rank) {
    check_fails_together<std::system_error>(ranks, rank, "missing", [&] {
      mpi::load(ranks.rank() == rank ? folder / "missing" : folder / "table", table);
    });
    check_parts(ranks, table, whole.rows);
  }
  const auto check_refused = [&](auto& other, const char* text) {
    CHECK_THROWS_WITH_AS(mpi::load(folder / "table", other), doctest::Contains(text), std::exception);
    CHECK(other.local_size() == 0);
  };
  RandomTable<float> wider(ranks, {4}, {.height = 100}), taller(ranks, {3}, {.height = 101});
  RandomTable<double> of_doubles(ranks, {3}, {.height = 100});
  RandomTable<float> small(ranks, {3}, {.height = 100, .most_rows = 0});
  check_refused(wider, "'rows.0': rows of shape {3}, expected {4}");
  check_refused(taller, "'rows.0': height 100, expected 101");
  check_refused(of_doubles, "FP32");
  check_refused(small, "has no row, and all 0 are taken");
  // Other files.
  if (ranks.rank() == 0) {
    const SelectedRows<float> twice({5, 5}, 100, {3});
    lod::save(folder / "twice", {{"rows.0", twice}});
    lod::save(folder / "others", {{"rows", twice}});
    const SelectedRows<float> one({5}, 100, {3});
    const LoDTensor<float> short_states({0, 3});
    lod::save(folder / "states", {{"rows.0", one}, {"adagrad.squares.0", short_states}});
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const auto check_refused_file = [&](const char* name, const char* text) {
    CHECK_THROWS_WITH_AS(mpi::load(folder / name, table), doctest::Contains(text), lod::ShapeMismatch);
    check_parts(ranks, table, whole.rows);
  };
  check_refused_file("others", "'rows.0': there is no such variable");
  check_refused_file("states", "'adagrad.squares.0': shape {0, 3}, expected {1, 3}");
  check_fails_together<lod::ShapeMismatch>(ranks, table.owner(5), "'rows.0': it has rows that are there already",
                                           [&] { mpi::load(folder / "twice", table); });
  check_parts(ranks, table, whole.rows);
  MPI_Barrier(MPI_COMM_WORLD);
}
