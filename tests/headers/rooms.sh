#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rooms.sh <folder with headers>...: includes go inward only. A room may include itself and those listed for it; what
# users include, the doorways directly in lod/ and in lod/proto/, may include everything and are included by no room.
set -euo pipefail

declare -A may_include=(
  [core]=""
  [ops]="core"
  [program]="core ops"
  [io]="core program"
  [interop]="core"
  [cuda]="core ops interop"
  [dnnl]="core ops program kernels"
  [blas]="core program"
  [mpi]="core io ops program"
  [nccl]="core cuda mpi ops"
  [kernels]="core ops"
)
# Beside those: kernels for GPUs, and what calls compiled ones, know the executor of a GPU.
declare -A may_also_include=([kernels/cuda]="cuda" [kernels/compiled]="cuda")

status=0 files=0
# check <room> <part of it> <file> <included>
check() {
  local to=${4#lod/} allowed
  case $to in
    proto/*) to=doorway ;;
    */*) to=${to%%/*} ;;
    *) to=doorway ;;
  esac
  allowed=" $1 ${may_include[$1]} ${may_also_include[$2]-} "
  [[ $allowed == *" $to "* ]] && return
  echo "$3 includes <$4>: the room '$1' may include$allowed, no other room and no doorway"
  status=1
}

for root in "$@"; do
  while IFS=: read -r file included; do
    part=${file#"$root"/lod/}
    case $part in
      proto/*) continue ;;
      */*) room=${part%%/*} part=${part%/*} ;;
      *) continue ;;
    esac
    if [[ ! -v may_include[$room] ]]; then
      echo "$file: there is no room '$room'"
      status=1
      continue
    fi
    files=$((files + 1))
    check "$room" "$part" "$file" "$included"
  done < <(grep -rnE '^ *# *include +<lod/' "$root/lod" | sed -E 's/^([^:]*):[0-9]+:[^<]*<([^>]*)>.*/\1:\2/')
done
if ((files < 500)); then
  echo "only $files includes were found: where are the headers?"
  status=1
fi
exit "$status"
