#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh URL FOLDER: schemathesis against the order service at URL, with all checks and phases, EXAMPLES (200) an operation; reports go to FOLDER.
# SEED repeats the choices of a run. One worker: with two, Python's parser now and then says "recursion depth mismatch". Fails if it found anything, or if an operation did not show both a 2xx and a 4xx.
set -u
cd "$(dirname "$0")/../.." || exit 1
url=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"
if ! build/schemathesis/venv/bin/st --config-file tests/schemathesis/schemathesis.toml run "$url/openapi.json" --checks all \
    --phases examples,coverage,fuzzing,stateful --mode all -n "${EXAMPLES:-200}" ${SEED:+--seed "$SEED"} --workers 1 --continue-on-failure \
    --suppress-health-check too_slow --report har --report-har-path "$folder/har.json" >"$folder/output" 2>&1; then
    cat "$folder/output"
    exit 1
fi
sed -n '/= SUMMARY =/,$p' "$folder/output" >"$folder/summary"
python3 tests/schemathesis/outcomes.py producer-demo/order_service/openapi.json "$folder/har.json" >>"$folder/summary"
status=$?
cat "$folder/summary"
exit $status
