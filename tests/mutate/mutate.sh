#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Break relay/core in one place after the other, and see whether somebody notices: the unit tests, then the simulator, then the explorer.
# Places and changes are those of mutants.awk; survivors that are known, with their reasons, are in SURVIVORS.md.
#
#   SAMPLE=n SEED=s mutate.sh [FILE...]    n of them, chosen by s (default 100 and 1; SAMPLE=all)    BUILD=build/release
#
# The last line is `N passed, M failed`: one passed, if 85 of 100 are noticed.
cd "$(dirname "$0")/../.." || exit 2
build=${BUILD:-build/release} out=build/mutate
sample=${SAMPLE:-100} seed=${SEED:-1}
trap 'exit 130' INT TERM
mkdir -p "$out" || exit 2
[ $# -gt 0 ] || set -- relay/core/*.c
for file; do awk -f tests/mutate/mutants.awk "$file"; done |
    awk -v seed="$seed" 'BEGIN { srand(seed) } { printf "%.9f %s\n", rand(), $0 }' | sort | cut -d' ' -f2- |
    { [ "$sample" = all ] && cat || head -n "$sample"; } >"$out/list"

flags='-std=c17 -D_GNU_SOURCE -I. -O1 -w -fPIE -pthread'
libs=$(pkg-config --libs libpq rdkafka libuv libmicrohttpd jansson)
pkg-config --exists libsystemd && libs="$libs $(pkg-config --libs libsystemd)"
core_tests='relay_ window_ gaps_ behind_ keys_ topics_ lease_ pace_ marks_ hash_ holders_ finding_'

# Does it fail, or take too long? What it prints is kept.
fails() {
    # shellcheck disable=SC2068
    timeout 60 $@ >"$out/log" 2>&1 && return 1
    return 0
}

# FILE LINE KIND NUMBER: who notices, or nobody
judge() {
    awk -v line="$2" -v kind="$3" -v number="$4" -f tests/mutate/mutants.awk "$1" >"$out/mutant.c"
    ${CC:-cc} $flags -c "$out/mutant.c" -o "$out/mutant.o" 2>"$out/log" || { echo stillborn; return; }
    cc -pie $build/obj/tests/unit/*.o "$out/mutant.o" $build/libtests.a $build/librelay.a -pthread $libs -o "$out/test-unit" 2>"$out/log" ||
        { echo stillborn; return; }
    fails "$out/test-unit" $core_tests && { echo unit; return; }
    cc -pie $build/obj/tests/sim/*.o "$out/mutant.o" $build/libcore.a -pthread -o "$out/sim" || exit 2
    fails "$out/sim" --seeds 300 --jobs 1 && { echo sim; return; }
    cc -pie $build/obj/tests/explore/*.o "$out/mutant.o" $build/libcore.a -pthread -o "$out/explore" || exit 2
    fails "$out/explore" pair && { echo explore; return; }
    echo SURVIVES
}

: >"$out/result"
while read -r file line kind number; do
    who=$(judge "$file" "$line" "$kind" "$number")
    echo "$who $file $line $kind $number" >>"$out/result"
    [ "$who" = SURVIVES ] || continue
    echo "survives: $file:$line $kind $number"
    awk -v line="$line" -v kind="$kind" -v number="$number" -f tests/mutate/mutants.awk "$file" | diff "$file" - | sed -n 's/^[<>]/    &/p'
done <"$out/list"
awk -v seed="$seed" '
    $1 == "stillborn" { next }
    { n++; by[$1]++ }
    END {
        killed = n - by["SURVIVES"]
        printf "seed %s: %d mutants, %d noticed (%.1f %%): unit %d, sim %d, explore %d\n", seed, n, killed, n ? 100 * killed / n : 0,
            by["unit"], by["sim"], by["explore"]
        good = n > 0 && killed >= 0.85 * n
        printf "%d passed, %d failed\n", good, !good
        exit !good
    }' "$out/result"
