# SPDX-License-Identifier: Apache-2.0
# Sets LODTENSOR_HAS_TORCH where libtorch is found and its headers are C++20 to this compiler: those of 1.13 are not to
# every one. Tests compare with it, benchmarks are held against it; the library has no use for it.
find_package(Torch QUIET)
if(Torch_FOUND)
  include(CheckCXXSourceCompiles)
  set(CMAKE_CXX_STANDARD 20)
  set(CMAKE_REQUIRED_LIBRARIES torch)
  check_cxx_source_compiles("#include <torch/types.h>\nint main() {}" LODTENSOR_HAS_TORCH)
  unset(CMAKE_REQUIRED_LIBRARIES)
  unset(CMAKE_CXX_STANDARD)
endif()
