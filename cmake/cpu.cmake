# SPDX-License-Identifier: Apache-2.0
# lodtensor::cpu: the kernels for CPUs as a library, compiled once for each instruction set, of which a program takes the
# widest that its processor has.
set(lodtensor_cpu_folder "${PROJECT_SOURCE_DIR}/kernels/instantiate")
file(GLOB lodtensor_cpu_sources CONFIGURE_DEPENDS "${lodtensor_cpu_folder}/*.cpp")
set(lodtensor_cpu_types ${lodtensor_cpu_sources})
list(FILTER lodtensor_cpu_types EXCLUDE REGEX "/(instruction_set|operators|proto)\\.cpp$")

if(NOT TARGET lodtensor::proto)
  list(FILTER lodtensor_cpu_sources EXCLUDE REGEX "/proto\\.cpp$")
endif()
add_library(lodtensor_cpu STATIC ${lodtensor_cpu_sources})
add_library(lodtensor::cpu ALIAS lodtensor_cpu)
set_target_properties(lodtensor_cpu PROPERTIES EXPORT_NAME cpu POSITION_INDEPENDENT_CODE ON)
target_link_libraries(lodtensor_cpu PUBLIC lodtensor::lodtensor)
target_compile_definitions(lodtensor_cpu PRIVATE LOD_RUN=run_by_baseline LOD_RUN_ANY INTERFACE LOD_CPU_LIBRARY)
if(TARGET lodtensor::proto)
  # Users get protozero, and with it what includes it, if they ask for it.
  target_link_libraries(lodtensor_cpu PRIVATE $<BUILD_INTERFACE:lodtensor::proto>)
  target_compile_definitions(lodtensor_cpu INTERFACE LOD_PROTO_LIBRARY)
endif()
set(lodtensor_cpu_targets lodtensor_cpu)

execute_process(COMMAND "${CMAKE_LINKER}" --help OUTPUT_VARIABLE linker_options ERROR_QUIET)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  message(STATUS "lodtensor::cpu: of this architecture there is one instruction set only")
elseif(NOT CMAKE_OBJCOPY OR NOT linker_options MATCHES "--force-group-allocation")
  message(STATUS "lodtensor::cpu: for the baseline only, since objcopy or GNU ld were not found")
else()
  target_compile_definitions(lodtensor_cpu PRIVATE LOD_HAS_WIDER_SETS)
  # The inline namespace of the interface's version (core/version.hpp), as it is in the names of object code.
  foreach(interface IN ITEMS "" _debug_containers _old_strings _old_strings_debug_containers _libcxx)
    string(PREPEND interface "v${PROJECT_VERSION_MAJOR}_${PROJECT_VERSION_MINOR}")
    string(LENGTH "${interface}" interface_length)
    foreach(set IN ITEMS avx2 avx512)
      list(APPEND kept_names_${set}
        "--keep-global-symbol=_ZN3lod${interface_length}${interface}8compiled*run_by_${set}*")
    endforeach()
  endforeach()
  set(lodtensor_cpu_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2 -mpopcnt)
  set(lodtensor_cpu_avx512 ${lodtensor_cpu_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
  foreach(set IN ITEMS avx2 avx512)
    foreach(source IN LISTS lodtensor_cpu_types)
      get_filename_component(type "${source}" NAME_WE)
      set(target lodtensor_cpu_${type}_${set})
      add_library(${target} OBJECT "${source}")
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
      target_link_libraries(${target} PRIVATE lodtensor::lodtensor)
      target_compile_definitions(${target} PRIVATE LOD_RUN=run_by_${set})
      # g++ has a binding for variables of which a whole program must have one; it would make them global again.
      target_compile_options(${target} PRIVATE ${lodtensor_cpu_${set}} $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
      list(APPEND lodtensor_cpu_targets ${target})
      # Functions of the standard library, and all others that are not inlined, have one name for all sets, of which a
      # linker keeps any: it must not be one that a lesser processor cannot run. So all names but those of the kernels
      # become the file's own; to that end, what may be dropped for another file's must not be any more.
      set(object "${CMAKE_CURRENT_BINARY_DIR}/${type}_${set}.o")
      add_custom_command(OUTPUT "${object}"
        COMMAND "${CMAKE_LINKER}" -r --force-group-allocation -o "${object}" "$<TARGET_OBJECTS:${target}>"
        COMMAND "${CMAKE_OBJCOPY}" --wildcard ${kept_names_${set}} "${object}"
        DEPENDS "$<TARGET_OBJECTS:${target}>" VERBATIM)
      target_sources(lodtensor_cpu PRIVATE "${object}")
    endforeach()
  endforeach()
endif()

foreach(target IN LISTS lodtensor_cpu_targets)
  # The linker and objcopy take files one by one.
  set_target_properties(${target} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
  # g++ takes a tenth of its time to find out that it can free little of a few hundred megabytes.
  target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections
    $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>
    $<$<BOOL:${LODTENSOR_WARNINGS_AS_ERRORS}>:-Werror>)
endforeach()
