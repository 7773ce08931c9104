# SPDX-License-Identifier: Apache-2.0
# Runs the port of vcpkg with the functions that vcpkg would give it replaced by what they do for this one:
#   cmake -D CURRENT_PORT_DIR=<port> -D CURRENT_PACKAGES_DIR=<prefix> -D BUILD=<folder> -P tests/consumers/vcpkg.cmake
# That the port is valid to vcpkg itself, and that vcpkg has packages by the names in vcpkg.json, it does not show.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS OR NOT VCPKG_BUILD_TYPE STREQUAL "release")
    message(FATAL_ERROR "vcpkg_cmake_configure: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  run("${CMAKE_COMMAND}" -G Ninja -S "${arg_SOURCE_PATH}" -B "${BUILD}" ${arg_OPTIONS}
    "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}")
endfunction()
function(vcpkg_cmake_install)
  run("${CMAKE_COMMAND}" --install "${BUILD}")
endfunction()
# To share/lodtensor, with the way back to the prefix that is right from there.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
  file(GLOB files "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/*")
  file(COPY ${files} DESTINATION "${CURRENT_PACKAGES_DIR}/share/lodtensor")
  file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}")
  foreach(name IN ITEMS lodtensorConfig lodtensorTargets)
    set(file "${CURRENT_PACKAGES_DIR}/share/lodtensor/${name}.cmake")
    file(READ "${file}" text)
    string(REGEX REPLACE "(PACKAGE_PREFIX_DIR \"\\\${CMAKE_CURRENT_LIST_DIR}/)[./]+\"" "\\1../../\"" text "${text}")
    string(REGEX REPLACE "get_filename_component\\(_IMPORT_PREFIX \"\\\${CMAKE_CURRENT_LIST_FILE}\" PATH\\)(\n[^\n]*_IMPORT_PREFIX}\" PATH\\))+"
      "get_filename_component(_IMPORT_PREFIX \"\${CMAKE_CURRENT_LIST_DIR}/../..\" ABSOLUTE)" text "${text}")
    file(WRITE "${file}" "${text}")
  endforeach()
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(COPY_FILE "${arg_FILE_LIST}" "${CURRENT_PACKAGES_DIR}/share/lodtensor/copyright")
endfunction()

file(READ "${CURRENT_PORT_DIR}/vcpkg.json" manifest)
string(JSON name GET "${manifest}" name)
string(JSON version GET "${manifest}" version)
include("${CURRENT_PORT_DIR}/portfile.cmake")
message(STATUS "${name} ${version}")
