#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A service under load, the relay, and a consumer, for some seconds; the relay is killed in the middle and started again. In the end
# everything is counted in PostgreSQL and in the topic. Exit status 0: committed = applied, nothing lost, order kept.
#
#   make demo                        an embedded broker (librdkafka's mock cluster)
#   make demo KAFKA=localhost:9092   a real one; the topic is removed afterwards
#   ROWS=200000 RATE=0 make demo     more rows; as fast as it goes
set -u
cd "$(dirname "$0")/.." || exit 2
build=${BUILD:-build/release} rows=${ROWS:-52000} rate=${RATE:-8000} topic=orders
unset "${!OUTBOX_RELAY_@}" # settings meant for another relay
folder='' postgres='' broker='' relay='' load='' consumer='' ended=''

say() { printf '  %s\n' "$*"; }
die() {
    printf 'demo: %s\n' "$1" >&2
    for log in "${@:2}"; do [ -f "$folder/$log" ] && sed "s/^/    $log: /" "$folder/$log" | tail -n 15 >&2; done
    exit 2
}
grouped() { printf '%s' "$1" | sed -e ':a' -e 's/\B[0-9]\{3\}\>/ &/' -e 'ta'; }

# Everything started here dies with this script, whatever ends it; Ctrl-C reaches the script alone.
start() { # LOG COMMAND...: in the background; its number is in $!
    local log=$1
    shift
    setsid setpriv --pdeathsig KILL "$@" >>"$folder/$log" 2>&1 </dev/null &
}

stop() { # SIGNAL SECONDS PID: returns its exit status
    kill "-$1" "$3" 2>/dev/null
    for ((i = 0; i < $2 * 20; i++)); do
        kill -0 "$3" 2>/dev/null || break
        sleep 0.05
    done
    kill -KILL "$3" 2>/dev/null
    wait "$3" 2>/dev/null
}

clean_up() {
    trap '' INT TERM HUP
    for pid in $relay $load $consumer; do stop KILL 5 "$pid"; done
    [ -n "${KAFKA:-}" ] && [ "$topic" != orders ] && "$build/oracle" topic "$KAFKA" "$topic" 0 2>/dev/null
    exec 3>&-
    [ -n "$broker" ] && stop TERM 5 "$broker"
    [ -n "$postgres" ] && stop INT 10 "$postgres"
    [ -n "$folder" ] && rm -rf "$folder"
    [ -n "$ended" ] || printf '\ndemo: ended early; everything is cleaned up\n' >&2
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

wait_for() { # SECONDS COMMAND...
    local until=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || return 1
        sleep 0.05
    done
}

free_port() {
    local port
    for ((i = 0; i < 200; i++)); do
        port=$((20000 + RANDOM % 10000))
        (exec 4<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

# --- services -----------------------------------------------------------------------------------------------------------

start_postgres() {
    local bin port as=()
    bin=$(find /usr/lib/postgresql/*/bin -maxdepth 1 -name initdb 2>/dev/null | sort -V | tail -n 1)
    bin=$(dirname "${bin:-$(command -v initdb)}")
    [ -x "$bin/initdb" ] || die 'there is no PostgreSQL server on this machine; `make deps` installs one'
    # The server refuses to run as root.
    if [ "$(id -u)" = 0 ]; then
        as=(setpriv --reuid=postgres --regid=postgres --init-groups)
        chown postgres "$folder"
    fi
    (cd / && "${as[@]}" "$bin/initdb" -D "$folder/data" -U demo -A trust -E UTF8 --no-locale --no-sync) >"$folder/initdb.log" 2>&1 ||
        die 'PostgreSQL cannot be set up' initdb.log
    port=$(free_port)
    start postgres.log "${as[@]}" "$bin/postgres" -D "$folder/data" -k "$folder" -p "$port" -c listen_addresses= -c shared_buffers=256MB \
        -c max_wal_size=2GB
    postgres=$!
    database="host=$folder port=$port user=demo dbname=postgres"
    wait_for 30 psql -qXAt "$database" -c 'SELECT 1' || die 'PostgreSQL does not start' postgres.log
    say "PostgreSQL $(psql -qXAt "$database" -c 'SHOW server_version' | cut -d' ' -f1), temporary, in $folder"
}

start_broker() {
    if [ -n "${KAFKA:-}" ]; then
        kafka=$KAFKA topic=outbox-relay-demo-$$
        "$build/oracle" topic "$kafka" "$topic" 12 || die "the topic $topic cannot be created on $kafka"
        say "Kafka at $kafka, topic $topic with 12 partitions"
        return
    fi
    mkfifo "$folder/commands"
    exec 3<>"$folder/commands" # its input; both ends, so that opening does not wait
    setsid setpriv --pdeathsig KILL "$build/mock-cluster" 1 <"$folder/commands" >"$folder/broker.log" 2>&1 &
    broker=$!
    wait_for 10 grep -q '^ok [^ ]*:' "$folder/broker.log" || die 'the embedded broker does not start' broker.log
    kafka=$(sed -n 's/^ok \([^ ]*:[0-9,:.a-z]*\).*/\1/p' "$folder/broker.log" | head -n 1)
    echo "topic $topic 12" >&3
    wait_for 10 grep -q '^ok *$' "$folder/broker.log" || die 'the embedded broker does not create the topic' broker.log
    say "embedded broker at $kafka (librdkafka's mock cluster), topic $topic with 12 partitions"
}

start_relay() {
    start relay.log "$build/outbox-relay" run --database "$database" --kafka.bootstrap.servers "$kafka" --lease-ttl-ms 2000 \
        --listen "127.0.0.1:$relay_port"
    relay=$!
}

# --- the demo -----------------------------------------------------------------------------------------------------------

counts() { # sets committed, records, marked, applied
    read -r committed records marked applied < <("$build/oracle" counts "$database" "$kafka" "$topic" 2>>"$folder/oracle.log") ||
        die 'nothing can be counted' oracle.log postgres.log
}

live_line() {
    printf '  %5s %12s %12s %12s %12s   %s\n' "$1" "$(grouped "$committed")" "$(grouped "$records")" "$(grouped "$marked")" \
        "$(grouped "$applied")" "${2:-}"
}

kill_relay() {
    kill -KILL "$relay"
    wait "$relay" 2>/dev/null
    counts
    live_line '' "<- kill -9 of the relay; $(grouped $((committed - marked))) rows wait; started again"
    start_relay
    killed=yes
}

watch() {
    local begin=$SECONDS load_ended='' killed=''
    printf '\n  %5s %12s %12s %12s %12s\n' '' committed published marked applied
    while sleep 1; do
        counts
        live_line "$((SECONDS - begin)) s"
        kill -0 "$relay" 2>/dev/null || die 'the relay ended by itself' relay.log
        kill -0 "$consumer" 2>/dev/null || die 'the consumer ended by itself' consumer.log
        [ -z "$killed" ] && [ "$committed" -ge $((rows / 2)) ] && kill_relay
        if [ -z "$load_ended" ] && ! kill -0 "$load" 2>/dev/null; then
            wait "$load" || die 'the load failed' load.log
            load='' load_ended=$SECONDS
            counts
        fi
        [ -n "$load_ended" ] || continue
        [ "$marked" = "$committed" ] && [ "$applied" = "$committed" ] && break
        [ $((SECONDS - load_ended)) -lt 60 ] || { say 'given up: for 60 s after the load not everything arrived' && break; }
    done
    [ -n "$killed" ] || die 'the load ended before the relay could be killed'
}

finish() {
    local relay_status status
    stop TERM 15 "$relay"
    relay_status=$? relay=''
    stop TERM 8 "$consumer"
    consumer=''
    "$build/oracle" judge "$database" "$kafka" "$topic"
    status=$?
    say "the load says:     $(tail -n 1 "$folder/load.log")"
    say "the consumer says: $(tail -n 1 "$folder/consumer.log")"
    ended=yes
    [ "$relay_status" = 0 ] || { say "the relay's orderly stop had exit status $relay_status" && tail -n 5 "$folder/relay.log" && exit 1; }
    exit "$status"
}

for program in outbox-relay order-load order-consumer oracle mock-cluster; do
    [ -x "$build/$program" ] || die "$build/$program is not there; run make demo"
done
command -v psql >/dev/null || die 'psql is not there; `make deps` installs it'
folder=$(mktemp -d /tmp/outbox-demo.XXXXXX) || exit 2 # not TMPDIR: the path of a socket must be short
chmod 755 "$folder"
printf 'outbox-relay demo\n\n'
start_postgres
"$build/outbox-relay" migrate --database "$database" >"$folder/migrate.log" 2>&1 || die 'the schema cannot be created' migrate.log
psql -qX -v ON_ERROR_STOP=1 "$database" -f producer-demo/schema.sql >"$folder/schema.log" 2>&1 || die 'the demo schema cannot be created' schema.log
start_broker
relay_port=$(free_port)
start_relay
start consumer.log "$build/order-consumer" --database "$database" --kafka "$kafka" --topics "$topic"
consumer=$!
start load.log "$build/order-load" --database "$database" --topics "$topic" --writers 8 --total "$rows" --rate "$rate"
load=$!
say "8 writers, $(grouped "$rows") rows, 6 % of the transactions rolled back"
watch
finish
