#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# tests/style.sh FILE...: sizes and habits that a compiler does not know (tests/style.awk).
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || { echo 'style: no file was checked'; exit 1; }
exec awk -f tests/style.awk "$@"
