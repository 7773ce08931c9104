#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# requirements.sh <source folder>: docs/requirements.md tells the truth: each file that the second column of its tables
# names is there, and has the cases whose names follow it: those of doctest in C++, of unittest in Python.
set -euo pipefail
cd "$1"

status=0 cases=0
while IFS='|' read -r _ _ tests _; do
  while read -r word; do
    name=${word:1:-1}
    if [[ $word == \`* ]]; then
      file=$name
      [[ $file == examples/nested_rnn || -f $file ]] || { echo "there is no file $file" && status=1; }
    else
      cases=$((cases + 1))
      patterns=(-e "TEST_CASE(\"$name\"" -e "TEST_CASE_TEMPLATE(\"$name\"" -e "def $name(")
      grep -qF "${patterns[@]}" "$file" || { echo "$file has no case \"$name\"" && status=1; }
    fi
  done < <(grep -oE '`[^`]+`|"[^"]+"' <<<"$tests")
done < <(grep '^| ' docs/requirements.md)
((cases >= 70)) || { echo "docs/requirements.md names $cases cases, expected 70 or more" && status=1; }
exit "$status"
