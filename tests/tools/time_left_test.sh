#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What tools/with-time-left makes of what ninja and ctest print, on a terminal and elsewhere:
#   tests/tools/time_left_test.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if ! command -v script >/dev/null; then
  echo "skipped: there is no script, which stands for a terminal"
  exit
fi

printed='[0/2] Re-checking globbed directories...
[1/4, 9.5 s] Building a
warning: of a
[1/4, 9.6 s] Building b
      Start 1: core/c
 2/4 Test #1: core/c ............   Passed    0.01 sec
 4/4 Test #2: core/d ............***Failed    0.01 sec
4 tests ran'
export printed
readonly command='tools/with-time-left sh -c '\''echo "$printed"; exit 3'\'

status=0
elsewhere=$(eval "$command") || status=$?
[[ $status == 3 && $elsewhere == "$printed" ]] || { echo "elsewhere: status $status, $elsewhere" && exit 1; }

# By bash's own clock, whose first reading is given: a day has gone when the first line comes.
status=0
terminal=$(SECONDS=86400 COLUMNS=120 script --quiet --return --command "$command" /dev/null) || status=$?
[[ $status == 3 ]] || { echo "on a terminal: status $status" && exit 1; }
expected=$(sed -e 's/^/\r\x1b[K/' <<'LINES'
[0/2] Re-checking globbed directories...
[1/4, about 4320 min left] Building a
warning: of a
[1/4, about 4320 min left] Building b
[2/4, about 1440 min left] Test #1: core/c ............   Passed    0.01 sec
[4/4] Test #2: core/d ............***Failed    0.01 sec
[4/4] Test #2: core/d ............***Failed    0.01 sec
LINES
)
# Only these two end.
expected=$(tr --delete '\n' <<<"$expected" | sed -e $'s/\\(of a\\)/\\1\\r\\n/' -e $'s/sec$/sec\\r/')
expected+=$'\n4 tests ran\r'
[[ $terminal == "$expected" ]] || { diff <(cat -v <<<"$expected") <(cat -v <<<"$terminal") && exit 1; }
