#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# tests/symbols.sh OBJECT...: the core's objects may need nothing of the outside but memory and assert (and what the compiler makes of them).
set -eu
[ $# -gt 0 ] || { echo 'symbols: no object was checked'; exit 1; }
symbols=$(nm "$@")
echo "$symbols" | awk '
    /:$/ { object = $1; sub(/:$/, "", object) }
    NF == 3 { ours[$3] = 1 }
    NF == 2 && $1 == "U" { wanted[++n] = $2; where[n] = object == "" ? ARGV[1] : object }
    END {
        for (i = 1; i <= n; i++)
            if (!(wanted[i] in ours) && wanted[i] !~ /^(malloc|calloc|free|mem[a-z]*|str[a-z]*|__assert_fail|__stack_chk_fail|__(mem|str)[a-z]*_chk|_GLOBAL_OFFSET_TABLE_)$/) {
                print where[i] ": the core may not need " wanted[i]
                bad = 1
            }
        exit bad
    }'
