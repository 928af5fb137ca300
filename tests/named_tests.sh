#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Every test that the documents name by its full name, in backquotes, exists. The last line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0
known=$(grep -rhoE '_TEST(_WITHIN)?\([a-z0-9_]+|^TEST(_WITHIN)?\([a-z0-9_]+' tests | sed 's/.*(//' | sort -u)
for document in DESIGN.md README.md tests/crash/FIELD-REPORTS.md; do
    # A name has an underscore, and begins as those of the tests do.
    named=$(grep -oE '`[a-z0-9]+(_[a-z0-9]+)+`' "$document" | tr -d '`' | sort -u |
        grep -E '^(e2e|crash|long|mutant|storm|outbox|producer|database|relay|window|gaps|hash|headers|http|log|config|decode|oracle|verbs|behind)_')
    missing=''
    for name in $named; do
        # Tests of the outbox run in two forms; some names are those of functions.
        echo "$known" | grep -qx -e "$name" -e "${name%_pooled}" || grep -rqw "$name" relay schema tests/lib tests/sim || missing="$missing $name"
    done
    if [ -z "$missing" ]; then
        echo "ok the tests named in $document exist"
        passed=$((passed + 1))
    else
        echo "FAILED $document names tests that do not exist:$missing"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
