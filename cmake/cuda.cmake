# SPDX-License-Identifier: Apache-2.0
# lodtensor::cuda: the kernels for GPUs, compiled by nvcc, for programs that another compiler compiles.
if(NOT TARGET lodtensor::cuda_headers)
  message(FATAL_ERROR "LODTENSOR_CUDA: the CUDA toolkit, or the headers of Thrust, were not found")
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  # Machine code for A100 and H100, and what the driver compiles for later ones.
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
endif()
enable_language(CUDA)
# CMake 3.25 does not know that nvcc 12 and newer take -std=c++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)

set(LODTENSOR_CUDA_MACHINE_CODE "" CACHE STRING
  "Types of elements whose kernels get machine code of sm_90, where CMAKE_CUDA_ARCHITECTURES has virtual ones only")
set(LODTENSOR_CUDA_UNOPTIMISED "" CACHE STRING
  "Files of kernels/instantiate/ whose kernels are not optimised, which nvcc compiles in a third of the time")
mark_as_advanced(LODTENSOR_CUDA_MACHINE_CODE LODTENSOR_CUDA_UNOPTIMISED)
foreach(type IN LISTS LODTENSOR_CUDA_MACHINE_CODE)
  set_property(SOURCE "${PROJECT_SOURCE_DIR}/kernels/instantiate/${type}.cu" APPEND PROPERTY
    COMPILE_OPTIONS "--generate-code=arch=compute_90,code=sm_90")
endforeach()
foreach(file IN LISTS LODTENSOR_CUDA_UNOPTIMISED)
  set_property(SOURCE "${PROJECT_SOURCE_DIR}/kernels/instantiate/${file}.cu" APPEND PROPERTY COMPILE_OPTIONS -Xcicc=-O0)
endforeach()

file(GLOB lodtensor_cuda_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernels/instantiate/*.cu")
add_library(lodtensor_cuda STATIC ${lodtensor_cuda_sources})
add_library(lodtensor::cuda ALIAS lodtensor_cuda)
set_target_properties(lodtensor_cuda PROPERTIES EXPORT_NAME cuda POSITION_INDEPENDENT_CODE ON)
target_link_libraries(lodtensor_cuda PUBLIC lodtensor::cuda_headers)
# By this, <lod/cuda.hpp> declares the kernels; nvcc compiles those of the headers.
target_compile_definitions(lodtensor_cuda INTERFACE $<$<COMPILE_LANGUAGE:CXX>:LOD_CUDA_LIBRARY>)
target_compile_options(lodtensor_cuda PRIVATE $<$<BOOL:${LODTENSOR_WARNINGS_AS_ERRORS}>:-Werror=all-warnings>)
