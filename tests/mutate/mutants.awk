# SPDX-License-Identifier: BSD-2-Clause
# Lists the mutants of C files, one a line of fields between tabs: FILE LINE NUMBER FUNCTION KIND OLD NEW BEFORE, where KIND is `equal` if
# what it changes can be seen to change nothing, and BEFORE is the line before. With -v line= -v number=, prints the file with that one made.
# The files are as clang-format leaves them: operators have spaces around them, statements and conditions end with their line.
BEGIN {
    flips["=="] = "!="; flips["!="] = "=="; flips["<"] = "<="; flips["<="] = "<"; flips[">"] = ">="; flips[">="] = ">"
    flips["&&"] = "||"; flips["||"] = "&&"; flips["+"] = "-"; flips["-"] = "+"; flips["+="] = "-="; flips["-="] = "+="
    flips["true"] = "false"; flips["false"] = "true"; flips["1"] = "2"; flips["0"] = "1"
}
FNR == 1 && NR > 1 { file_end() }
FNR == 1 { file = FILENAME; lines_n = 0 }
{ lines[++lines_n] = $0 }
END { file_end() }

function file_end(i) {
    in_function = in_assert = unreal = 0
    for (i = 1; i <= lines_n; i++) {
        if (!is_mutable(i)) { if (line != "") print lines[i]; continue }
        variants_n = 0
        line_mutate(i)
        if (line == "") variants_print(i)
        else print line == i ? variants[number] : lines[i]
    }
}

# Code of functions that do more than look nice: not digests, asserts, hints to the processor, and what only the simulator's mutants have.
function is_mutable(i, text) {
    text = lines[i]
    if (text ~ /^#ifdef MUTANT_/) unreal = 1
    if (text ~ /^#(else|endif)/) unreal = 0
    if (text == "{") { in_function = function_name !~ /digest/; return 0 }
    if (text ~ /^}/) in_function = 0
    if (!in_function && text ~ /^[a-z].*\(/ && match(text, /[a-z_0-9]+\(/)) function_name = substr(text, RSTART, RLENGTH - 1)
    if (text ~ /assert\(/) in_assert = 1
    if (in_assert) { if (text ~ /;$/) in_assert = 0; return 0 }
    return in_function && !unreal && text !~ /^#/ && text !~ /digest|prefetch|_expect\(|later_slot/ && text !~ /^ *(\/\*| \*)/ && text !~ /^ *case /
}

function add(kind, text) { kinds[++variants_n] = kind; variants[variants_n] = text }

function variants_print(i, n, new) {
    for (n = 1; n <= variants_n; n++)
        print file "\t" i "\t" n "\t" function_name "\t" kinds[n] "\t" trimmed(lines[i]) "\t" trimmed(variants[n]) "\t" (lines[i - 1] ~ /^ *$/ ? "." : trimmed(lines[i - 1]))
}
function trimmed(text) { gsub(/^ +| +$/, "", text); return text }

function line_mutate(i, text, head, rest, brace) {
    text = lines[i]
    # A condition that ends with its line, turned round.
    if (text ~ /^ *(} else )?(if|while) \(.*\)( {)?$/) {
        match(text, /(if|while) \(/); head = substr(text, 1, RSTART + RLENGTH - 2); rest = substr(text, RSTART + RLENGTH - 1)
        brace = sub(/ {$/, "", rest) ? " {" : ""
        add("negate", head "(!" rest ")" brace)
    }
    # A statement of one line, left out: an assignment, a call, a step. Not a declaration: those have two words before what they set.
    if (text ~ /^ +[*(]*[a-z_][A-Za-z0-9_>.()&*\[\]+ -]*( [-+|&]?= .*|\+\+|--|\(.*\));$/ && text !~ /^ *(return|const|struct|enum|bool|u?int[0-9]+_t|size_t|row_slot|static|unsigned|void) ?/)
        add("drop", "    ;")
    if (text ~ /[a-z_>.)\]](\+\+|--)/) { rest = text; if (!sub(/\+\+/, "--", rest)) sub(/--/, "++", rest); add("count", rest) }
    tokens_flip(i, text)
}

# The text with a token replaced, for each token that has a counterpart.
function tokens_flip(i, text, parts, count, at, token, tail, out, k) {
    count = split(text, parts, / /)
    for (at = 1; at <= count; at++) {
        token = parts[at]; tail = ""
        if (token ~ /^\/\*/) break
        if (match(token, /[;,)]+$/)) { tail = substr(token, RSTART); token = substr(token, 1, RSTART - 1) }
        if (!(token in flips) || (token ~ /^[01]$/ && at > 1 && parts[at - 1] !~ /^(return|[-+<>=!]=?|==)$/)) continue
        out = parts[1]
        if (at == 1) out = flips[token] tail
        for (k = 2; k <= count; k++) out = out " " (k == at ? flips[token] tail : parts[k])
        add(token ~ /^[<>]=?$/ && keeps_one_of(i, text, parts, count, at) ? "equal" : "flip", out)
    }
}

# The earlier or later, smaller or larger of two is kept, `a < b ? a : b` or `if (... a < b)` before `b = a;`: of equals it may be either.
function keeps_one_of(i, text, parts, count, at, a, b, yes, no) {
    a = parts[at - 1]; b = parts[at + 1]
    if (!sub(/^.*\(/, "", a) && at > 2 && parts[at - 2] ~ /^([-+*\/%^&|]|<<|>>)$/) return 0
    if (parts[at + 2] == "?") {
        yes = parts[at + 3]; no = parts[at + 5]
        if (parts[at + 4] != ":" || no !~ /[;,)}]$/ || yes != a && yes != b) return 0
        sub(/[;,}]+$/, "", no)
        while (no != (yes == a ? b : a) && sub(/\)$/, "", no)) continue
        return no == (yes == a ? b : a)
    }
    if (text !~ /^ *(if|while) \(.*\)$/ || at + 1 < count) return 0
    sub(/\)+$/, "", b)
    return trimmed(lines[i + 1]) == b " = " a ";" || trimmed(lines[i + 1]) == a " = " b ";"
}
