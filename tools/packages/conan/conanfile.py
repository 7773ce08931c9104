# SPDX-License-Identifier: Apache-2.0
"""The recipe for Conan 2, of the source tree that it is in: `conan create tools/packages/conan`.

The package has what `cmake --install` lays down, its CMake package among it: CMake projects say what they say elsewhere,
find_package(lodtensor COMPONENTS file), and the options here bring the libraries that these components need. Who builds
otherwise has the folder of headers, and -pthread.
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

required_conan_version = ">=2.0"

# Components of the CMake package, by what they need. The others take what the compiler
# or the system has: OpenMP, MPI, DLPack's header.
COMPONENTS = {
    "file": ["protozero/[>=1.7]", "xxhash/[>=0.8]"],
    "npz": ["libzip/[>=1.7]"],
    "proto": ["protozero/[>=1.7]"],
    "tbb": ["onetbb/[>=2021.5]"],
    "xtensor": ["xtensor/[>=0.24 <0.26]"],
}


class Lodtensor(ConanFile):
    name = "lodtensor"
    description = "LoD tensors: batches of nested sequences of different lengths, without padding"
    license = "Apache-2.0"
    topics = ("ragged-tensor", "variable-length-sequences", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {f"with_{component}": [True, False] for component in COMPONENTS}
    default_options = dict.fromkeys(options, False)

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        numbers = re.findall(
            r"define LOD_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
            load(self, os.path.join(self._root, "include", "lod", "core", "version.hpp")),
        )
        self.version = ".".join(numbers)

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "docs/site/*", "include/*", "kernels/*", "tools/gdb/*"):
            copy(self, pattern, self._root, self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("xsimd/[>=8.1]")
        chosen = {need for component, needs in COMPONENTS.items() if self.options.get_safe(f"with_{component}")
                  for need in needs}
        for need in sorted(chosen):
            self.requires(need, transitive_headers=True)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "BENCHMARKS", "EXAMPLES"):
            toolchain.cache_variables[f"LODTENSOR_BUILD_{part}"] = False
        toolchain.cache_variables["LODTENSOR_INSTALL"] = True
        toolchain.cache_variables["LODTENSOR_COMPONENTS"] = ""
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/lodtensor"]
        self.cpp_info.system_libs = ["pthread"]
