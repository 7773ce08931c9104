// SPDX-License-Identifier: Apache-2.0
// Files that all ranks write together, and any number of them reads.
#include "ranks.hpp"
#include "shared_folder.hpp"
#include "support/element_types.hpp"
#include "support/interrupted_writers.hpp"
#include <lod/mpi_files.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::SelectedRows;
using lod_test::all_ranks;
using lod_test::as_tensor;
using lod_test::as_text;
using lod_test::check_fails_together;
using lod_test::own;
using lod_test::same_bits;
using lod_test::SharedFolder;
namespace mpi = lod::mpi;

namespace {

/// Writes a file of one joined variable.
template <class X>
void save_joined(const mpi::Communicator& ranks, const std::string& path, const X& mine,
                 const std::string& name = "x") {
  mpi::CheckpointWriter writer(ranks, path, {.wait_for_disk = false});
  writer.add_joined(name, mine);
  writer.commit();
}

/// Some rows for each rank, of no levels.
template <class T>
std::vector<LoDTensor<T>> rows_of_ranks(lod_test::Engine& engine, const mpi::Communicator& ranks) {
  return lod_test::batches<T>(engine, ranks, 0);
}

/// Checks that the ranks have written, byte for byte, what one process writes of `whole`.
template <class X>
void check_same_file(const mpi::Communicator& ranks, const SharedFolder& folder, const X& whole) {
  if (ranks.rank() == 0) {
    lod::save(folder / "whole", {{"x", whole}});
    CHECK(lod_test::read_bytes(folder / "joined") == lod_test::read_bytes(folder / "whole"));
  }
  mpi::together(ranks, [] {});
}

}  // namespace

TEST_CASE("CheckpointWriter: the rows of all ranks are the file that one process writes of them, of every type") {
  for (const std::int64_t piece : {0, 5}) {
    const auto ranks = all_ranks(piece);
    const SharedFolder folder(ranks);
    lod_test::for_each_type(lod_test::AllTypes(), [&]<class T>(std::type_identity<T>) {
      lod_test::for_each_sample(3, 0, [&](lod_test::Engine& engine, int) {
        const auto all = rows_of_ranks<T>(engine, ranks);
        save_joined(ranks, folder / "joined", own(all, ranks));
        check_same_file(ranks, folder, lod::concat(all));
        save_joined(ranks, folder / "joined", lod::AnyLoDTensor(own(all, ranks)));
        check_same_file(ranks, folder, lod::concat(all));

        const auto sparse = lod_test::sparse_values<T>(engine, ranks, 40);
        save_joined(ranks, folder / "joined", own(sparse, ranks));
        check_same_file(ranks, folder, lod_test::listed(sparse));
      });
    });
  }
}

TEST_CASE("CheckpointWriter: rows without elements, no rows at all, a slice, and rows of several dimensions") {
  const auto ranks = all_ranks(5);
  const SharedFolder folder(ranks);
  const auto check = [&](const auto& mine, const auto& whole) {
    save_joined(ranks, folder / "joined", mine);
    check_same_file(ranks, folder, whole);
  };
  check(LoDTensor<float>({2, 0}), LoDTensor<float>({2 * ranks.size(), 0}));
  check(LoDTensor<float>({0, 3}), LoDTensor<float>({0, 3}));
  check(SelectedRows<float>({}, 9, {4}), SelectedRows<float>({}, 9, {4}));
  const auto numbers = LoDTensor<int>::from_values(LoD(), {2, 1}, {1, 2, 3, 4, 5, 6});
  check(numbers.between(1, 3),
        lod::concat(std::vector<LoDTensor<int>>(static_cast<std::size_t>(ranks.size()),
                                                LoDTensor<int>::copy_of(numbers.between(1, 3)))));
}

TEST_CASE("CheckpointWriter, open_checkpoint, load_rows: variables of all kinds, read by each rank as it needs them") {
  const auto ranks = all_ranks();
  const SharedFolder folder(ranks);
  lod_test::for_each_sample(4, 0, [&](lod_test::Engine& engine, int) {
    const auto batch = lod_test::random_tensor<float>(engine, {{2, 0, 1}, {1, 4, 2}}, 3);
    const auto sparse = lod_test::sparse_values<float>(engine, ranks, 40);
    const auto rows = rows_of_ranks<double>(engine, ranks);
    mpi::CheckpointWriter writer(ranks, folder / "x");
    writer.add("batch", ranks.rank() == 0 ? batch : LoDTensor<float>());
    writer.add_joined("table", own(sparse, ranks));
    writer.add_joined("rows", own(rows, ranks));
    writer.commit();

    const lod::File file = mpi::open_checkpoint(ranks, folder / "x");
    CHECK(file.names() == std::vector<std::string>{"batch", "table", "rows"});
    CHECK(same_bits(file.load<LoDTensor<float>>("batch"), batch));
    CHECK(same_bits(file.tensor<double>("rows"), lod::concat(rows)));
    const auto is_mine = [&](std::int64_t id) { return id % ranks.size() == ranks.rank(); };
    const SelectedRows<float> mine = mpi::load_rows<float>(file, "table", is_mine);
    const SelectedRows<float> all = lod_test::listed(sparse);
    std::vector<std::int64_t> ids, places;
    for (std::size_t i = 0; i < all.rows().size(); ++i) {
      if (!is_mine(all.rows()[i])) continue;
      ids.push_back(all.rows()[i]);
      places.push_back(static_cast<std::int64_t>(i));
    }
    CHECK(mine.rows() == ids);
    CHECK(same_bits(mine.value(), lod::select(all.value(), places)));
    CHECK(mine.height() == 40);
  });
}

TEST_CASE("CheckpointWriter: what a rank may not add is an error on all, and the rest can be written") {
  const auto ranks = all_ranks();
  const SharedFolder folder(ranks);
  mpi::CheckpointWriter writer(ranks, folder / "x");
  writer.add("taken", LoDTensor<float>({1}));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    CAPTURE(rank);
    const bool is_odd = ranks.rank() == rank;
    const auto refuse = [&]<class Error>(std::type_identity<Error>, const auto& usual, const auto& odd,
                                         const char* text) {
      check_fails_together<Error>(ranks, rank, text, [&] {
        if (is_odd) {
          writer.add_joined("x", odd);
        } else {
          writer.add_joined("x", usual);
        }
      });
    };
    refuse(std::type_identity<lod::InvalidLoD>(), LoDTensor<float>({1}), LoDTensor<float>(LoD::from_lengths({{1}}), {}),
           "'x': 1 levels, expected none");
    SelectedRows<float> with_level({2}, 3, {});
    with_level.value() = LoDTensor<float>(LoD::from_lengths({{1}}), {});
    refuse(std::type_identity<lod::ShapeMismatch>(), SelectedRows<float>({2}, 3, {}), with_level,
           "'x': row-sparse values with 1 level, expected none");
    LoDTensor<bool> broken({1});
    *reinterpret_cast<char*>(broken.data()) = 2;
    refuse(std::type_identity<std::invalid_argument>(), LoDTensor<bool>({1}), broken, "a bool that is 2");
  }
  for (int rank = 1; rank < ranks.size(); ++rank) {
    CAPTURE(rank);
    const bool is_odd = ranks.rank() == rank;
    const std::string where = "CheckpointWriter: 'x': rank " + std::to_string(rank) + ": ";
    CHECK_THROWS_WITH_AS(writer.add_joined("x", LoDTensor<float>({1, is_odd ? 3 : 2})),
                         doctest::Contains((where + "rows of shape {3}, expected {2}").c_str()), lod::ShapeMismatch);
    CHECK_THROWS_WITH_AS(writer.add_joined("x", SelectedRows<float>({}, is_odd ? 3 : 2, {})),
                         doctest::Contains((where + "height 3, expected 2").c_str()), lod::ShapeMismatch);
    CHECK_THROWS_WITH_AS(writer.add_joined("x", is_odd ? lod::AnyLoDTensor(LoDTensor<double>({1}))
                                                       : lod::AnyLoDTensor(LoDTensor<float>({1}))),
                         doctest::Contains((where + "data type: expected FP32, found FP64").c_str()),
                         lod::ShapeMismatch);
    CHECK_THROWS_WITH_AS(
        writer.add_joined(is_odd ? "y" : "x", LoDTensor<float>({1})),
        doctest::Contains(("rank " + std::to_string(rank) + ": another name than that of rank 0").c_str()),
        std::invalid_argument);
  }
  const char* const taken = "there is a variable 'taken' already";
  check_fails_together<std::invalid_argument>(ranks, 0, taken, [&] { writer.add("taken", LoDTensor<float>({1})); });
  check_fails_together<std::invalid_argument>(ranks, 0, taken,
                                              [&] { writer.add_joined("taken", LoDTensor<float>({1})); });
  writer.add_joined("x", LoDTensor<float>({1}));
  writer.commit();
  CHECK(mpi::open_checkpoint(ranks, folder / "x").names() == std::vector<std::string>{"taken", "x"});
}

TEST_CASE("CheckpointWriter: a disk that is full is an error on all ranks, whenever it is, and the old file stays") {
  const auto ranks = all_ranks(std::int64_t{1} << 14);
  const SharedFolder folder(ranks);
  save_joined(ranks, folder / "x", LoDTensor<float>({3}));
  // Each rank has many pieces, and FileWriter gathers 256 KiB.
  const LoDTensor<float> large({100000});
  const auto bytes = static_cast<rlim_t>(400000 * ranks.size());
  for (const rlim_t limit : {rlim_t{0}, rlim_t{100}, rlim_t{300000}, bytes / 2, bytes}) {
    CAPTURE(limit);
    std::optional<lod_test::FileSizeLimit> full;
    if (ranks.rank() == 0) full.emplace(limit);
    check_fails_together<std::system_error>(ranks, 0, "write '", [&] { save_joined(ranks, folder / "x", large); });
    const SelectedRows<float> rows(std::vector<std::int64_t>(100000), 1, {});
    check_fails_together<std::system_error>(ranks, 0, "write '", [&] { save_joined(ranks, folder / "x", rows); });
    full.reset();
    CHECK(folder.size() == 1);
    CHECK(mpi::open_checkpoint(ranks, folder / "x").load<LoDTensor<float>>("x").rows() == 3 * ranks.size());
  }
  {
    mpi::CheckpointWriter writer(ranks, folder / "x");
    std::optional<lod_test::FileSizeLimit> full;
    if (ranks.rank() == 0) full.emplace(300000);
    check_fails_together<std::system_error>(ranks, 0, "write '", [&] {
      writer.add_joined("x", lod::concat(std::vector{large, large}));
    });
    check_fails_together<std::logic_error>(ranks, 0, "writing has failed", [&] { writer.add_joined("y", large); });
    check_fails_together<std::logic_error>(ranks, 0, "writing has failed", [&] { writer.commit(); });
  }
  save_joined(ranks, folder / "x", large);
  CHECK(mpi::open_checkpoint(ranks, folder / "x").load<LoDTensor<float>>("x").rows() == 100000 * ranks.size());
}

TEST_CASE(
    "CheckpointWriter, open_checkpoint: a folder that there is not, a file that is none, and one that is damaged") {
  const auto ranks = all_ranks();
  const SharedFolder folder(ranks);
  check_fails_together<std::system_error>(ranks, 0, "create '",
                                          [&] { mpi::CheckpointWriter(ranks, folder / "none/x"); });
  CHECK_THROWS_AS(static_cast<void>(mpi::open_checkpoint(ranks, folder / "x")), std::system_error);

  mpi::CheckpointWriter writer(ranks, folder / "x");
  for (const char* name : {"a", "b", "c"}) writer.add(name, LoDTensor<float>({100}));
  writer.commit();
  if (ranks.rank() == 0) {
    std::string bytes = lod_test::read_bytes(folder / "x");
    bytes[64 + 448 + 10] ^= 1;  // of b: 400 bytes of a, and padding, are before it
    lod_test::write_bytes(folder / "x", bytes);
  }
  mpi::together(ranks, [] {});
  check_fails_together<lod::ParseError>(ranks, 1 % ranks.size(), "checksum",
                                        [&] { static_cast<void>(mpi::open_checkpoint(ranks, folder / "x")); });
}

namespace {

/// A training whose every state matters: weights with momentum, the same on all ranks; a table shared out between ranks
/// by id, each row with its Adagrad moment; random numbers.
struct ResumedTraining {
  static constexpr std::int64_t height = 30;
  static constexpr int parts = 8;
  LoDTensor<float> weights{{4}}, velocity{{4}};
  SelectedRows<float> table, moment;
  lod_test::Engine random{3};

  explicit ResumedTraining(const mpi::Communicator& ranks) {
    std::vector<std::int64_t> ids;
    for (std::int64_t id = ranks.rank(); id < height; id += ranks.size()) ids.push_back(id);
    table = moment = SelectedRows<float>(ids, height, {4});
    for (float& weight : weights.values()) weight = 0.5F;
  }

  float* row(SelectedRows<float>& of, std::int64_t id) const {
    const std::int64_t at = of.find(id);
    return at < 0 ? nullptr : of.value().data() + at * 4;
  }
  /// The loss of a step of eight parts, which the ranks share.
  float step(const mpi::Communicator& ranks) {
    std::vector<LoDTensor<float>> gradients, losses;
    for (int part = 0; part < parts; ++part) {
      const std::int64_t id = lod_test::random_number(random, 0, height - 1);
      const float target = static_cast<float>(lod_test::random_number(random, -8, 8)) / 3;
      // Whoever has the row of this id tells all of them.
      LoDTensor<float> words({4});
      if (const float* const mine = row(table, id)) std::copy_n(mine, 4, words.data());
      words = mpi::broadcast(ranks, static_cast<int>(id % ranks.size()), words);
      float error = -target;
      for (int i = 0; i < 4; ++i) error += weights.data()[i] * (words.data()[i] + 1);
      if (float* const mine = row(table, id)) {
        float* const squares = row(moment, id);
        for (int i = 0; i < 4; ++i) {
          const float gradient = error * weights.data()[i];
          squares[i] += gradient * gradient;
          mine[i] -= 0.1F * gradient / (std::sqrt(squares[i]) + 1e-6F);
        }
      }
      if (part * ranks.size() / parts != ranks.rank()) continue;
      losses.push_back(LoDTensor<float>::from_values(LoD(), {}, {error * error}));
      gradients.emplace_back(lod::Shape{4});
      for (int i = 0; i < 4; ++i) gradients.back().data()[i] = error * (words.data()[i] + 1);
    }
    const auto gradient = mpi::all_reduce(ranks, gradients, {.fixed_tree = true});
    for (int i = 0; i < 4; ++i) {
      velocity.data()[i] = 0.9F * velocity.data()[i] + gradient.data()[i];
      weights.data()[i] -= 0.01F * velocity.data()[i];
    }
    return mpi::all_reduce(ranks, losses, {.fixed_tree = true}).data()[0];
  }

  void save(const mpi::Communicator& ranks, const std::string& path) const {
    mpi::CheckpointWriter writer(ranks, path);
    writer.add("weights", weights);
    writer.add("velocity", velocity);
    writer.add_joined("table", table);
    writer.add_joined("moment", moment);
    std::ostringstream state;
    state << random;
    writer.add("random", as_tensor(state.str()));
    writer.commit();
  }
  void load(const mpi::Communicator& ranks, const std::string& path) {
    const lod::File file = mpi::open_checkpoint(ranks, path);
    weights = file.load<LoDTensor<float>>("weights");
    velocity = file.load<LoDTensor<float>>("velocity");
    const auto is_mine = [&](std::int64_t id) { return id % ranks.size() == ranks.rank(); };
    table = mpi::load_rows<float>(file, "table", is_mine);
    moment = mpi::load_rows<float>(file, "moment", is_mine);
    std::istringstream(as_text(file.load<LoDTensor<std::uint8_t>>("random"))) >> random;
  }
};

}  // namespace

TEST_CASE("a training that is taken up from its checkpoint by any number of ranks has the losses of an unbroken one") {
  const auto ranks = all_ranks();
  const SharedFolder folder(ranks);
  constexpr int steps = 12, saved = 5;
  ResumedTraining unbroken(ranks);
  std::vector<float> losses;
  for (int step = 0; step < steps; ++step) {
    if (step == saved) unbroken.save(ranks, folder / "x");
    losses.push_back(unbroken.step(ranks));
  }
  CHECK(losses.back() != losses.front());
  for (int size = 1; size <= ranks.size(); ++size) {
    CAPTURE(size);
    MPI_Comm fewer = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, ranks.rank() < size ? 0 : MPI_UNDEFINED, ranks.rank(), &fewer);
    if (fewer == MPI_COMM_NULL) continue;
    {
      const mpi::Communicator some(fewer);
      ResumedTraining resumed(some);
      resumed.load(some, folder / "x");
      for (int step = saved; step < steps; ++step) {
        CHECK(resumed.step(some) == losses[static_cast<std::size_t>(step)]);
      }
      CHECK(same_bits(resumed.weights, unbroken.weights));
    }
    MPI_Comm_free(&fewer);
  }
}
