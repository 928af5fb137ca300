#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# parts.sh N PROGRAM ARGUMENT...: run a test program's tests in N processes at once, which share nothing. Tests of whole services mostly wait.
# Lines come as they are written; the last line is the sum, `N passed, N failed`. With TEST_RETRY=N in the environment, up to N tests that
# failed are tried once more, each alone: a machine that others use too may have had no time for them. Before the last line it is told which
# tests failed, at which try, and why: of a long log people see the end.
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
        echo $? >"$folder/status.$part"
    } | tee "$folder/part.$part" | grep --line-buffered -v '^[0-9]* passed, [0-9]* failed$' &
    part=$((part + 1))
done
wait

# TRY FILE...: the tests that failed, and the last lines of their own output, before those of the logs
told() {
    try=$1
    shift
    cat "$@" | awk -v try="$try" '
        function flush() { for (i = n > 6 ? n - 5 : 1; i <= n; i++) print substr(line[i], 1, 300); n = 0; open = 0 }
        /^FAILED / { flush(); print "failed at the " try " try: " substr($0, 8, 300); open = 1; next }
        /^  the end of / || !/^ / { flush() }
        open { line[++n] = $0 }
        END { flush() }'
}

passed=0 failed=0
part=1
while [ "$part" -le "$parts" ]; do
    last=$(tail -n 1 "$folder/part.$part")
    if expr "$last" : '[0-9][0-9]* passed, [0-9][0-9]* failed$' >/dev/null; then
        p=${last%% passed*} f=${last##*passed, } f=${f%% failed*}
        passed=$((passed + p)) failed=$((failed + f))
        if [ "$f" -gt 0 ] && ! grep -q '^FAILED ' "$folder/part.$part"; then
            echo "part $part of $*: $(grep -m 1 '^[a-z_/]*\.[ch]:[0-9]*: ' "$folder/part.$part" || echo 'failed without a test')"
        fi
    else
        echo "part $part of $*: ended with status $(cat "$folder/status.$part") and without a closing line"
        failed=$((failed + 1))
    fi
    part=$((part + 1))
done
names=$(cat "$folder"/part.* | sed -n 's/^FAILED \([a-z0-9_]*\) .*/=\1/p')
tries=$(echo "$names" | wc -w)
again=''
if [ "$tries" -gt 0 ] && [ "$tries" -le "${TEST_RETRY:-0}" ]; then
    echo "once more: $(echo $names | tr -d =)"
    # shellcheck disable=SC2086
    "$1" $names 2>&1 | tee "$folder/again" | grep --line-buffered -v '^[0-9]* passed, [0-9]* failed$'
    p=$(sed -n '$s/^\([0-9]*\) passed.*/\1/p' "$folder/again")
    passed=$((passed + ${p:-0})) failed=$((failed - ${p:-0}))
    again="${p:-0} of $tries passed at the second try only"
fi
told first "$folder"/part.*
if [ -n "$again" ]; then
    told second "$folder/again"
    [ "${p:-0}" = "$tries" ] || echo "$((tries - ${p:-0})) of $tries failed at the second try too"
    echo "$again"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
