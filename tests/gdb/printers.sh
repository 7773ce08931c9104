#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What gdb prints of the variables of printed.cpp, which says what it should be; the program names the printers itself:
#   tests/gdb/printers.sh gdb program
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Commands to one file, what they must print to another.
awk -v commands="$scratch/commands" -v expected="$scratch/expected" '
  function end_text() { if (text != "") print text > expected; text = "" }
  /^ *\/\/ print / { end_text(); sub(/^ *\/\/ /, ""); print > commands; next }
  /^ *\/\/ = / { sub(/^ *\/\/ = /, ""); text = $0; next }
  /^ *\/\/   / && text != "" {
    sub(/^ *\/\/ */, "")
    text = text (text ~ /{$/ ? "" : " ") $0
    next
  }
  /^int main/ { print "up" > commands }
  { end_text() }
' "$here/printed.cpp"

"$1" --batch -nx -iex "set auto-load safe-path $root" -iex "set width 0" -ex "break stop_here" -ex run \
  -x "$scratch/commands" "$2" >"$scratch/printed" 2>"$scratch/errors" </dev/null || true
if ! grep -q '^Breakpoint 1, ' "$scratch/printed"; then
  cat "$scratch/errors"
  if grep -qiE 'ptrace|operation not permitted|"Python" language is not supported' "$scratch/errors"; then
    echo "skipped: gdb may not run programs here, or has no Python"
    exit
  fi
  exit 1
fi
sed -n 's/^\$[0-9]* = //p' "$scratch/printed" | diff --label printed.cpp --label gdb -u "$scratch/expected" - || {
  cat "$scratch/errors"
  exit 1
}
echo "$(wc -l <"$scratch/expected") values printed as they should be"
