#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# every_operation.sh <nm> <print_type_table> <test_ops> <compiler> <include folder>: what the compiler cannot see by itself
# of the list of operations. The functions in the room `ops` say which operations there are: each is in the list
# (<lod/ops/operations.hpp>), and each of the list is called there. Those that give tensors have a form f_into, and, but
# for gradients, a twin infer_f on descriptions (<lod/infer.hpp>): the compiler is shown their names.
set -euo pipefail
nm=$1 table=$2 program=$3 compiler=$4 include=$5
# What these change are tensors of the caller's.
give_no_tensor='^(sgd|momentum|adagrad|rmsprop|adam|ftrl|scatter|for_each_sequence)$'
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
"$table" | sed -nE 's/^\| `([a-z0-9_]+)` .*/\1/p' | sort > "$work/listed"
"$nm" --demangle "$program" > "$work/symbols"
grep -oE 'lod::[a-z0-9_]+::op::[a-z0-9_]+' "$work/symbols" | sed 's/.*:://' | sort -u > "$work/called"
if (($(wc -l < "$work/listed") < 50)); then echo "the list is too short" >&2 && exit 1; fi
comm -13 "$work/listed" "$work/called" | sed 's/.*/lod::op::& is called by test_ops, but not in AllOperations/' \
  > "$work/wrong"
comm -23 "$work/listed" "$work/called" | sed 's/.*/lod::op::& is in AllOperations, but not called by test_ops/' \
  >> "$work/wrong"
grep -vE "$give_no_tensor" "$work/listed" > "$work/give_tensors"
{
  echo '#include <lod/ops.hpp>'
  sed 's/.*/using lod::&;/' "$work/listed"
  sed 's/.*/using lod::&_into;/' "$work/give_tensors"
  grep -v '_grad$' "$work/give_tensors" | sed 's/.*/using lod::infer_&;/'
} > "$work/names.cpp"
cat "$work/wrong"
"$compiler" -std=c++20 -I"$include" -fsyntax-only "$work/names.cpp"
[[ ! -s $work/wrong ]]
