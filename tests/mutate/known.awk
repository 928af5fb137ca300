# SPDX-License-Identifier: BSD-2-Clause
# The survivors that SURVIVORS.md lists, then the mutants as mutants.awk lists them: prints these again, and what is known of each behind:
# `equivalent`, `unnoticed`, or nothing. A pair of lines, `-` and `+`, may have the line before as its context. What is listed and is no mutant
# is told of, and fails.
BEGIN { FS = OFS = "\t" }
FNR == NR && /^## / { known = /quivalent/ ? "equivalent" : "unnoticed" }
FNR == NR && /^### / { split(substr($0, 5), where, ": "); next }
FNR == NR && /^```/ { in_diff = /diff/; context = ""; next }
FNR == NR {
    if (in_diff && /^  /) context = substr($0, 3)
    if (in_diff && /^- /) old = substr($0, 3)
    if (in_diff && /^\+ /) { listed["relay/core/" where[1], where[2], old, substr($0, 3), context] = known; context = "" }
    next
}
{
    key = $1 SUBSEP $4 SUBSEP $6 SUBSEP $7 SUBSEP
    if (key $8 in listed) key = key $8
    if (key in listed) { found[key] = 1; print $0, listed[key] } else print $0, ""
}
END {
    for (key in listed) {
        if (key in found) continue
        split(key, part, SUBSEP)
        print "SURVIVORS.md: no mutant of " part[1] ", " part[2] " is: " part[3] " -> " part[4] >"/dev/stderr"
        missing = 1
    }
    exit missing
}
