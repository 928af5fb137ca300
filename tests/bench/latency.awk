# SPDX-License-Identifier: BSD-2-Clause
# The lines of the latency program, then the relay's own metrics, into a table and two differences.

/^series=/ {
    split($1, series, "=")
    split($2, pair, "=")
    printf "  %s: %.4f of the asked rate was reached\n", series[2], pair[2]
}

/^span=/ {
    split($1, span, "=")
    printf "  %-22s", span[2]
    for (i = 2; i < NF; i++) {
        split($i, pair, "=")
        value[span[2], pair[1]] = pair[2]
        printf "  %s %8.3f", pair[1], pair[2]
    }
    print ""
}

/^outbox_relay_insert_to_ack_seconds_bucket/ {
    match($0, /le="[^"]*"/)
    bound = substr($0, RSTART + 4, RLENGTH - 5)
    if (!(bound in count))
        bounds[++bounds_n] = bound
    count[bound] += $NF
}

function quantile(part,    i, wanted, below, low)
{
    wanted = part * count[bounds[bounds_n]]
    for (i = 1; i <= bounds_n; i++) {
        if (count[bounds[i]] >= wanted)
            return bounds[i] == "+Inf" ? low : low + (bounds[i] - low) * (wanted - below) / (count[bounds[i]] - below)
        below = count[bounds[i]]
        low = bounds[i] + 0
    }
}

function difference(what, from, to)
{
    printf "  %s: p50 %+.2f ms (limit +2), p99 %+.2f ms (limit +5)\n", what, value[from, "p50"] - value[to, "p50"],
        value[from, "p99"] - value[to, "p99"]
}

END {
    if (bounds_n > 0 && count[bounds[bounds_n]] > 0)
        printf "  %-22s  p50 %8.3f  %13s  p99 %8.3f  (the relay's histogram, the warm-up included)\n", "insert-to-ack", 1e3 * quantile(0.5), "",
            1e3 * quantile(0.99)
    difference("like with like, to the consumer", "commit-to-consumer", "produce-to-consumer")
    difference("row to the consumer, broker to its ack", "commit-to-consumer", "produce-to-ack")
    difference("the same, both from the scheduled instant", "scheduled-to-consumer", "scheduled-to-ack")
    if (void)
        print "  VOID: less than 0.99 of the asked rate was reached"
}
