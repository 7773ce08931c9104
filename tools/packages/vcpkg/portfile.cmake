# SPDX-License-Identifier: Apache-2.0
# The port of the source tree that it is in: `vcpkg install lodtensor --overlay-ports=<the tree>/tools/packages/vcpkg`.
# In a registry, vcpkg_from_git or the like sets SOURCE_PATH. Features bring the libraries of components alone: projects
# say find_package(lodtensor COMPONENTS file) all the same.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)

# There is nothing compiled in it.
set(VCPKG_BUILD_TYPE release)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DLODTENSOR_BUILD_TESTS=OFF -DLODTENSOR_BUILD_BENCHMARKS=OFF -DLODTENSOR_BUILD_EXAMPLES=OFF
    -DLODTENSOR_INSTALL=ON -DLODTENSOR_COMPONENTS=)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/lodtensor)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/doc" "${CURRENT_PACKAGES_DIR}/share/cmake" "${CURRENT_PACKAGES_DIR}/lib")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
