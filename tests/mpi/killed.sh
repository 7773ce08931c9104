#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Kills one of several ranks, with SIGKILL, at moments from a seed that it prints:
#   killed.sh saving <keep_saving> <mpirun>...    while they write checkpoints: there is always a whole one
#   killed.sh training <nested_rnn> <mpirun>...   while they train: the others end, and the training goes on from the
#                      checkpoint on another number of ranks, to the losses and the model of an unbroken one
# <mpirun>... is a command that the number of ranks and the program follow.
# LOD_TEST_SEED in the environment repeats a run, as far as processes can be repeated.
set -euo pipefail
what=$1 program=$2
shift 2
mpirun=("$@")
seed=${LOD_TEST_SEED:-$((SECONDS + $$))}
RANDOM=$seed
echo "LOD_TEST_SEED=$seed"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "$*"
  cat "$folder/output"
  exit 1
}

# Ranks are somewhere below mpirun, as some MPIs have a process in between.
ranks_below() {
  local child children
  mapfile -t children < <(cat "/proc/$1/task/"*/children 2>/dev/null | tr -s ' ' '\n')
  for child in "${children[@]}"; do
    if [[ $(readlink "/proc/$child/exe") == "$(readlink -f "$program")" ]]; then
      echo "$child"
    else
      ranks_below "$child"
    fi
  done
}

# run_and_kill <ranks> <steps> <argument...>: kills a rank some milliseconds after rank 0 has told of so many steps, of
# which the first is that all ranks have begun, since mpirun of Open MPI 4.1 may wait for ever for a rank that is killed
# before. Waits until mpirun has ended, which must be with an error; unless all was done before.
kills=0
run_and_kill() {
  local size=$1 steps=$2 wait=$((RANDOM % 50)) victim=$((RANDOM % $1)) pids=() launcher status=0 end=$((SECONDS + 60))
  shift 2
  : >"$folder/output"
  "${mpirun[@]}" "$size" "$program" "$@" >"$folder/output" 2>&1 &
  launcher=$!
  until ((${#pids[@]} == size && $(grep -c '^step\|^epoch\|^[0-9]* documents' "$folder/output") >= steps)); do
    kill -0 "$launcher" 2>/dev/null || break
    mapfile -t pids < <(ranks_below "$launcher")
    sleep 0.01
  done
  sleep "$(printf '0.%03d' "$wait")"
  if ((${#pids[@]} < size)) || ! kill -KILL "${pids[victim]}" 2>/dev/null; then
    wait "$launcher" || fail "it failed"
    echo "$size ranks came to their end before one was killed"
    return
  fi
  kills=$((kills + 1))
  while kill -0 "$launcher" 2>/dev/null; do
    if ((SECONDS > end)); then
      kill -KILL "$launcher"
      fail "mpirun goes on a minute after rank $victim of $size was killed"
    fi
    sleep 0.05
  done
  wait "$launcher" || status=$?
  echo "rank $victim of $size killed $wait ms after step $steps: mpirun ended with $status"
  ((status != 0)) || fail "mpirun ended without an error"
  for pid in "${pids[@]}"; do
    [[ ! -e /proc/$pid/exe ]] || fail "rank $pid goes on after mpirun has ended"
  done
}

case $what in
  saving)
    for round in 1 2 3 4; do
      run_and_kill $((2 + round % 3)) $((1 + RANDOM % 3)) "$folder/checkpoint"
      [[ -e $folder/checkpoint ]] || continue
      "${mpirun[@]}" 2 "$program" --check "$folder/checkpoint" >"$folder/output" 2>&1 ||
        fail "the checkpoint is not whole"
    done
    [[ -e $folder/checkpoint ]] || fail "no checkpoint was written"
    ;;
  training)
    for document in 1 2 3; do
      for ((word = 0; word < 800; ++word)); do
        printf 'w%d%s' $((RANDOM % (20 * document) + 7 * document)) "$( ((word % 9)) && echo ' ' || echo $'.\n\n')"
      done >"$folder/document$document"
    done
    training=(--epochs 30 --batch 8 --checkpoint "$folder/checkpoint" --resume --out "$folder" "$folder"/document[123])
    train() { "${mpirun[@]}" "$1" "$program" --workers "$1" "${training[@]}" >"$folder/output" 2>&1 || fail "it failed"; }
    train 2
    mv "$folder/checkpoint" "$folder/unbroken"
    mv "$folder/model.lod" "$folder/unbroken_model"
    run_and_kill 3 $((2 + RANDOM % 3)) --workers 3 "${training[@]}"
    run_and_kill 4 $((1 + RANDOM % 4)) --workers 4 "${training[@]}"
    run_and_kill 2 $((1 + RANDOM % 2)) --workers 2 "${training[@]}"
    train 1
    grep 'epochs are done' "$folder/output"
    # All losses, the network and the state of random numbers are in the checkpoint.
    cmp "$folder/unbroken" "$folder/checkpoint" || fail "the losses differ from those of the unbroken training"
    cmp "$folder/unbroken_model" "$folder/model.lod" || fail "the model differs from that of the unbroken training"
    ;;
esac
((kills > 0)) || fail "no rank was killed"
