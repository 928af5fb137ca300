#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Run the given test programs one after the other, each an argument that may itself have arguments; the last line is the sum of their
# closing lines, `N passed, N failed`. A program that ran nothing, failed without saying so, or has no closing line is one failure more.
set -u
passed=0 failed=0 wrong=0
lines=$(mktemp) && status=$(mktemp) || exit 1
trap 'rm -f "$lines" "$status"' EXIT
trap 'exit 130' INT TERM
for suite; do
    echo "== $suite"
    # shellcheck disable=SC2086
    { $suite; echo $? >"$status"; } | tee "$lines"
    code=$(cat "$status")
    last=$(tail -n 1 "$lines")
    if ! expr "$last" : '[0-9][0-9]* passed, [0-9][0-9]* failed$' >/dev/null; then
        echo "$suite: ended with status $code and without a closing line"
        wrong=$((wrong + 1))
        continue
    fi
    p=${last%% passed*} f=${last##*passed, } f=${f%% failed*}
    passed=$((passed + p)) failed=$((failed + f))
    if [ "$f" = 0 ] && { [ "$code" != 0 ] || [ "$p" = 0 ]; }; then
        echo "$suite: ran $p tests and ended with status $code"
        wrong=$((wrong + 1))
    fi
done
failed=$((failed + wrong))
if [ $# = 0 ]; then
    echo 'There is no test to run.'
    failed=1
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
