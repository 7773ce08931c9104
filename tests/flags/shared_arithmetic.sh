#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# shared_arithmetic.sh <objdump> <object> <object>: of two objects from the same source, one of them compiled with
# -ffast-math. Functions of the library whose names do not tell the flags (<lod/core/target.hpp>) are the same function for a
# linker, which keeps either: they must do the same floating-point instructions. Those of xsimd, too.
set -euo pipefail

# Lines of a function and what it does with floating-point numbers, in order.
arithmetic() {
  "$1" --disassemble --demangle --no-show-raw-insn --no-addresses "$2" | awk '
    /^<.*>:$/ {
      name = substr($0, 2, length($0) - 3)
      sub(/ \[clone .*/, "", name)
      # What begins with (anonymous namespace) and the clones of a compiler are each file'\''s own.
      shared = (name ~ /lod::|xsimd::/) && name !~ /_(pool|openmp|tbb|serial)_(headers|library)/ && \
               name !~ /anonymous namespace/ && $0 !~ /\[clone/
      next
    }
    shared && $1 ~ /^v?(add|sub|mul|div|sqrt|min|max|cmp|comi|ucomi|round|fn?m(add|sub)).*[sp][sd]$/ { print name ": " $1 }
  ' | sort
}

differing=$(comm -3 <(arithmetic "$1" "$2") <(arithmetic "$1" "$3"))
if [[ -n $differing ]]; then
  echo "arithmetic that depends on flags, under a name that does not tell them:"
  echo "$differing"
  exit 1
fi
count=$("$1" --disassemble --demangle "$2" | grep -c '<.*lod::.*>:$' || true)
echo "$count functions of the library"
((count > 100))
