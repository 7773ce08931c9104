# SPDX-License-Identifier: Apache-2.0
# cmake -DNM=<nm> -DLIBRARY=<liblodtensor_cpu.a> -P names.cmake
# Files for wider instruction sets give other files nothing but kernels: of a function of the same name in several
# files, a linker keeps any, which may then run on a processor that cannot follow it.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND "${NM}" --defined-only --extern-only --print-file-name "${LIBRARY}"
  OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE ";" " " names "${names}")
foreach(set IN ITEMS avx2 avx512)
  string(REGEX MATCHALL "_${set}\\.o:[^\n]*" of_set "${names}")
  list(LENGTH of_set count)
  if(count LESS 300)
    message(SEND_ERROR "${count} names in the files for ${set}, expected 300 or more")
  endif()
  list(FILTER of_set EXCLUDE REGEX "run_by_${set}")
  foreach(name IN LISTS of_set)
    message(SEND_ERROR "not a kernel: ${name}")
  endforeach()
endforeach()
