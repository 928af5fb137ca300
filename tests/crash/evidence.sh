#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# evidence.sh FILE LEAST: were enough faults injected that hit? FILE has a line for each test, "faults=N ...", as TEST_EVIDENCE gets them.
set -u
[ -f "$1" ] || : >"$1"
hit=$(sed -n 's/^faults=\([0-9]*\) .*/\1/p' "$1" | awk '{ n += $1 } END { print n + 0 }')
echo "$hit faults hit in $(grep -c '^faults=' "$1") tests; at least $2 are wanted"
if [ "$hit" -ge "$2" ]; then echo '1 passed, 0 failed'; else echo '0 passed, 1 failed'; exit 1; fi
