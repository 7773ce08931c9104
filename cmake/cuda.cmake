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
target_compile_options(lodtensor_cuda PRIVATE
  $<$<AND:$<BOOL:${LODTENSOR_WARNINGS_AS_ERRORS}>,$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings>)

# Attention by cuDNN, which is loaded where the program runs: headers are all that it takes here. Those of wheels are in
# the folder of the Python that is found.
set(LODTENSOR_CUDA_DNN AUTO CACHE STRING "Attention of 16-bit numbers by cuDNN: ON, OFF, or AUTO where its headers are")
if(LODTENSOR_CUDA_DNN)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  find_path(LODTENSOR_CUDNN_INCLUDE_DIR cudnn.h DOC "Where cuDNN's headers are"
    HINTS ${CUDAToolkit_INCLUDE_DIRS} "${Python3_SITELIB}/nvidia/cudnn/include")
  find_path(LODTENSOR_CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h DOC "Where the headers of cudnn-frontend are"
    HINTS "${Python3_SITELIB}/include")
  mark_as_advanced(LODTENSOR_CUDNN_INCLUDE_DIR LODTENSOR_CUDNN_FRONTEND_INCLUDE_DIR)
  if(LODTENSOR_CUDNN_INCLUDE_DIR AND LODTENSOR_CUDNN_FRONTEND_INCLUDE_DIR)
    add_library(lodtensor_cuda_dnn OBJECT "${PROJECT_SOURCE_DIR}/kernels/instantiate/dnn/attention.cpp")
    set_target_properties(lodtensor_cuda_dnn PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
    target_link_libraries(lodtensor_cuda_dnn PRIVATE lodtensor::lodtensor)
    target_include_directories(lodtensor_cuda_dnn SYSTEM PRIVATE "${LODTENSOR_CUDNN_FRONTEND_INCLUDE_DIR}"
      "${LODTENSOR_CUDNN_INCLUDE_DIR}" ${CUDAToolkit_INCLUDE_DIRS})
    target_sources(lodtensor_cuda PRIVATE $<TARGET_OBJECTS:lodtensor_cuda_dnn>)
    target_compile_definitions(lodtensor_cuda PRIVATE LOD_CUDA_DNN)
    target_link_libraries(lodtensor_cuda PUBLIC ${CMAKE_DL_LIBS})
  elseif(LODTENSOR_CUDA_DNN STREQUAL "AUTO")
    message(STATUS "lodtensor::cuda: attention without cuDNN, whose headers, or those of cudnn-frontend, were not found")
  else()
    message(FATAL_ERROR "LODTENSOR_CUDA_DNN: the headers of cuDNN, or of cudnn-frontend, were not found")
  endif()
endif()
