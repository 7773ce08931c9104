#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What tools say to --help, with no program at hand by which they could install or build anything:
#   tests/tools/help_test.sh [nested_rnn]
# With the example that tools/demo runs, also that the options of both are the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
for program in bash dirname sed; do ln -s "$(command -v "$program")" "$programs"; done

for tool in demo bench-lac lac-parameters test fuzz lint release check-debian check-packages gpu-check gpu-pack; do
  PATH=$programs bash "tools/$tool" --help >"$programs/help" || { echo "tools/$tool --help fails" && exit 1; }
  # It begins with what the tool does.
  [[ $(sed -n '3s/^# //p' "tools/$tool") == "$(sed -n 1p "$programs/help")" ]] || {
    echo "tools/$tool --help does not begin with what it does" && exit 1
  }
done
[[ $(PATH=$programs bash tools/demo lac --help | sed -n 1p) == 'usage: lac '* ]] || {
  echo "tools/demo lac --help does not begin with its usage" && exit 1
}

if [[ ${1-} ]]; then
  options() { grep --only-matching -e '^ *--.*' | grep --only-matching -e '--[a-z-]*' | sort -u; }
  [[ $(tools/demo --help | options) == "$("$1" --help | options)" ]] || {
    echo "tools/demo has other options than $1" && exit 1
  }
fi
