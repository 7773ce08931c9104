// SPDX-License-Identifier: Apache-2.0
#include "workers.hpp"

#include <stdexcept>

std::unique_ptr<Workers> start_workers() {
  throw std::runtime_error("--workers: this program was built without MPI, or without xxHash");
}
