#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The harness, checked on tests that fail. usage: tests/harness_test.sh PROGRAM (the one of tests/lib/bin/planted_tests.c)
set -u
program=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"
export TMPDIR="$work/tmp" TEST_SLOW=1
PLANTED=$((100000 + $$)) # seconds that nobody else sleeps
export PLANTED
passed=0 failed=0

verdict() { # NAME, and what the last command said
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        echo "ok harness_$1"
    else
        failed=$((failed + 1))
        echo "FAILED harness_$1"
        sed 's/^/    /' "$work/said"
    fi
}

nothing_is_left() {
    ! pgrep -f "sleep $PLANTED" >/dev/null && [ -z "$(ls "$TMPDIR")" ]
}

says() { # NAME TEST STATUS LINE...: that test's run ends with STATUS, shows the lines, and leaves nothing
    name=$1 status=$3
    "$program" "$2" >"$work/said" 2>&1
    [ $? = "$status" ] && nothing_is_left
    good=$?
    shift 3
    for line; do grep -q "$line" "$work/said" || good=1; done
    verdict "$name" $good
}

says shows_little_of_what_passes good 0 '^ok good' '^1 passed, 0 failed$'
! grep -q shown "$work/said"
verdict hides_the_output_of_what_passes $?
says shows_output checks_ 1 '^FAILED checks_number' 'planted_tests.c:[0-9]*: 1 + 1 is 2, not 3' '^      one$' '^0 passed, 2 failed$'
says tells_checks checks 1 'what it wrote' 'planted_tests.c:[0-9]*: getpid() == 0' '^0 passed, 3 failed$'
says ends_at_the_deadline deadline 1 '^FAILED deadline .*: not done within 1 s$'
says tells_signals signal 1 '^FAILED signal .*: Aborted$'
says tells_statuses status 1 '^FAILED status .*3$'
says gives_up_waiting wait 1 'not within 1 s: getpid() == 0$'
says shows_logs log 1 'what it logged'
says kills_what_is_left leaves_processes 0 '^1 passed, 0 failed$'
says fails_when_nothing_ran no_such_test 1 '^0 passed, 0 failed$'

"$program" hangs >"$work/said" 2>&1 &
pid=$!
until pgrep -f "^sleep $PLANTED" >/dev/null; do kill -0 $pid 2>/dev/null || break; done
kill -TERM $pid
wait $pid
[ $? = 130 ] && nothing_is_left
verdict cleans_up_when_interrupted $?

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
