#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# common_names.sh <nm> <object> <object> <source>: of two objects with different versions of the library, the names of
# the library that both define: a linker would keep one of each for both. The objects are of few headers; all others in
# the folder <source> open the namespace as these do.
set -euo pipefail
names() { "$1" --defined-only --extern-only "$2" | awk '{print $NF}' | grep 3lod | sort -u; }
# Instantiations of templates of others have the version in their names by their arguments.
common=$(comm -12 <(names "$1" "$2") <(names "$1" "$3"))
count=$(names "$1" "$2" | wc -l)
echo "$count names"
echo "$common" | c++filt
without=$(grep -rE '^(\}  // )?namespace lod\b' "$4/include" "$4/kernels" | grep -vF 'namespace lod::inline LOD_INTERFACE' || true)
echo "$without"
[[ -z $common$without ]] && ((count > 20))
