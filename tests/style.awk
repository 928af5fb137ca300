# SPDX-License-Identifier: BSD-2-Clause
# What every C file must keep to; the files are as clang-format leaves them, so a function's body begins and ends in the first column.
function complain(line, why) {
    printf "%s:%d: %s\n", file, line, why
    bad = 1
}
function file_end() {
    if (file == "") return
    if (n > 500) complain(n, "has " n " lines, more than 500")
    if (!spdx) complain(1, "has no line SPDX-License-Identifier: BSD-2-Clause")
}
FNR == 1 { file_end(); file = FILENAME; spdx = 0; open = 0 }
{ n = FNR }
/SPDX-License-Identifier: BSD-2-Clause/ { spdx = 1 }
# The line with the name comes before the brace, after an empty line or the end of what was before.
/^[A-Za-z_]/ && !open { if (before ~ /^($|[}#\/]| \*)/ || before ~ /;$/) start = FNR }
{ before = $0 }
/^{$/ { open = 1 }
/^}/ {
    if (open && FNR - start + 1 > 60) complain(start, "is a function of " FNR - start + 1 " lines, more than 60")
    open = 0
}
# A benchmark keeps a schedule, so it may sleep.
file ~ /^tests\// && file !~ /^tests\/(bench\/|lib\/test\.c$)/ && /(^|[^A-Za-z0-9_])(sleep|usleep|nanosleep|clock_nanosleep|uv_sleep)[ ]*\(/ {
    complain(FNR, "sleeps: wait for a condition with WAIT_UNTIL")
}
END { file_end(); exit bad }
