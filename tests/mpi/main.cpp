// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the cases on every rank. Rank 0 prints; others only where they have failed. A failure on any rank is one of the
/// run.
#define DOCTEST_CONFIG_IMPLEMENT
#include <lod/mpi.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <sstream>

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::ostringstream output;
  doctest::Context context(count, arguments);
  if (rank > 0) context.setCout(&output);
  int failed = context.run() != 0;
  if (rank > 0 && failed) std::cerr << "rank " << rank << " of " << size << ":\n" << output.str();
  int any = 0;
  MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return any ? EXIT_FAILURE : EXIT_SUCCESS;
}
