#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The whole chain for half a minute: a client that loses replies and tries again, the order service, the outbox, the relay, a broker, and a
# payment consumer for each way to deal with duplicates. The relay is killed in the middle, and all consumers once. In the end every ledger
# is compared with the orders. Exit status 0: the relay kept its promises, the ways that are right have no drift, and no intent became two
# orders.
#
# In a terminal there is no scenario: the chain goes on until Ctrl-C, and whoever opens the page whose address is printed breaks it there.
#
#   make demo                          an embedded broker (librdkafka's mock cluster): two ways cannot be shown
#   make demo REAL=1                   a real one of its own (Java): all ways
#   make demo KAFKA=localhost:9092     one that runs already; the topic is removed afterwards
#   make demo STAY=no                  the scenario, in a terminal as well; STAY=yes: the page, without one; PAGE_PORT=8000: where
#   make demo WAYS="none unique"       only these; also ORDERS=5000 RATE=300
#   make demo CLIENT=--bad-client      more flags of the client, or of the card processor: CARD=--ignore-keys. Both break something.
program=demo
cd "$(dirname "$0")/.." || exit 2
# shellcheck source=producer-demo/chain.sh
. producer-demo/chain.sh
# shellcheck source=producer-demo/stage.sh
. producer-demo/stage.sh
orders=${ORDERS:-1800} rate=${RATE:-120}

# Up to three ways whose drift is shown while it grows; some have no entries to count.
watched() {
    local way
    for way in ${WAYS:-none seen-cache unique}; do
        case $way in version | passthrough | kafka-to-kafka) continue ;; esac
        running "$way" && printf '%s\n' "$way"
    done | head -n 3
}

live_head() {
    local way
    printf '\n  %5s %8s %10s %10s' '' orders committed published
    [ -z "${watched[*]}" ] || printf '   %s' 'money that does not exist, by way:'
    for way in "${watched[@]}"; do printf ' %12s' "$way"; done
    printf '\n'
}

# What was added a second time; the drift of a ledger that is still behind would say less.
doubled() { # WAY
    echo "(SELECT coalesce(sum(again), 0) FROM (SELECT (count(*) - 1) * min(delta_cents) AS again FROM $(ledger "$1").entry GROUP BY event_id) e)"
}

live_line() { # TIME REMARK
    local way query='SELECT (SELECT count(*) FROM shop.orders), (SELECT count(*) FROM outbox.event),
        (SELECT count(*) FROM outbox.event WHERE sent_at IS NOT NULL)' numbers number
    for way in "${watched[@]}"; do query+=", $(doubled "$way")"; done
    IFS='|' read -r -a numbers < <(sql "$query")
    placed=${numbers[0]}
    printf '  %5s %8s %10s %10s' "$1" "$(grouped "$placed")" "$(grouped "${numbers[1]}")" "$(grouped "${numbers[2]}")"
    if [ -n "${2:-}" ]; then
        printf '   %s\n' "${2//COUNT/$(grouped $((numbers[1] - numbers[2])))}"
        return
    fi
    [ -z "${watched[*]}" ] || printf '   %34s' ''
    for number in "${numbers[@]:3}"; do printf ' %12s' "$(money "$number")"; done
    printf '\n'
}

kill_relay() {
    stop KILL 1 relay
    live_line '' '<- kill -9 of the relay; COUNT rows wait; started again'
    relay_start
    relay_killed=yes
}

kill_ways() {
    ways_die between
    live_line '' '<- kill -9 of all consumers, each in the middle of its work; started again: a bulk redelivery'
    ways_start
    ways_killed=yes
}

watch() {
    local begin=$SECONDS name relay_killed='' ways_killed=''
    mapfile -t watched < <(watched)
    live_head
    while sleep 1; do
        live_line "$((SECONDS - begin)) s"
        stage_tell
        for name in relay service card "${ways[@]}"; do running "$name" || die "$name ended by itself" "$name"; done
        [ -z "$relay_killed" ] && [ "$placed" -ge $((orders / 4)) ] && kill_relay
        [ -z "$ways_killed" ] && [ "$placed" -ge $((orders / 2)) ] && kill_ways
        running client || break
    done
    client_end
    [ -n "$relay_killed" ] && [ -n "$ways_killed" ] || die 'the client ended before all could be killed; give it more ORDERS or a lower RATE' client
    catch_up 60 || say "given up: for 60 s after the client not everything arrived${behind:+: $(tr '\n' ' ' <<<"$behind")}"
    live_line "$((SECONDS - begin)) s"
}

# The client gives each intent a name of its own, which the service only keeps.
each_intent_is_one_order() {
    local intents placed
    IFS='|' read -r intents placed < <(sql 'SELECT count(DISTINCT reference), count(*) FROM shop.orders')
    [ "$intents" != "$placed" ] || return 0
    say "WRONG: the client meant $(grouped "$intents") orders, and $(grouped "$placed") were placed and paid: it has made new keys for old intents"
    return 1
}

finish() {
    local status=0
    printf '\n'
    ways_table
    printf '\n'
    "$build/oracle" relay "$database" "$kafka" "$topic" || status=1
    printf '\n'
    right_ways_are_right || status=1
    each_intent_is_one_order || status=1
    stop TERM 15 relay || { say "the relay's orderly stop had exit status $?" && status=1; }
    ended=yes
    exit "$status"
}

# For a person at the page, until Ctrl-C.
stay() {
    rate=${RATE:-25}
    relay_start relay-2
    stage_client
    stage_begin
    say 'Ctrl-C ends everything'
    ended=yes
    stage_keep
}

printf 'outbox-relay demo\n\n'
if [ -n "${KAFKA:-}${REAL:-}" ]; then chain_begin panel; else chain_begin panel mock-cluster; fi
postgres_start
if [ -n "${KAFKA:-}" ]; then kafka_use; elif [ -n "${REAL:-}" ]; then kafka_start; else broker_start; fi
redis_start
services_start
relay_start
ways_choose
ways_start
[ -z "${STAY:-}" ] && [ -t 1 ] && STAY=yes
[ "${STAY:-no}" = no ] || stay
client_start "$orders" "$rate"
stage_begin
watch
finish
