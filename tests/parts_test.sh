#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What runs the suites, checked on programs that only say what a suite says: tests/parts.sh and tests/totals.sh.
set -u
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset TEST_RETRY TEST_PART
passed=0 failed=0

verdict() { # NAME, and what the last command said
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        echo "ok runner_$1"
    else
        failed=$((failed + 1))
        echo "FAILED runner_$1"
        sed 's/^/    /' "$work/said"
    fi
}

# Part 1 of 2 has a test that fails, each alone passes or not as the file "second" says.
cat >"$work/suite" <<'EOF'
#!/bin/sh
folder=$(dirname "$0")
failure() {
    echo "FAILED breaks (tests/some.c): status 1"
    for i in 1 2 3 4 5 6 7; do echo "    line $i"; done
    echo "    tests/some.c:7: $1"
    echo '  the end of /somewhere/x.log:'
    echo '    tests/none.c:1: noise'
}
case ${TEST_PART:-}$* in
1/2*) echo 'ok first (1 ms)'; failure 'one is not two'; echo 'ok third (1 ms)'; echo '2 passed, 1 failed'; exit 1 ;;
2/2*) echo 'ok second (1 ms)'; echo '1 passed, 0 failed' ;;
=breaks) if [ -e "$folder/second" ]; then echo 'ok breaks (1 ms)'; echo '1 passed, 0 failed'; else failure 'not even now'; echo '0 passed, 1 failed'; exit 1; fi ;;
*) exit 7 ;;
esac
EOF
cat >"$work/unstarted" <<'EOF'
#!/bin/sh
case $TEST_PART in
1/2) echo 'tests/lib/some.c:9: no broker'; echo '    a log'; echo '0 passed, 1 failed'; exit 1 ;;
2/2) echo 'ok second (1 ms)'; exit 3 ;;
esac
EOF
chmod +x "$work/suite" "$work/unstarted"

parts() {
    tests/parts.sh 2 "$work/$1" all >"$work/said" 2>&1
    status=$?
}

why='    line 3|    line 4|    line 5|    line 6|    line 7|    tests/some.c:7'
lines() { # TRY WORDS: what is told of it
    echo "failed at the $1 try: breaks (tests/some.c): status 1"
    echo "$why: $2" | tr '|' '\n'
}
first=$(lines first 'one is not two') second=$(lines second 'not even now')
ends() { # STATUS TEXT: the last thing said
    [ "$status" = "$1" ] || return 1
    echo "$2" >"$work/wanted"
    tail -n "$(wc -l <"$work/wanted")" "$work/said" | cmp -s - "$work/wanted"
}

parts suite
ends 1 "$first
3 passed, 1 failed"
verdict tells_at_the_end_why_a_test_failed $?
[ "$(grep -c '^ok ' "$work/said")" = 3 ]
verdict shows_all_parts $?

export TEST_RETRY=1
parts suite
ends 1 "$first
$second
1 of 1 failed at the second try too
0 of 1 passed at the second try only
3 passed, 1 failed"
verdict tells_what_failed_twice $?
touch "$work/second"
parts suite
ends 0 "$first
1 of 1 passed at the second try only
4 passed, 0 failed"
verdict tells_what_failed_once $?
TEST_RETRY=0
parts suite
ends 1 "$first
3 passed, 1 failed" && ! grep -q 'once more' "$work/said"
verdict tries_no_more_than_it_may $?
unset TEST_RETRY

parts unstarted
ends 1 "part 1 of $work/unstarted all: tests/lib/some.c:9: no broker
part 2 of $work/unstarted all: ended with status 3 and without a closing line
0 passed, 2 failed"
verdict tells_which_part_did_not_start $?

tests/totals.sh "$work/suite =breaks" "$work/unstarted" "tests/parts.sh 2 $work/suite all" >"$work/said" 2>&1
status=$?
ends 1 '4 passed, 2 failed' && grep -q 'without a closing line$' "$work/said"
verdict sums_up $?
tests/totals.sh "$work/suite =breaks" >"$work/said" 2>&1
status=$?
ends 0 '1 passed, 0 failed'
verdict sums_up_what_passed $?

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
