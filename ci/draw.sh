#!/usr/bin/env bash
# usage: ci/draw.sh SEED [COUNT]
#
# Draws COUNT (40) public items with their docs from the packages that users name, and as many comments with the lines
# below them from all packages, for a reader who knows Rust but not this project: each must be understood at the first
# reading. The same SEED draws the same ones from the same tree.
set -euo pipefail
cd "$(dirname "$0")/.."
seed=${1:?a seed, for example 1}
count=${2:-40}

# Generated code is read as its template.
sources() {
    git ls-files '*.rs' | grep -vE '/protos/|/fixtures/|schema/table\.rs|^tests/generated/' | LC_ALL=C sort
}

draw() { # draw <title> <files> <first line> <last line> <lines below>
    printf '\n######## %s\n' "$1"
    sources | grep -E "$2" | xargs -d '\n' awk -v first="$3" -v last="$4" -v below="$5" '
        # A run of lines that match `first` is one candidate, if the line after it matches `last`.
        FNR == 1 { run = ""; due = 0 }
        due > 0 { found[count] = found[count] "\n" $0; due--; }
        $0 ~ first { if (run == "") place = FILENAME ":" FNR; run = run "\n" $0; next }
        run != "" && /^[[:space:]]*#\[/ { next }
        run != "" { if ($0 ~ last) { found[++count] = "\n--- " place run "\n" $0; due = below } run = "" }
        END { for (i = 1; i <= count; i++) printf "%s%c", found[i], 0 }
    ' | shuf -z -n "$count" --random-source=<(yes "$seed") | tr '\0' '\n'
}

public='^(protozero|protozero-codegen|sdk|sdk/(config|events|macros|reader|track-event))/src/'
draw "$count public items" "$public" '^[[:space:]]*///' '^[[:space:]]*(pub |macro_rules!)' 0
draw "$count comments" . '^[[:space:]]*//[^/!]' '.' 2
