#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Run the simulator with each rule of tests/sim/mutants broken: every mutant must be caught, by a check that its line names.
#
#   mutants.sh [NAME...]   SEEDS=2000 (a mutant's at most), JOBS=2
cd "$(dirname "$0")/../.." || exit 2
list=tests/sim/mutants
seeds=${SEEDS:-2000}
jobs=${JOBS:-2}
out=$(mktemp -d) || exit 2
trap 'rm -rf "$out"' EXIT
trap 'exit 130' INT TERM

run() { # NAME CHECKS WITHOUT
    status=0
    timeout 300 "build/mutant-$1/sim" --seeds "$seeds" --stop ${3:+--without "$3"} >"$out/$1.log" 2>&1 || status=$?
    line=$(grep -m1 '^seed [0-9]* at ' "$out/$1.log")
    check=$(printf '%s\n' "$line" | sed -n 's/^seed [0-9]* at [0-9]* ms: \([a-z_]*\): .*/\1/p')
    seed=$(printf '%s\n' "$line" | sed -n 's/^seed \([0-9]*\) .*/\1/p')
    verdict='NOT CAUGHT'
    if [ -n "$check" ]; then
        case ",$2," in *",$check,"*) verdict=caught ;; *) verdict='WRONG CHECK' ;; esac
    elif [ "$status" -gt 1 ]; then
        verdict="ENDED WITH $status"
    fi
    printf '%-20s %-12s %-14s seed %s\n' "$1" "$verdict" "${check:--}" "${seed:--}" >"$out/$1.line"
}

names=${*:-$(sed -e 's/#.*//' -e '/^ *$/d' -e 's/ .*//' "$list")}
make --no-print-directory -s -j"$jobs" $(for name in $names; do echo "build/mutant-$name/sim"; done) || exit 2
running=0
for name in $names; do
    line=$(grep "^$name " "$list") || { echo "no such mutant: $name" >&2; exit 2; }
    # shellcheck disable=SC2086
    set -- $line
    run "$1" "$2" "$3" &
    running=$((running + 1))
    [ $((running % jobs)) -eq 0 ] && wait
done
wait
for name in $names; do cat "$out/$name.line"; done
passed=$(cat "$out"/*.line | grep -c ' caught ')
failed=$(cat "$out"/*.line | grep -cv ' caught ')
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
