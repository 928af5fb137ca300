#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Explore with one rule after the other broken. A mutant is caught when one of the rules that its line in tests/explore/mutants names is
# found broken in its play.
#
#   mutants.sh [NAME...]   TRACES=1 prints the shortest way to each
cd "$(dirname "$0")/../.." || exit 2
list=tests/explore/mutants
out=$(mktemp) || exit 2
trap 'rm -f "$out"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0
for name in ${*:-$(sed -e 's/#.*//' -e '/^ *$/d' -e 's/ .*//' "$list")}; do
    line=$(sed -n "s/^$name  *//p" "$list")
    [ -n "$line" ] || { echo "no such mutant: $name" >&2; exit 2; }
    play=${line%% *} rules=${line##* }
    if build/mutant-"$name"/explore --expect "$rules" "$play" >"$out" 2>&1; then
        passed=$((passed + 1))
        awk -v name="$name" -v traces="${TRACES:-}" '
            traces { lines = lines $0 "\n" }
            /^ +[0-9]+  / { steps = $1 }
            /VIOLATION of/ { rule = $0; sub(/.*VIOLATION of /, "", rule); sub(/,.*/, "", rule) }
            END { printf "%-20s caught by %-10s in %2d steps\n%s", name, rule, steps, lines }' "$out"
    else
        failed=$((failed + 1))
        echo "$name NOT CAUGHT"
        cat "$out"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
