# SPDX-License-Identifier: BSD-2-Clause
# Lists the mutants of C files, one a line: FILE LINE KIND NUMBER; or, with -v line= -v kind= -v number=, prints the file with that one made.
# The files are as clang-format leaves them: operators have spaces around them, statements and conditions end with their line.
BEGIN {
    flips["=="] = "!="; flips["!="] = "=="; flips["<"] = "<="; flips["<="] = "<"; flips[">"] = ">="; flips[">="] = ">"
    flips["&&"] = "||"; flips["||"] = "&&"; flips["+"] = "-"; flips["-"] = "+"; flips["+="] = "-="; flips["-="] = "+="
    flips["true"] = "false"; flips["false"] = "true"; flips["1"] = "2"; flips["0"] = "1"
}
function found(kind, number) {
    if (line == "") print FILENAME, FNR, kind, number
    return line == FNR && kind == wanted_kind && number == wanted_number
}
# The text with its n-th token replaced, for each token that has a counterpart.
function flip(text, n, parts, i, out, token, tail, count, made) {
    count = split(text, parts, / /)
    made = ""
    for (i = 1; i <= count; i++) {
        token = parts[i]; tail = ""
        if (match(token, /[;,)]+$/)) { tail = substr(token, RSTART); token = substr(token, 1, RSTART - 1) }
        if (!(token in flips) || (token ~ /^[01]$/ && i > 1 && parts[i - 1] !~ /^(return|[-+<>=!]=?|==)$/)) continue
        if (found("flip", ++n)) { made = parts[i]; parts[i] = flips[token] tail; out = parts[1]
            for (k = 2; k <= count; k++) out = out " " parts[k]
            return out }
    }
    return text
}
FNR == 1 { in_function = 0; if (line != "") { wanted_kind = kind; wanted_number = number } }
/^{$/ { in_function = before !~ /digest/; print_it($0); next }
/^}/ { in_function = 0 }
function print_it(text) { if (line != "") print text }
{ before = $0 }
!in_function || /^#/ || /digest|prefetch|window_expect|assert\(/ || /^ *(\/\*| \*)/ || /^ *case / { print_it($0); next }
{
    text = $0
    # A condition that ends with its line, turned round.
    if (text ~ /^ *(} else )?(if|while) \(.*\)( {)?$/ && found("negate", 1)) {
        match(text, /(if|while) \(/); head = substr(text, 1, RSTART + RLENGTH - 2); rest = substr(text, RSTART + RLENGTH - 1)
        brace = sub(/ {$/, "", rest) ? " {" : ""
        text = head "(!" rest ")" brace
    }
    # A statement of one line, left out: an assignment, a call, a step. Not a declaration: those have two words before what they set.
    if (text ~ /^ +[*(]*[a-z_][A-Za-z0-9_>.()&*\[\]+ -]*( [-+|&]?= .*|\+\+|--|\(.*\));$/ && text !~ /^ *(return|const|struct|enum|bool|u?int[0-9]+_t|size_t|row_slot|static|unsigned|void) ?/ &&
        found("drop", 1)) text = "    ;"
    else if (text ~ /[a-z_>.)\]](\+\+|--)/ && found("count", 1)) { if (!sub(/\+\+/, "--", text)) sub(/--/, "++", text) }
    else text = flip(text, 0)
    print_it(text)
}
