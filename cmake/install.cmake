# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down, and the Debian package made of it, in the folders that GNUInstallDirs names.
# Everything but compiled libraries goes to those for headers and data: there is nothing in it that depends on the
# processor. The whole prefix may be moved.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(DIRECTORY include/lod kernels/lod DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh")

set(lodtensor_package_folder "${CMAKE_INSTALL_DATADIR}/cmake/lodtensor")
install(TARGETS lodtensor EXPORT lodtensorTargets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT lodtensorTargets NAMESPACE lodtensor:: DESTINATION "${lodtensor_package_folder}")
# The compiled libraries that were built, each with a file for its target.
set(lodtensor_libraries_folder "${CMAKE_INSTALL_LIBDIR}/cmake/lodtensor")
set(lodtensor_has_libraries FALSE)
foreach(library IN ITEMS cpu cuda)
  if(TARGET lodtensor_${library})
    set(lodtensor_has_libraries TRUE)
    install(TARGETS lodtensor_${library} EXPORT lodtensor_${library} ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
    install(EXPORT lodtensor_${library} NAMESPACE lodtensor:: DESTINATION "${lodtensor_libraries_folder}")
  endif()
endforeach()
configure_package_config_file(cmake/lodtensorConfig.cmake.in "${PROJECT_BINARY_DIR}/lodtensorConfig.cmake"
  INSTALL_DESTINATION "${lodtensor_package_folder}" PATH_VARS lodtensor_libraries_folder NO_SET_AND_CHECK_MACRO)
# While the major number is 0, a new minor number may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lodtensorConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES
  "${PROJECT_BINARY_DIR}/lodtensorConfig.cmake"
  "${PROJECT_BINARY_DIR}/lodtensorConfigVersion.cmake"
  cmake/lodtensorComponents.cmake
  DESTINATION "${lodtensor_package_folder}")

# From there, cmake/lodtensorComponents.cmake finds them.
install(FILES tools/gdb/lodtensor.py tools/gdb/debug_gdb_scripts.cpp
  DESTINATION "${CMAKE_INSTALL_DATADIR}/lodtensor/gdb")

# The program lodinfo, where the examples are built: `cmake --install <folder> --component lodinfo`. It is not in the
# Debian package, which is for all architectures.
if(TARGET lodinfo)
  install(TARGETS lodinfo RUNTIME COMPONENT lodinfo EXCLUDE_FROM_ALL)
  install(FILES "${PROJECT_BINARY_DIR}/examples/lodinfo.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1"
    COMPONENT lodinfo EXCLUDE_FROM_ALL)
  install(FILES examples/lodinfo/shell/lodinfo.bash RENAME lodinfo
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT lodinfo EXCLUDE_FROM_ALL)
  install(FILES examples/lodinfo/shell/_lodinfo DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions"
    COMPONENT lodinfo EXCLUDE_FROM_ALL)
endif()

# By paths from the file itself, which moves with the prefix.
set(pkgconfig_folder "${CMAKE_INSTALL_FULL_DATADIR}/pkgconfig")
file(RELATIVE_PATH lodtensor_to_prefix "${pkgconfig_folder}" "${CMAKE_INSTALL_PREFIX}")
file(RELATIVE_PATH lodtensor_to_headers "${pkgconfig_folder}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file(cmake/lodtensor.pc.in "${PROJECT_BINARY_DIR}/lodtensor.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/lodtensor.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")

# Debian looks for a package's licence under its own name.
set(CPACK_DEBIAN_PACKAGE_NAME liblodtensor-dev)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/${CPACK_DEBIAN_PACKAGE_NAME}" RENAME copyright)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The lodtensor authors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
if(NOT lodtensor_has_libraries)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE all)
endif()
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_DEPENDS libxsimd-dev)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libdlpack-dev, libprotozero-dev, libxtensor-dev, libxxhash-dev, libzip-dev")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libdnnl-dev, libopenblas-dev, libopenmpi-dev")
if(PROJECT_IS_TOP_LEVEL)
  include(CPack)
endif()
