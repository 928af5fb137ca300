#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Break relay/core in one place after the other, and see whether somebody notices: the unit tests, then the simulator, then the explorer.
# Places and changes are those of mutants.awk; what is known of survivors, with the reasons, is in SURVIVORS.md.
#
#   SAMPLE=n SEED=s mutate.sh [FILE...]    n of them, chosen by s (default 100 and 1; SAMPLE=all, SAMPLE=listed: those of SURVIVORS.md)
#   SEEDS=n        of the simulator for each (default 400)      UNIT=1    ask the unit tests only      BUILD=build/release
#
# The last line is `N passed, M failed`: one passed, if of 100 that change something 85 are noticed (of a sample), and what is listed is true.
cd "$(dirname "$0")/../.." || exit 2
build=${BUILD:-build/release} out=${OUT:-build/mutate}
sample=${SAMPLE:-100} seed=${SEED:-1} survivors=${SURVIVORS:-tests/mutate/SURVIVORS.md}
flags='-std=c17 -D_GNU_SOURCE -I. -O2 -w -fPIE -pthread'
tab=$(printf '\t')
trap 'exit 130' INT TERM
mkdir -p "$out/same" || exit 2
rm -f "$out"/same/*

# The unit tests that need nothing but the core.
unit=$(grep -LE '"(relay/(edge|app)|tests/lib/[^t])' tests/unit/*.c | sed "s|.*|$build/obj/&|; s/c\$/o/")
unit="$unit $build/obj/tests/mutate/quick.o"

awk -f tests/mutate/mutants.awk relay/core/*.c | awk -f tests/mutate/known.awk "$survivors" - >"$out/all"
awk -f tests/mutate/mutants.awk relay/core/*.c | awk -f tests/mutate/known.awk "$survivors" - >/dev/null 2>&1 && listed=1 || listed=0
awk -F'\t' -v files="$*" 'files == "" || index(" " files " ", " " $1 " ")' "$out/all" |
    awk -v seed="$seed" 'BEGIN { srand(seed) } { printf "%.9f\t%s\n", rand(), $0 }' | sort | cut -f2- |
    case $sample in
    all) cat ;;
    listed) awk -F'\t' '$9 != ""' ;;
    *) head -n "$sample" ;;
    esac >"$out/list"

# FILE LINE NUMBER, or FILE alone, compiled to $out/mutant.o
compile() {
    awk -v line="${2:-0}" -v number="${3:-0}" -f tests/mutate/mutants.awk "$1" >"$out/mutant.c"
    # shellcheck disable=SC2086
    ${CC:-cc} $flags -c "$out/mutant.c" -o "$out/mutant.o" 2>"$out/log"
}

# What a mutant is as soon as it is compiled: the same code as before, or no code at all.
compiled_as() {
    same=$out/same/$(basename "$1" .c).o
    [ -f "$same" ] || { compile "$1" && mv "$out/mutant.o" "$same" || exit 2; }
    compile "$@" || { echo stillborn; return; }
    cmp -s "$same" "$out/mutant.o" && echo same
}

# PROGRAM OBJECT...: linked with the mutant
link() {
    program=$1
    shift
    ${CC:-cc} -pie "$@" "$out/mutant.o" "$build/libcore.a" -pthread -o "$program" 2>"$out/log" || exit 2
}

# Does it fail, or take too long? What it prints is kept.
fails() {
    timeout 60 "$@" >"$out/log" 2>&1 && return 1
    return 0
}

# FILE LINE NUMBER KIND: who notices, or nobody
judge() {
    [ "$4" != equal ] || { echo equal; return; }
    is=$(compiled_as "$1" "$2" "$3")
    [ -z "$is" ] || { echo "$is"; return; }
    # shellcheck disable=SC2086
    link "$out/quick" $unit
    fails "$out/quick" && { echo "unit:$(sed -n 's/.*FAILED //p' "$out/log" | head -n 1)"; return; }
    [ -z "$UNIT" ] || { echo survives; return; }
    link "$out/sim" "$build"/obj/tests/sim/*.o
    fails "$out/sim" --seeds "${SEEDS:-400}" --jobs 1 --stop && { echo sim; return; }
    link "$out/explore" "$build"/obj/tests/explore/*.o
    fails "$out/explore" pair && { echo explore; return; }
    echo survives
}

: >"$out/result"
while IFS=$tab read -r file line number function kind old new before known; do
    who=$(judge "$file" "$line" "$number" "$kind")
    [ -n "$who" ] || { cat "$out/log"; echo "No verdict on $file:$line."; exit 2; }
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$who" "$known" "$file: $function" "$line" "$old" "$new" >>"$out/result"
    if [ "$who" = survives ] && [ -z "$known" ]; then
        printf 'survives: %s:%s, %s\n  - %s\n  + %s\n' "$file" "$line" "$function" "$old" "$new"
    elif [ "$who" != survives ] && [ -n "$known" ]; then
        printf 'noticed by %s, but listed as %s: %s, %s\n  - %s\n  + %s\n' "$who" "$known" "$file" "$function" "$old" "$new"
    fi
done <"$out/list"

awk -F'\t' -v seed="$seed" -v sample="$sample" -v listed="$listed" '
    { sub(/:.*/, "", $1); all++; by[$1]++; known[$2] += $1 == "survives"; wrong += $1 != "survives" && $2 != "" }
    END {
        nothing = by["equal"] + by["same"] + known["equivalent"]
        n = all - by["stillborn"] - nothing
        noticed = by["unit"] + by["sim"] + by["explore"]
        printf "seed %s: %d mutants; %d are no program, %d change nothing (%d by their form, %d compile to the same code, %d are listed)\n",
            seed, all, by["stillborn"], nothing, by["equal"], by["same"], known["equivalent"]
        printf "of %d that change something %d are noticed (%.1f %%): unit %d, sim %d, explore %d; of those that are not %d are listed\n",
            n, noticed, n ? 100 * noticed / n : 0, by["unit"], by["sim"], by["explore"], known["unnoticed"]
        good = all > 0 && (noticed >= 0.85 * n || sample == "listed") && wrong == 0 && listed
        printf "%d passed, %d failed\n", good, !good
        exit !good
    }' "$out/result"
