#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The scripted scenario on a real Kafka, and what each way makes of it. All ways see one topic and the same faults: copies for both of their
# workers at once, and kill -9 of all consumers: before they commit offsets, so that a bulk redelivery follows; anywhere; and between the two
# steps of each way. The client loses replies and tries again; the relay is killed three times. In the end drift is one SQL query for each ledger. Each expectation
# is one check; the last line is `N passed, N failed`.
#
#   make demo-table                    5 000 orders, all ways
#   make demo-table SEED=2             other copies, other clients
#   WAYS="none unique" ORDERS=1000 RATE=300 make demo-table
program=demo-table
cd "$(dirname "$0")/.." || exit 2
# shellcheck source=producer-demo/chain.sh
. producer-demo/chain.sh
orders=${ORDERS:-5000} rate=${RATE:-200} seed=${SEED:-1} commit_interval_ms=2000 batch=500
passed=0 failed=0

check() { # SENTENCE COMMAND...: one expectation
    local sentence=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        say "ok      $sentence"
    else
        failed=$((failed + 1))
        say "FAILED  $sentence"
    fi
}

shows() { [[ " ${ways[*]} " == *" $1 "* ]]; }

placed() { sql 'SELECT count(*) FROM shop.orders'; }

wait_for_orders() { # COUNT
    until [ "$(placed)" -ge "$1" ]; do
        running client || [ "$(placed)" -ge "$1" ] || die 'the client ended early' client
        sleep 0.1
    done
}

kill_relay() {
    stop KILL 1 relay
    say "$(grouped "$(placed)") orders: kill -9 of the relay; $(sql 'SELECT count(*) FROM outbox.event WHERE sent_at IS NULL') rows wait"
    relay_start
    relay_kills=$((relay_kills + 1))
}

kill_ways() { # POINT
    ways_die "$1"
    say "$(grouped "$(placed)") orders: kill -9 of all consumers at their point \"$1\""
    ways_start
}

# Entries of the seen-cache's ledger beyond the first of their event.
seen_cache_doubled() {
    shows seen-cache || { echo 0 && return; }
    sql "SELECT count(*) - count(DISTINCT event_id) FROM $(ledger seen-cache).entry"
}

# Ends in quiet, so that every ledger can be read with nothing on its way.
first_part() {
    client_start $((orders * 4 / 10)) "$rate" 1
    wait_for_orders $((orders * 2 / 10))
    kill_relay
    client_end
    catch_up 120 || die "the first part does not arrive: $behind" oracle relay $behind # names of logs
    before=$(shows seen-cache && drift seen-cache)
    say "all ways have the first $(grouped "$(placed)") orders; drift of seen-cache: $(money "${before:-0}")"
}

# All that was applied since the offsets were last committed comes again.
burst_part() {
    client_start $((orders * 4 / 10)) "$rate" 2
    wait_for_orders $((orders * 5 / 10))
    kill_relay
    wait_for_orders $((orders * 6 / 10))
    doubled_before=$(seen_cache_doubled) doubled_after=0
    kill_ways before-offsets
    shows seen-cache && wait_for 30 seen_cache_has_jumped
    client_end
}

# Each way dies between its two steps, in the second batch of a backlog, so with full hands. At-most-once loses more by it than it gains by
# all the relay's duplicates, which it does not know as such.
vulnerable_part() {
    ways_kill
    say "$(grouped "$(placed)") orders: kill -9 of all consumers, wherever they are"
    client_start $((orders - orders * 8 / 10)) "$rate" 3
    wait_for_orders $((orders * 9 / 10))
    kill_relay
    client_end
    wait_for 60 relay_is_done || die 'the relay does not publish all' relay
    ways_start_to_die between:2:kill
    say "$(grouped "$(placed)") orders: started again, kill -9 of all consumers at their point \"between\", in their second batch; started again"
    ways_start
    catch_up 120 || die "not everything arrives: $behind" oracle relay $behind
}

seen_cache_has_jumped() {
    doubled_after=$(seen_cache_doubled)
    [ "$doubled_after" -gt "$doubled_before" ]
}

expected_drift() { # WAY: what the seeds tell
    case $1 in
    unique | version | passthrough | kafka-to-kafka) echo 0 ;;
    redis-before | at-most-once) echo - ;; # keys without effects, offsets without effects: money is missing
    *) echo + ;;
    esac
}

drift_is() { # WAY SIGN
    case $2 in
    0) [ "${drifts[$1]}" = 0 ] ;;
    -) [ "${drifts[$1]}" -lt 0 ] ;;
    +) [ "${drifts[$1]}" -gt 0 ] ;;
    esac
}

check_ways() {
    local way sign
    local -A words=([0]='no drift' [+]='money that does not exist' [-]='money is missing')
    for way in "${ways[@]}"; do
        sign=$(expected_drift "$way")
        check "$way: ${words[$sign]}" drift_is "$way" "$sign"
    done
    for way in "${right_ways[@]}"; do
        shows "$way" && check "$way: applied = committed" way_is_whole "$way"
    done
    shows seen-cache || return
    check 'seen-cache: no drift in the first part, although there were copies' test "$before" = 0
    check 'seen-cache: still no event twice just before the restart' test "$doubled_before" = 0
    check "seen-cache: events twice just after it ($doubled_after)" test "$doubled_after" -gt 0
}

check_chain() {
    check "$(grouped "$orders") orders, each once, although the client lost replies" test "$(placed)" = "$orders"
    check "the service answered some of its retries from its memory ($(service_replays))" test "$(service_replays)" -gt 0
    check 'the relay was killed three times' test "$relay_kills" = 3
    check 'the relay kept its promises' "$build/oracle" relay "$database" "$kafka" "$topic"
}

printf 'outbox-relay demo-table, seed %s\n\n' "$seed"
relay_kills=0
chain_begin
postgres_start
if [ -n "${KAFKA:-}" ]; then kafka_use; else kafka_start; fi
redis_start
services_start
relay_start
ways_choose
ways_start
first_part
burst_part
vulnerable_part
printf '\n'
ways_table
printf '\n'
check_chain
check_ways
ended=yes
printf '\ntook %s s\n%s passed, %s failed\n' "$SECONDS" "$passed" "$failed"
[ "$failed" = 0 ]
