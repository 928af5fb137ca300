#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The check of the style, checked on planted violations.
set -u
cd "$(dirname "$0")/.." || exit 1
here=$PWD
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/tests"
passed=0 failed=0
spdx='/* SPDX-License-Identifier: BSD-2-Clause */'

plant() { # tests/x.c, from stdin
    cat >"$work/tests/x.c"
}

says() { # NAME TEXT: about what is planted; no text: nothing
    said=$(cd "$work" && awk -f "$here/tests/style.awk" tests/x.c)
    status=$?
    if { [ -z "$2" ] && [ $status = 0 ] && [ -z "$said" ]; } || { [ -n "$2" ] && [ $status = 1 ] && expr "$said" : ".*$2" >/dev/null; }; then
        passed=$((passed + 1))
        echo "ok style_$1"
    else
        failed=$((failed + 1))
        echo "FAILED style_$1: $said"
    fi
}

body() { # LINES of a function of LINES + 3
    printf '%s\n\nint f(void)\n{\n' "$spdx"
    seq "$1" | sed 's/.*/    x();/'
    echo '}'
}

body 57 | plant
says allows_60_lines ''
body 58 | plant
says finds_61_lines 'tests/x.c:3: is a function of 61 lines'
{ echo "$spdx"; seq 499; } | plant
says allows_500_lines ''
{ echo "$spdx"; seq 500; } | plant
says finds_501_lines 'has 501 lines'
echo 'int x;' | plant
says finds_no_licence 'has no line SPDX'
{ echo "$spdx"; echo '    sleep(1);'; } | plant
says finds_a_sleep 'x.c:2: sleeps'
{ echo "$spdx"; echo '    nanosleep(&t, NULL);'; } | plant
says finds_a_nanosleep 'x.c:2: sleeps'
{ echo "$spdx"; echo '    on_sleep(1);'; } | plant
says allows_other_names ''

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
