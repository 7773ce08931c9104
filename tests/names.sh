#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# names.sh <source folder>: what the first column of the tables of docs/guide/names.md calls by a name is in the library.
set -euo pipefail
cd "$1"

status=0 count=0
while IFS='|' read -r _ here _; do
  while read -r name; do
    name=${name:1:-1}
    count=$((count + 1))
    grep -rqw -- "$name" include/lod/core include/lod/ops || { echo "there is no $name" && status=1; }
  done < <(grep -oE '`[A-Za-z_]+`' <<<"$here")
done < <(grep '^| ' docs/guide/names.md)
((count >= 60)) || { echo "docs/guide/names.md has $count names, expected 60 or more" && status=1; }
exit "$status"
