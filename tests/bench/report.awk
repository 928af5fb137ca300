# SPDX-License-Identifier: BSD-2-Clause
# Lines of name=value pairs, one a run, into a table of medians and ranges, and ratios. With -v line=1: one short line a run.

function median(name, figure,    n, i, j, t, sorted)
{
    n = runs[name]
    for (i = 1; i <= n; i++)
        sorted[i] = value[name, figure, i]
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && sorted[j] < sorted[j - 1]; j--) {
            t = sorted[j]
            sorted[j] = sorted[j - 1]
            sorted[j - 1] = t
        }
    least = sorted[1]
    most = sorted[n]
    return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}

function ratio(a, b, figure,    below)
{
    below = median(b, figure)
    return below > 0 ? median(a, figure) / below : 0
}

{
    for (i = 1; i <= NF; i++) {
        split($i, pair, "=")
        v[pair[1]] = pair[2]
    }
    name = v["name"]
    if (!(name in runs))
        names[++names_n] = name
    run = ++runs[name]
    started_s = (v["first_ms"] - v["started_ms"]) / 1e3
    value[name, "rate", run] = v["rows"] / v["wall_s"]
    value[name, "rate_running", run] = v["rows"] / (v["wall_s"] - started_s)
    value[name, "start", run] = started_s
    value[name, "tail", run] = (v["ended_ms"] - v["last_ms"]) / 1e3
    value[name, "cpu", run] = v["cpu_s"] * 1e6 / v["rows"]
    value[name, "postgres", run] = v["postgres_s"] * 1e6 / v["rows"]
    value[name, "broker", run] = v["broker_s"] * 1e6 / v["rows"]
    value[name, "rss", run] = v["rss_kb"] / 1024
    value[name, "wal", run] = v["wal_bytes"] / v["rows"]
    value[name, "unaccounted", run] = v["unaccounted"] + 0
    value[name, "duplicates", run] = v["duplicates"] + 0
    if (line)
        printf "  %d %-14s %8.1f k/s (running %8.1f; start %.2f s, tail %.2f s)  CPU s/M: %.2f, PostgreSQL %.2f, broker %.2f  " \
            "RSS %.0f MB  WAL %.0f B/row  unaccounted %.1f %%  duplicates %d\n", v["rep"], name, value[name, "rate", 1] / 1e3,
            value[name, "rate_running", 1] / 1e3, started_s, value[name, "tail", 1], value[name, "cpu", 1], value[name, "postgres", 1],
            value[name, "broker", 1], value[name, "rss", 1], value[name, "wal", 1], v["unaccounted"], v["duplicates"]
}

END {
    if (line)
        exit
    printf "\n%-14s %4s  %-32s %-32s %8s %10s %8s %8s %7s %11s\n", "median", "runs", "rows/s, k [range]", "without start-up, k [range]",
        "CPU s/M", "PostgreSQL", "broker", "RSS MB", "WAL B", "unaccounted"
    for (i = 1; i <= names_n; i++) {
        name = names[i]
        rate = sprintf("%.1f", median(name, "rate") / 1e3)
        rate = rate sprintf(" [%.1f - %.1f]", least / 1e3, most / 1e3)
        running = sprintf("%.1f", median(name, "rate_running") / 1e3)
        running = running sprintf(" [%.1f - %.1f]", least / 1e3, most / 1e3)
        median(name, "rss")
        peak = most
        median(name, "unaccounted")
        worst = most
        printf "%-14s %4d  %-32s %-32s %8.2f %10.2f %8.2f %8.0f %7.0f %9.1f %%\n", name, runs[name], rate, running, median(name, "cpu"),
            median(name, "postgres"), median(name, "broker"), peak, median(name, "wal"), worst
    }
    printf "\n%-32s %10s %18s %10s\n", "ratio of medians", "rows/s", "without start-up", "CPU"
    for (i = 1; i <= names_n; i++)
        for (j = 1; j <= names_n; j++)
            if (i != j && (names[i] == "relay" || (names[i] ~ /^textbook/ && names[j] ~ /^contender/)))
                printf "%-32s %10.2f %18.2f %10.2f\n", names[i] " / " names[j], ratio(names[i], names[j], "rate"),
                    ratio(names[i], names[j], "rate_running"), ratio(names[i], names[j], "cpu")
    print ""
}
