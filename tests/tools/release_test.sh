#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/release in a repository that has what it reads: what it says of a commit that is no release, of one that is, and
# where the tag is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if ! command -v git >/dev/null; then
  echo "skipped: there is no git"
  exit
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp --parents tools/release tools/lint tools/packages/vcpkg/vcpkg.json tools/packages/debian/changelog docs/CITATION.cff \
  "$scratch"
cd "$scratch"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=nobody GIT_AUTHOR_EMAIL=nobody@example.invalid
export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL

# The version that the files beside version.hpp say.
version=$(sed -n 's/^version: //p' docs/CITATION.cff)
IFS=. read -r major minor patch <<<"$version"
mkdir -p include/lod/core
# numbers <patch>
numbers() {
  printf '#define LOD_VERSION_%s\n' "MAJOR $major" "MINOR $minor" "PATCH $1" >include/lod/core/version.hpp
}
numbers "$patch"
cat >CHANGELOG.md <<'CHANGES'
# Changelog

## [Unreleased]

### Added
- Not yet.

CHANGES
git init --quiet
git add .
git commit --quiet --message "Before"

# expect <status> <text that is printed> <argument of tools/release>...
expect() {
  local status=0 printed
  printed=$(tools/release "${@:3}" 2>&1) || status=$?
  [[ $status == "$1" && $printed == *"$2"* ]] ||
    { echo "tools/release ${*:3}: status $status, expected $1 and '$2' in:" && echo "$printed" && exit 1; }
}
expect 0 "$version" --version
expect 1 "not yet: CHANGELOG.md has no section \"## [$version] - <date>\"
not yet: the last commit is not \"Release $version\""
expect 1 "has no section" --notes
expect 2 "expected --notes" --tag

cat >>CHANGELOG.md <<CHANGES
## [$version] - 2026-12-01

### Added
- A thing.

## [0.0.9] - 2026-01-01

### Added
- An older one.
CHANGES
expect 1 "not yet: the working tree has changes"
git commit --quiet --all --message "Release $version"
expect 0 "git tag --annotate --cleanup=verbatim --file notes-$version.md v$version"
[[ $(tools/release --notes) == $'### Added\n- A thing.' ]] || { tools/release --notes && exit 1; }
git tag "v$version"
expect 1 "not yet: there is a tag v$version"
git tag --delete "v$version" >/dev/null

numbers $((patch + 1))
expect 1 "docs/CITATION.cff: no version $major.$minor.$((patch + 1))
tools/packages/vcpkg/vcpkg.json: no version $major.$minor.$((patch + 1))
tools/packages/debian/changelog: the first entry is not of version $major.$minor.$((patch + 1))"
