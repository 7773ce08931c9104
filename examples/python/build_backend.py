# SPDX-License-Identifier: Apache-2.0
"""How pip and build make the package: by scikit-build-core, which compiles what stands in the repository around this
folder. An sdist may hold nothing from outside of the folder that describes it. So it is made in a copy of the repository
in which pyproject.toml is at the top, and is scikit-build-core's alone."""
import os
import shutil
import tempfile

from scikit_build_core import build as scikit_build
from scikit_build_core.build import build_wheel, get_requires_for_build_sdist, get_requires_for_build_wheel

__all__ = ["build_sdist", "build_wheel", "get_requires_for_build_sdist", "get_requires_for_build_wheel"]

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
# Of the lines of pyproject.toml, those that are others at the top.
AT_THE_TOP = {
    'build-backend = "build_backend"': 'build-backend = "scikit_build_core.build"',
    'backend-path = ["."]': "",
    'readme = "README.md"': 'readme = "examples/python/README.md"',
    'cmake.source-dir = "../.."': "",
    'wheel.packages = ["package/lodtensor"]': 'wheel.packages = ["examples/python/package/lodtensor"]',
    'input = "../../include/lod/core/version.hpp"': 'input = "include/lod/core/version.hpp"',
}


def build_sdist(sdist_directory, config_settings=None):
    sdist_directory = os.path.abspath(sdist_directory)
    with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    missing = AT_THE_TOP.keys() - set(lines)
    if missing:
        raise RuntimeError(f"pyproject.toml: expected the lines {sorted(missing)}")
    with tempfile.TemporaryDirectory() as copy:
        for name in ("LICENSE", "README.md", "CMakeLists.txt"):
            shutil.copy2(os.path.join(REPOSITORY, name), copy)
        for name in ("cmake", "include", "kernels", "proto", "examples/python"):
            shutil.copytree(os.path.join(REPOSITORY, name), os.path.join(copy, name))
        with open(os.path.join(copy, "pyproject.toml"), "w", encoding="utf-8") as file:
            file.writelines(AT_THE_TOP.get(line, line) + "\n" for line in lines)
        before = os.getcwd()
        try:
            os.chdir(copy)
            return scikit_build.build_sdist(sdist_directory, config_settings)
        finally:
            os.chdir(before)
