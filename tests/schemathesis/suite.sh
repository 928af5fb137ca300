#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# suite.sh TEST-PROGRAM: the one test that runs schemathesis, and what schemathesis said of itself. The last line is the test's.
set -u
cd "$(dirname "$0")/../.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
"$1" =schemathesis_finds_nothing >"$log" 2>&1
status=$?
cat build/schemathesis/report/summary 2>/dev/null
cat "$log"
exit $status
