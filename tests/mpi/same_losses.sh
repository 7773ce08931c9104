#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# same_losses.sh <mpirun> <its option for the number of ranks> <the example sharded_table> <text>...: the losses and
# rates that it prints are the same on 1, 2 and 3 ranks, and fall.
set -euo pipefail
run=("$1" "$2") example=$3
shift 3

losses() { "${run[@]}" "$1" "$example" --epochs 3 "${@:2}" | grep '^epoch'; }

one=$(losses 1 "$@")
for ranks in 2 3; do
  if [[ $(losses $ranks "$@") != "$one" ]]; then
    echo "on $ranks ranks the losses differ from those on one:"
    losses $ranks "$@"
    echo "$one"
    exit 1
  fi
done
sed -E 's/.*loss ([^,]*),.*/\1/' <<<"$one" | awk 'NR > 1 && $1 >= last { exit 1 } { last = $1 } END { exit NR < 3 }'
