#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# every_operation.sh <nm> <print_type_table> <test_ops>: what the compiler cannot see by itself of the list of operations.
# The functions in the room `ops` say which operations there are: each is in the list (<lod/ops/operations.hpp>), and each
# of the list is called there. Those that give tensors have a twin on descriptions, which is called there too, but for
# gradients (<lod/infer.hpp>).
set -euo pipefail
nm=$1 table=$2 program=$3
# What these change are tensors of the caller's.
give_no_tensor='^(sgd|momentum|adagrad|rmsprop|adam|ftrl|scatter|for_each_sequence)$'
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
"$table" | sed -nE 's/^\| `([a-z0-9_]+)` .*/\1/p' | sort > "$work/listed"
"$nm" --demangle "$program" > "$work/symbols"
grep -oE 'lod::[a-z0-9_]+::op::[a-z0-9_]+' "$work/symbols" | sed 's/.*:://' | sort -u > "$work/called"
grep -oE '\binfer_[a-z0-9_]+(\[|\()' "$work/symbols" | sed -E 's/^infer_//; s/.$//' | sort -u > "$work/inferred"
grep -vE "_grad$|$give_no_tensor" "$work/listed" > "$work/give_tensors"
if (($(wc -l < "$work/listed") < 50)); then echo "the list is too short" >&2 && exit 1; fi
wrong=0
# report <what is said of the lines of the standard input>
report() {
  while read -r name; do
    echo "lod::op::$name $1"
    wrong=1
  done
}
report "is called by test_ops, but not in AllOperations" < <(comm -13 "$work/listed" "$work/called")
report "is in AllOperations, but not called by test_ops" < <(comm -23 "$work/listed" "$work/called")
report "has no twin infer_... that test_ops calls" < <(comm -23 "$work/give_tensors" "$work/inferred")
exit "$wrong"
