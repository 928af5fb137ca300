# SPDX-License-Identifier: BSD-2-Clause
# awk -f tests/layers.awk relay/layers FILE...: print every #include that relay/layers does not allow.
function fits(name, glob) {
    gsub(/[.+]/, "\\\\&", glob)
    gsub(/\*/, ".*", glob)
    return name ~ "^" glob "$"
}
function in_list(name, list, globs, n, i) {
    n = split(list, globs, " ")
    for (i = 1; i <= n; i++)
        if (globs[i] != "<*>" ? fits(name, globs[i]) : name ~ /^</ && !in_list(name, library))
            return 1
    return 0
}
function refuse(why) {
    printf "%s:%d: %s may not include %s%s\n", FILENAME, FNR, FILENAME, header, why
    bad = 1
}
FILENAME == ARGV[1] {
    sub(/#.*/, "")
    if (NF > 0) {
        name = $1
        $1 = ""
        if (name == "library") library = $0
        else if (name == "public") public = $0
        else { who[++lines] = name; allowed[lines] = $0 }
    }
    next
}
FNR == 1 { for (line = 1; line <= lines && !fits(FILENAME, who[line]); line++) continue; files++ }
/^[ \t]*#[ \t]*include/ {
    header = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", header)
    sub(/[ \t]*(\/[*\/].*)?$/, "", header)
    gsub(/"/, "", header)
    if (line > lines) refuse(": no line of relay/layers is about it")
    else if (!in_list(header, allowed[line])) refuse("")
    else if (in_list(FILENAME, public) && in_list(header, library)) refuse(": it is a public header")
}
END { if (files == 0) { print "layers: no file was checked"; bad = 1 } exit bad }
