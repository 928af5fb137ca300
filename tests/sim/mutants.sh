#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Run the simulator with one rule after the other broken. A mutant is caught when one of the checks that its line in tests/sim/mutants names
# fails within SEEDS (2000) seeds; another check, an assert or a hang does not count.
#
#   mutants.sh [NAME...]   SEEDS=2000, JOBS=2
cd "$(dirname "$0")/../.." || exit 2
list=tests/sim/mutants
seeds=${SEEDS:-2000}
jobs=${JOBS:-2}
out=$(mktemp -d) || exit 2
trap 'rm -rf "$out"' EXIT
trap 'exit 130' INT TERM

# NAME CHECKS [WITHOUT]
run() {
    build/mutant-"$1"/sim --seeds "$seeds" --jobs 1 ${3:+--without "$3"} >"$out/$1.log" 2>&1
    sed -n 's/^seed \([0-9]*\) at [0-9]* ms: \([a-z_]*\): .*/\2 \1/p' "$out/$1.log" |
        awk -v name="$1" -v wanted=",$2," '
            { all++; if (index(wanted, "," $1 ",")) { n++; if (n == 1) { check = $1; seed = $2 } } }
            END {
                if (n) printf "%-20s caught      by %-10s  first in seed %4d, in %4d seeds\n", name, check, seed, n
                else printf "%-20s NOT CAUGHT  (%d seeds failed for another reason)\n", name, all
            }' >"$out/$1.line"
}

names=${*:-$(sed -e 's/#.*//' -e '/^ *$/d' -e 's/ .*//' "$list")}
make --no-print-directory -s -j"$jobs" $(for name in $names; do echo "build/mutant-$name/sim"; done) || exit 2
running=0
for name in $names; do
    line=$(grep "^$name " "$list") || { echo "no such mutant: $name" >&2; exit 2; }
    # shellcheck disable=SC2086
    run $line &
    running=$((running + 1))
    [ $((running % jobs)) -eq 0 ] && wait
done
wait
for name in $names; do cat "$out/$name.line"; done
passed=$(cat "$out"/*.line | grep -c ' caught ')
failed=$(cat "$out"/*.line | grep -cv ' caught ')
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
