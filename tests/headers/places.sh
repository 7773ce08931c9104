#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# places.sh <source folder>: the files that an operation stands in are no more than CONTRIBUTING.md says. Here it is one
# that no program, other operation or common test has a reason to name; the changelog, the guide and benchmarks may.
set -euo pipefail
cd "$1"

operation=sequence_mean_var
expected="include/lod/ops/operations.hpp
include/lod/ops/$operation.hpp
kernels/lod/kernels/bulk/$operation.hpp
kernels/lod/kernels/cpu/$operation.hpp
tests/catalogue/rows.hpp
tests/ops/$operation.cpp"
found=$(grep -rlw "$operation" include kernels tests examples tools cmake --exclude=places.sh | LC_ALL=C sort)
diff <(echo "$expected") <(echo "$found") && exit
echo "An operation is declared once, and listed once: what else needs to know of it takes it from there."
exit 1
