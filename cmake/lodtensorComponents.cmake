# SPDX-License-Identifier: Apache-2.0
# The optional targets. Each is lodtensor::lodtensor together with the headers or flags of one other library. The build
# of this repository and the installed package both take them from here.
set(lodtensor_COMPONENTS openmp tbb proto file thrust cuda_headers xtensor dlpack npz dnnl native)

# Defines the target lodtensor::<component> and sets lodtensor_<component>_FOUND, if what the component needs is found;
# lodtensor_<component>_NOT_FOUND_MESSAGE says what is missing if not.
macro(lodtensor_find_component component)
  set(lodtensor_${component}_FOUND FALSE)
  if("${component}" STREQUAL "openmp")
    # CpuExecutor's threads are OpenMP's.
    set(lodtensor_openmp_NOT_FOUND_MESSAGE "OpenMP for C++ was not found")
    find_package(OpenMP QUIET COMPONENTS CXX)
    if(TARGET OpenMP::OpenMP_CXX)
      _lodtensor_add_component(openmp OpenMP::OpenMP_CXX)
      target_compile_definitions(lodtensor::openmp INTERFACE LOD_OPENMP)
    endif()
  elseif("${component}" STREQUAL "tbb")
    # CpuExecutor's threads are oneTBB's.
    set(lodtensor_tbb_NOT_FOUND_MESSAGE "oneTBB was not found")
    find_package(TBB QUIET)
    if(TARGET TBB::tbb)
      _lodtensor_add_component(tbb TBB::tbb)
      target_compile_definitions(lodtensor::tbb INTERFACE LOD_TBB)
    endif()
  elseif("${component}" STREQUAL "cpu")
    # <lod/cpu.hpp> with compiled kernels.
    set(lodtensor_cpu_NOT_FOUND_MESSAGE "built without -DLODTENSOR_CPU=ON")
    _lodtensor_add_library(cpu)
  elseif("${component}" STREQUAL "proto")
    # <lod/proto.hpp>. protozero has neither a CMake package nor a pkg-config file: its headers are looked for.
    set(lodtensor_proto_NOT_FOUND_MESSAGE "the headers of protozero were not found")
    find_path(LODTENSOR_PROTOZERO_INCLUDE_DIR protozero/pbf_message.hpp DOC "Where protozero's headers are")
    mark_as_advanced(LODTENSOR_PROTOZERO_INCLUDE_DIR)
    if(LODTENSOR_PROTOZERO_INCLUDE_DIR)
      _lodtensor_add_component(proto)
      target_include_directories(lodtensor::proto INTERFACE "${LODTENSOR_PROTOZERO_INCLUDE_DIR}")
    endif()
  elseif("${component}" STREQUAL "file")
    # <lod/io/file.hpp>: descriptions, and checksums by xxHash, whose header has all of it.
    set(lodtensor_file_NOT_FOUND_MESSAGE "the headers of protozero or xxHash were not found")
    lodtensor_find_component(proto)
    find_path(LODTENSOR_XXHASH_INCLUDE_DIR xxhash.h DOC "Where xxHash's header is")
    mark_as_advanced(LODTENSOR_XXHASH_INCLUDE_DIR)
    if(TARGET lodtensor::proto AND LODTENSOR_XXHASH_INCLUDE_DIR)
      _lodtensor_add_component(file lodtensor::proto)
      target_include_directories(lodtensor::file INTERFACE "${LODTENSOR_XXHASH_INCLUDE_DIR}")
    endif()
  elseif("${component}" STREQUAL "thrust")
    # <lod/thrust.hpp>, by the headers of the CUDA toolkit; by Debian's where there is no toolkit. Two copies of Thrust do
    # not mix: the toolkit's come first, and a program that names LODTENSOR_THRUST_INCLUDE_DIR has its own.
    set(lodtensor_thrust_NOT_FOUND_MESSAGE "the headers of Thrust were not found")
    find_path(LODTENSOR_THRUST_INCLUDE_DIR thrust/version.h DOC "Where Thrust's headers are"
      HINTS ENV CUDA_PATH "${CUDAToolkit_ROOT}" /usr/local/cuda PATH_SUFFIXES include/cccl include)
    mark_as_advanced(LODTENSOR_THRUST_INCLUDE_DIR)
    if(LODTENSOR_THRUST_INCLUDE_DIR)
      _lodtensor_add_component(thrust)
      target_include_directories(lodtensor::thrust INTERFACE "${LODTENSOR_THRUST_INCLUDE_DIR}")
      # Without nvcc Thrust asks which system stands for the device.
      target_compile_definitions(lodtensor::thrust INTERFACE
        $<$<COMPILE_LANGUAGE:CXX>:THRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP>)
    endif()
  elseif("${component}" STREQUAL "cuda_headers")
    # <lod/cuda.hpp>, and for nvcc <lod/cuda.cuh>, whose kernels are Thrust's.
    set(lodtensor_cuda_headers_NOT_FOUND_MESSAGE "the CUDA toolkit, or the headers of Thrust, were not found")
    lodtensor_find_component(thrust)
    find_package(CUDAToolkit QUIET)
    if(TARGET lodtensor::thrust AND TARGET CUDA::cudart_static)
      _lodtensor_add_component(cuda_headers lodtensor::thrust CUDA::cudart_static)
      target_compile_options(lodtensor::cuda_headers INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda>)
      # What nvcc compiles without being told is C++17. CMake 3.25 does not know the feature cuda_std_20.
      target_compile_options(lodtensor::cuda_headers INTERFACE
        $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<NOT:$<STREQUAL:$<TARGET_PROPERTY:CUDA_STANDARD>,20>>>:-std=c++20>)
      # Products of matrices, where the toolkit has cuBLAS; without it, they are made by a plain body.
      if(TARGET CUDA::cublas)
        target_link_libraries(lodtensor::cuda_headers INTERFACE CUDA::cublas)
        target_compile_definitions(lodtensor::cuda_headers INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:LOD_CUDA_BLAS>)
      endif()
    endif()
  elseif("${component}" STREQUAL "cuda")
    # <lod/cuda.hpp> with compiled kernels.
    lodtensor_find_component(cuda_headers)
    if(TARGET lodtensor::cuda_headers)
      set(lodtensor_cuda_NOT_FOUND_MESSAGE "built without -DLODTENSOR_CUDA=ON")
      _lodtensor_add_library(cuda)
    else()
      set(lodtensor_cuda_NOT_FOUND_MESSAGE "${lodtensor_cuda_headers_NOT_FOUND_MESSAGE}")
    endif()
  elseif("${component}" STREQUAL "xtensor")
    # <lod/xtensor.hpp>.
    set(lodtensor_xtensor_NOT_FOUND_MESSAGE "xtensor was not found")
    if(NOT TARGET xtensor)
      find_package(xtensor QUIET)
    endif()
    if(TARGET xtensor)
      _lodtensor_add_component(xtensor xtensor)
    endif()
  elseif("${component}" STREQUAL "dlpack")
    # <lod/dlpack.hpp>. Debian's CMake package of DLPack gives another version than the header: the header is looked for.
    set(lodtensor_dlpack_NOT_FOUND_MESSAGE "the header of DLPack was not found")
    find_path(LODTENSOR_DLPACK_INCLUDE_DIR dlpack/dlpack.h DOC "Where the header of DLPack is")
    mark_as_advanced(LODTENSOR_DLPACK_INCLUDE_DIR)
    if(LODTENSOR_DLPACK_INCLUDE_DIR)
      _lodtensor_add_component(dlpack)
      target_include_directories(lodtensor::dlpack INTERFACE "${LODTENSOR_DLPACK_INCLUDE_DIR}")
    endif()
  elseif("${component}" STREQUAL "npz")
    # <lod/io/npz.hpp>. libzip's own CMake package looks for its programs, too, which come in other packages: its header
    # and library are looked for.
    set(lodtensor_npz_NOT_FOUND_MESSAGE "libzip was not found")
    find_path(LODTENSOR_ZIP_INCLUDE_DIR zip.h DOC "Where libzip's header is")
    find_library(LODTENSOR_ZIP_LIBRARY zip DOC "The library libzip")
    mark_as_advanced(LODTENSOR_ZIP_INCLUDE_DIR LODTENSOR_ZIP_LIBRARY)
    if(LODTENSOR_ZIP_INCLUDE_DIR AND LODTENSOR_ZIP_LIBRARY)
      _lodtensor_add_component(npz "${LODTENSOR_ZIP_LIBRARY}")
      target_include_directories(lodtensor::npz INTERFACE "${LODTENSOR_ZIP_INCLUDE_DIR}")
    endif()
  elseif("${component}" STREQUAL "dnnl")
    # <lod/dnnl.hpp>. oneDNN's own CMake package looks for OpenCL, too, which comes in other packages: its header and
    # library are looked for. Its threads are OpenMP's, as many as an executor has.
    set(lodtensor_dnnl_NOT_FOUND_MESSAGE "oneDNN, or OpenMP for C++, was not found")
    find_package(OpenMP QUIET COMPONENTS CXX)
    find_path(LODTENSOR_DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp DOC "Where oneDNN's headers are")
    find_library(LODTENSOR_DNNL_LIBRARY dnnl DOC "The library oneDNN")
    mark_as_advanced(LODTENSOR_DNNL_INCLUDE_DIR LODTENSOR_DNNL_LIBRARY)
    if(TARGET OpenMP::OpenMP_CXX AND LODTENSOR_DNNL_INCLUDE_DIR AND LODTENSOR_DNNL_LIBRARY)
      _lodtensor_add_component(dnnl OpenMP::OpenMP_CXX "${LODTENSOR_DNNL_LIBRARY}")
      target_include_directories(lodtensor::dnnl INTERFACE "${LODTENSOR_DNNL_INCLUDE_DIR}")
    endif()
  elseif("${component}" STREQUAL "native")
    # The widest vectors that the machine at hand has. Needs no library.
    _lodtensor_add_component(native)
    target_compile_options(lodtensor::native INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
  else()
    set(lodtensor_${component}_NOT_FOUND_MESSAGE "there is no such component")
  endif()
endmacro()

macro(_lodtensor_add_component component)
  if(NOT TARGET lodtensor::${component})
    add_library(lodtensor::${component} INTERFACE IMPORTED)
    target_link_libraries(lodtensor::${component} INTERFACE lodtensor::lodtensor ${ARGN})
  endif()
  set(lodtensor_${component}_FOUND TRUE)
endmacro()

# A compiled library: where it was built and installed, its target is in a file of its own.
macro(_lodtensor_add_library component)
  if(NOT TARGET lodtensor::${component} AND DEFINED lodtensor_LIBRARIES_DIR)
    include("${lodtensor_LIBRARIES_DIR}/lodtensor_${component}.cmake" OPTIONAL)
  endif()
  if(TARGET lodtensor::${component})
    set(lodtensor_${component}_FOUND TRUE)
  endif()
endmacro()
