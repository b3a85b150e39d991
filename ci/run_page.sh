#!/usr/bin/env bash
# usage: ci/run_page.sh PAGE FOLDER [KIND]
#
# Runs the shell commands of a page in a folder, block by block, and stops at the first that fails. With
# KIND, runs the blocks that are marked so: ```sh KIND; otherwise those without a mark.
set -euo pipefail

page=$(realpath "$1") folder=$2 mark='```sh'${3:+ $3}
script=$(mktemp)
trap 'rm -f "$script"' EXIT
awk -v mark="$mark" '
    $0 == "```" { is_inside = 0 }
    is_inside
    $0 == mark { is_inside = 1 }' "$page" >"$script"
[ -s "$script" ] || { echo "$page has no block marked $mark" >&2; exit 1; }
cd "$folder"
bash -euo pipefail "$script"
