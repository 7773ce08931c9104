// SPDX-License-Identifier: Apache-2.0
/// @file
/// What tests/mpi/killed.sh kills: ranks that write one checkpoint after the other.
///   keep_saving FILE          writes them, of growing numbers, until it is killed
///   keep_saving --check FILE  fails unless the one that is there is whole
#include <lod/mpi.hpp>
#include <lod/mpi_files.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t rows = 200000;  // of each rank

/// As many rows, of this number.
lod::LoDTensor<std::int64_t> numbered(std::int64_t count, std::int64_t number) {
  lod::LoDTensor<std::int64_t> x({count});
  std::fill(x.values().begin(), x.values().end(), number);
  return x;
}

[[noreturn]] void keep_saving(const lod::mpi::Communicator& ranks, const std::string& path) {
  const std::vector<std::int64_t> ids(rows, ranks.rank());
  for (std::int64_t number = 1;; ++number) {
    if (ranks.rank() == 0) std::cout << "step " << number << std::endl;
    lod::mpi::CheckpointWriter writer(ranks, path);
    writer.add("number", numbered(1, number));
    writer.add_joined("rows", numbered(rows, number));
    writer.add_joined("sparse", lod::SelectedRows<std::int64_t>(ids, ranks.size(), numbered(rows, number)));
    writer.commit();
  }
}

bool is_whole(const lod::mpi::Communicator& ranks, const std::string& path) {
  const lod::File file = lod::mpi::open_checkpoint(ranks, path);
  const std::int64_t number = file.tensor<std::int64_t>("number").values()[0];
  const auto is_of_number = [&](const auto& x) {
    return std::ranges::all_of(x.values(), [&](std::int64_t value) { return value == number; });
  };
  return is_of_number(file.tensor<std::int64_t>("rows")) &&
         is_of_number(file.selected_rows<std::int64_t>("sparse").value());
}

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int status = EXIT_FAILURE;
  try {
    const lod::mpi::Communicator ranks(MPI_COMM_WORLD);
    if (count == 2) keep_saving(ranks, arguments[1]);
    status = is_whole(ranks, arguments[2]) ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::cerr << "keep_saving: " << error.what() << '\n';
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
  MPI_Finalize();
  return status;
}
