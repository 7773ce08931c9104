#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the component lodinfo of an installation is: tests/tools/lodinfo_install_test.sh cmake <folder of the build>
set -euo pipefail
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
"$1" --install "$2" --component lodinfo --prefix "$prefix" >/dev/null
diff <(cd "$prefix" && find . -type f | sort) - <<'LIST'
./bin/lodinfo
./share/bash-completion/completions/lodinfo
./share/man/man1/lodinfo.1
./share/zsh/site-functions/_lodinfo
LIST
version=$("$prefix/bin/lodinfo" --version | sed -n '1s/^lodinfo //p')
[[ $(head -n 1 "$prefix/share/man/man1/lodinfo.1") == ".TH LODINFO 1 \"\" \"lodtensor $version\"" ]]
