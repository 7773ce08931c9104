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

#ifdef __has_feature
#  define LOD_TEST_HAS_FEATURE(feature) __has_feature(feature)
#else
#  define LOD_TEST_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || LOD_TEST_HAS_FEATURE(address_sanitizer)
#  include <sanitizer/lsan_interface.h>
#  define LOD_TEST_LEAKS
#endif

int main(int count, char** arguments) {
#ifdef LOD_TEST_LEAKS
  __lsan_disable();  // what MPI takes for itself is not ours to free
#endif
  MPI_Init(&count, &arguments);
#ifdef LOD_TEST_LEAKS
  __lsan_enable();
#endif
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::ostringstream output;
  doctest::Context context(count, arguments);
  if (rank > 0) context.setCout(&output);
  int failed = context.run() != 0;
  if (rank > 0 && failed) std::cerr << "rank " << rank << " of " << size << ":\n" << output.str();
#ifdef LOD_TEST_LEAKS
  // At the end, libraries that MPI has unloaded could not be told any more, which leak. The tests are told not to look
  // then.
  if (__lsan_do_recoverable_leak_check() != 0) failed = 1;
#endif
  int any = 0;
  MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return any ? EXIT_FAILURE : EXIT_SUCCESS;
}
