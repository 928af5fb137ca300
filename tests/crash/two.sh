#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# two.sh PROGRAM PART: the tests whose names have PART, every other one in a second process beside the first: they wait more than they
# compute. The last line is the sum of the two closing lines.
set -u
program=$1 part=$2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM

# half NUMBER: its tests, its closing line into a file.
half() {
    "$program" --list | grep "$part" | awk -v n="$1" 'NR % 2 == n { print "=" $0 }' >"$folder/names$1"
    if [ ! -s "$folder/names$1" ]; then
        echo '0 passed, 0 failed' >"$folder/closing$1"
        return
    fi
    # shellcheck disable=SC2046
    "$program" $(cat "$folder/names$1") | tee "$folder/out$1" | grep --line-buffered -v '^[0-9]* passed, [0-9]* failed$'
    tail -n 1 "$folder/out$1" >"$folder/closing$1"
}
half 0 &
half 1 &
wait
awk '/^[0-9]+ passed, [0-9]+ failed$/ { p += $1; f += $3; n++ } END { f += 2 - n; print p + 0 " passed, " f + 0 " failed"; exit f > 0 || p == 0 }' \
    "$folder/closing0" "$folder/closing1"
