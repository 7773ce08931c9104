#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# untagged_vectors.sh <objdump> <nm> <object>...: of objects compiled for AVX2. A weak function of the library whose name
# does not carry the flags (<lod/core/target.hpp>) may be the one that the linker keeps for all files of a program, also for
# those that are compiled for less: it has no AVX code. Exempt is what a compiler writes by itself for aggregates, which
# cannot declare it: `aggregates` lists those that have such code. So any other function than a constructor, a destructor
# or an assignment has the flags in its name, whatever its code.
set -euo pipefail
objdump=$1 nm=$2
shift 2
# Descriptions of programs and variables, and what is planned for them.
aggregates='Access|BlockAccess|BlockDesc|CompatibleInfo|ComplexDesc|Converted|GruWeightsDesc|LoDTensorArrayDesc'
aggregates+='|LoDTensorDesc|LstmWeightsDesc|MemoryPlan|Model|OpCompatibleMap|OpCompatiblePair|OpDesc|Attr|Var'
aggregates+='|OpVersionMap|OpVersionPair|PlannedVariable|ProgramDesc|ProgramPart|ReaderDesc|ScalarDesc|TensorDesc'
aggregates+='|Transfer|Tuple|VarDesc|VarType|Version'
# Of recurrent networks, with numbers among their members.
aggregates+='|LstmCellOptions|LstmTrace|StackedGruTrace|StackedLstmTrace'
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
wrong=0
for object in "$@"; do
  "$nm" "$object" | awk '$2 == "W" && $3 ~ /^_Z(Th[0-9n]+_)?Z*N[rVKRO]*3lod/ {print $3}' > "$work/all"
  sed -E '/_(pool|openmp|tbb|serial)_(headers|library)/d' "$work/all" > "$work/untagged"
  # Of thousands of functions, objdump is shown only those in question: each has a section of its own.
  sed 's/^/-j .text./' "$work/untagged" > "$work/sections"
  "$objdump" --disassemble --no-show-raw-insn --no-addresses "@$work/sections" "$object" 2> "$work/errors" |
    tee "$work/code" |
    awk -F '\t' '/^<.*>:$/ {name = substr($0, 2, length($0) - 3)} $2 ~ /^v[a-z]/ && name {print name; name = ""}' |
    sort -u | c++filt > "$work/vectors"
  sed -E "/::($aggregates)(<[^()]*>)?::(~?($aggregates)\(|operator=\()/d" "$work/vectors" > "$work/wrong"
  sed -E '/(C[12]|CI[12][A-Za-z0-9_]+|D[012])E|aSE/d' "$work/untagged" | c++filt >> "$work/wrong"
  echo "$object: $(wc -l < "$work/all") weak functions of the library, $(wc -l < "$work/untagged") without flags in" \
    "their names, $(wc -l < "$work/vectors") of these with AVX code, $(wc -l < "$work/wrong") functions are wrong"
  cat "$work/wrong"
  if [[ -s $work/wrong ]] || (($(wc -l < "$work/all") < 20)); then wrong=1; fi
  # What objdump did not show was not looked at. Where a constructor or destructor has two names, it shows one of them.
  sed -nE 's/^<(.*)>:$/\1/p' "$work/code" | sed -E 's/([CD])[12]E/\11E/; s/CI[12]/CI1/' | sort -u > "$work/shown"
  sed -E 's/([CD])[12]E/\11E/; s/CI[12]/CI1/' "$work/untagged" | sort -u | comm -23 - "$work/shown" > "$work/unseen"
  if [[ -s $work/unseen ]]; then
    echo "$object: without their code: $(wc -l < "$work/unseen")"
    cat "$work/errors" "$work/unseen"
    wrong=1
  fi
done
exit "$wrong"
