#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The settings table is one: what README.md (between its markers), --help and packaging/outbox-relay.ini say is what the binary does.
# usage: tests/settings.sh [BINARY]
set -u
cd "$(dirname "$0")/.." || exit 1
relay=${1:-${TEST_RELAY_BINARY:-build/release/outbox-relay}}
passed=0
failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

verdict() { # NAME STATUS
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok $1"
    else
        failed=$((failed + 1))
        echo "FAILED $1"
    fi
}

"$relay" --print-settings-table >"$work/table" && "$relay" --help >"$work/help" && "$relay" --print-settings-ini >"$work/ini" || exit 1

sed -n '/^<!-- settings -->$/,/^<!-- \/settings -->$/p' README.md | sed -e '1d' -e '$d' -e '/^$/d' >"$work/readme"
diff "$work/readme" "$work/table"
verdict settings_readme $?

diff packaging/outbox-relay.ini "$work/ini"
verdict settings_example $?

# Every row of the table is a line of the help, with the same default and meaning; what is not in this version is at least named there.
awk -F' \\| ' -v help="$work/help" '
    BEGIN { while ((getline line < help) > 0) { text = text " " line; gsub(/ +/, " ", text) } }
    NR > 2 {
        name = $1; gsub(/[|` ]/, "", name)
        initial = $2; gsub(/`/, "", initial)
        meaning = $3; sub(/ \|$/, "", meaning)
        rows++
        wanted = meaning ~ /\(not in this version\)$/ ? " " name " " : " " name (initial != "" ? " " initial : "") " " meaning
        if (!index(text " ", wanted)) { print "the help does not say:" wanted; bad = 1 }
    }
    END { exit bad || rows < 20 }' "$work/table"
verdict settings_help $?

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
