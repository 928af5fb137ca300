#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# parts.sh N PROGRAM ARGUMENT...: run a test program's tests in N processes at once, which share nothing. Tests of whole services mostly wait.
# Lines come as they are written; the last line is the sum, `N passed, N failed`. With TEST_RETRY=N in the environment, up to N tests that
# failed are tried once more, each alone: a machine that others use too may have had no time for them. It is told which were.
set -u
parts=$1
shift
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'kill 0; exit 130' INT TERM
part=1
while [ "$part" -le "$parts" ]; do
    {
        TEST_PART=$part/$parts "$@" 2>&1
        echo $? >"$folder/$part.status"
    } | tee "$folder/$part" | grep --line-buffered -v '^[0-9]* passed, [0-9]* failed$' &
    part=$((part + 1))
done
wait
passed=0 failed=0
part=1
while [ "$part" -le "$parts" ]; do
    last=$(tail -n 1 "$folder/$part")
    if expr "$last" : '[0-9][0-9]* passed, [0-9][0-9]* failed$' >/dev/null; then
        p=${last%% passed*} f=${last##*passed, } f=${f%% failed*}
        passed=$((passed + p)) failed=$((failed + f))
    else
        echo "part $part of $*: ended with status $(cat "$folder/$part.status") and without a closing line"
        failed=$((failed + 1))
    fi
    part=$((part + 1))
done
names=$(cat "$folder"/[0-9]* | sed -n 's/^FAILED \([a-z0-9_]*\) .*/=\1/p')
tries=$(echo "$names" | wc -w)
if [ "$tries" -gt 0 ] && [ "$tries" -le "${TEST_RETRY:-0}" ]; then
    echo "once more: $(echo $names | tr -d =)"
    # shellcheck disable=SC2086
    "$1" $names 2>&1 | tee "$folder/again"
    p=$(sed -n '$s/^\([0-9]*\) passed.*/\1/p' "$folder/again")
    passed=$((passed + ${p:-0})) failed=$((failed - ${p:-0}))
    echo "${p:-0} of $tries passed at the second try only"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
