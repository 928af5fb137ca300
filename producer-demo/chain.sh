# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# What demo.sh and demo_table.sh share, to be sourced by bash: the chain of services, each a process that dies with the script, and the
# questions that are asked about it. All files lie in one temporary folder; everything listens on 127.0.0.1 only.
#
#   order-client -> order-service -> PostgreSQL (outbox) -> outbox-relay -> Kafka -> one payment-consumer a way -> its ledger
#                        |                                                             |
#                        '-------------------> card-processor <------------------------'
set -u
exec 4>&2 # for what must be said where bash must not: it reports each child that died of a signal, and here they do on purpose
build=${BUILD:-build/release}
unset "${!OUTBOX_RELAY_@}" # settings meant for another relay
declare -A pids=() ports=() commands=() # by name of the process
folder='' kafka='' topic=orders database='' redis='' ended=''
partitions=12

right_ways=(unique version passthrough kafka-to-kafka)
# What a way needs beside PostgreSQL and any broker.
declare -A needs=([redis-before]=redis [redis-after]=redis [kafka-eos]=kafka [kafka-to-kafka]=kafka)

say() { printf '  %s\n' "$*"; }

die() { # SENTENCE LOG...: status 2; shows the ends of the logs
    printf '%s: %s\n' "$program" "$1" >&4
    for log in "${@:2}"; do [ -f "$folder/$log.log" ] && sed "s/^/    $log: /" "$folder/$log.log" | tail -n 15 >&4; done
    exit 2
}

grouped() { printf '%s' "$1" | sed -e ':a' -e 's/\B[0-9]\{3\}\>/ &/' -e 'ta'; }

money() { # CENTS, with its sign unless it is zero
    local cents=${1#-} sign=+
    [ "$1" = "$cents" ] || sign=-
    [ "$1" = 0 ] && sign=''
    printf '%s%s.%02d' "$sign" "$(grouped $((cents / 100)))" $((cents % 100))
}

# --- processes ----------------------------------------------------------------------------------------------------------

# Everything started here dies with the script, whatever ends it; Ctrl-C reaches the script alone, which then cleans up.
start() { # NAME COMMAND...: in the background, with its log in NAME.log
    local name=$1
    shift
    setsid setpriv --pdeathsig KILL "$@" >>"$folder/$name.log" 2>&1 </dev/null &
    pids[$name]=$!
    commands[$name]=${*@Q}
}

start_again() { eval "start $1 ${commands[$1]}"; } # NAME: as it was started before

running() { [ -n "${pids[$1]:-}" ] && kill -0 "${pids[$1]}" 2>/dev/null; }

stop() { # SIGNAL SECONDS NAME: waits, and kills what is still there then; returns its exit status
    local pid=${pids[$3]:-} tries
    [ -n "$pid" ] || return 0
    kill "-$1" "$pid" 2>/dev/null
    for ((tries = 0; tries < $2 * 20; tries++)); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    kill -KILL "$pid" 2>/dev/null
    unset "pids[$3]"
    wait "$pid"
} 2>/dev/null

clean_up() {
    trap '' INT TERM HUP
    local name
    exec 2>/dev/null 3>&-
    for name in "${!pids[@]}"; do
        case $name in postgres | kafka | broker) ;; *) kill -KILL "${pids[$name]}" ;; esac
    done
    [ -n "${pids[postgres]:-}" ] && kill -QUIT "${pids[postgres]}" # at once: nobody will read its files again
    for name in kafka broker; do [ -n "${pids[$name]:-}" ] && kill -KILL "${pids[$name]}"; done
    [ -n "${KAFKA:-}" ] && [ "$topic" != orders ] && "$build/oracle" topic "$KAFKA" "$topic" 0
    for name in "${!pids[@]}"; do stop TERM 10 "$name"; done
    if [ -n "${KEEP:-}" ]; then
        printf '%s: what it left is in %s\n' "$program" "$folder"
    else
        [ -n "$folder" ] && rm -rf "$folder"
    fi
    [ -n "$ended" ] || printf '\n%s: ended early; everything is cleaned up\n' "$program"
}

wait_for() { # SECONDS COMMAND...: until it succeeds
    local until=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || return 1
        sleep 0.05
    done
}

free_port() { # one that nobody listens on and that was not given before
    local port
    while :; do
        port=$((20000 + RANDOM % 10000))
        [[ " ${ports[*]} " == *" $port "* ]] && continue
        (exec 5<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

ask() { curl -sS -m 5 "$@"; } # over HTTP

# sql STATEMENT...: rows as lines, columns separated by |
sql() { psql -qXAt -v ON_ERROR_STOP=1 "$database" "${@/#/-c}"; }

chain_begin() { # PROGRAM...: what must be there
    local name
    for name in outbox-relay order-service card-processor order-client payment-consumer oracle "$@"; do
        [ -x "$build/$name" ] || die "$build/$name is not there; run make"
    done
    for name in psql curl; do command -v "$name" >/dev/null || die "$name is not there; \`make deps\` installs it"; done
    folder=$(mktemp -d /tmp/outbox-demo.XXXXXX) || exit 2 # not TMPDIR: the path of a socket must be short
    chmod 755 "$folder"
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

# --- services -----------------------------------------------------------------------------------------------------------

postgres_start() {
    local bin port as=()
    bin=$(find /usr/lib/postgresql/*/bin -maxdepth 1 -name initdb 2>/dev/null | sort -V | tail -n 1)
    bin=$(dirname "${bin:-$(command -v initdb)}")
    [ -x "$bin/initdb" ] || die 'there is no PostgreSQL server on this machine; `make deps` installs one'
    # The server refuses to run as root.
    if [ "$(id -u)" = 0 ]; then
        as=(setpriv --reuid=postgres --regid=postgres --init-groups --pdeathsig KILL)
        mkdir "$folder/postgres"
        chown postgres "$folder/postgres"
    else
        mkdir "$folder/postgres"
    fi
    (cd / && "${as[@]}" "$bin/initdb" -D "$folder/postgres/data" -U demo -A trust -E UTF8 --no-locale --no-sync) >"$folder/initdb.log" 2>&1 ||
        die 'PostgreSQL cannot be set up' initdb
    port=$(free_port)
    # One for each worker of each way, and the services'.
    start postgres "${as[@]}" "$bin/postgres" -D "$folder/postgres/data" -k "$folder/postgres" -p "$port" -c listen_addresses= \
        -c shared_buffers=256MB -c max_wal_size=2GB -c max_connections=200
    database="host=$folder/postgres port=$port user=demo dbname=postgres"
    wait_for 60 sql 'SELECT 1' || die 'PostgreSQL does not start' postgres
    say "PostgreSQL $(sql 'SHOW server_version' | cut -d' ' -f1), temporary, in $folder"
    "$build/outbox-relay" migrate --database "$database" >"$folder/migrate.log" 2>&1 || die 'the outbox cannot be created' migrate
}

# Without Java: librdkafka's mock cluster, which knows groups and no real transactions.
broker_start() {
    mkfifo "$folder/commands"
    exec 3<>"$folder/commands" # its input; both ends, so that opening does not wait
    setsid setpriv --pdeathsig KILL "$build/mock-cluster" 1 <"$folder/commands" >"$folder/broker.log" 2>&1 &
    pids[broker]=$!
    wait_for 10 grep -q '^ok [^ ]*:' "$folder/broker.log" || die 'the embedded broker does not start' broker
    kafka=$(sed -n 's/^ok \([^ ]*:[0-9,:.a-z]*\).*/\1/p' "$folder/broker.log" | head -n 1)
    echo "topic $topic $partitions" >&3
    wait_for 10 grep -q '^ok *$' "$folder/broker.log" || die 'the embedded broker does not create the topic' broker
    say "embedded broker at $kafka (librdkafka's mock cluster), topic $topic with $partitions partitions"
}

# A real one, of one node, from the jars that `make deps` fetched.
kafka_start() {
    local version jars port control
    version=$(sed -n '/kafka_2.13/,/version/s/ *<version>\(.*\)<\/version>/\1/p' tests/lib/kafka/pom.xml)
    jars=${TEST_KAFKA_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/outbox-relay/kafka-$version}
    { [ -d "$jars" ] && command -v java >/dev/null; } || die "there is no Kafka in $jars, or no Java; \`make deps\` installs both"
    port=$(free_port) ports[kafka]=$port
    control=$(free_port) ports[controller]=$control
    kafka=127.0.0.1:$port
    mkdir -p "$folder/kafka"
    { # The later line of a name wins.
        cat tests/lib/kafka/server.properties
        printf '%s\n' "controller.quorum.voters=1@127.0.0.1:$control" "log.dirs=$folder/kafka" \
            "listeners=PLAINTEXT://$kafka,CONTROLLER://127.0.0.1:$control" "advertised.listeners=PLAINTEXT://$kafka"
    } >"$folder/server.properties"
    printf '%s\n' version=1 cluster.id=outboxRelayDemo0000001 node.id=1 directory.id=outboxRelayFolder1AAAA >"$folder/kafka/meta.properties"
    start kafka java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -cp "$jars/*" kafka.Kafka "$folder/server.properties"
    wait_for 120 "$build/oracle" topic "$kafka" "$topic" "$partitions" || die 'Kafka does not start' kafka
    say "Kafka $version at $kafka, topic $topic with $partitions partitions"
}

kafka_use() { # one that runs already
    kafka=$KAFKA topic=outbox-relay-demo-$$
    "$build/oracle" topic "$kafka" "$topic" "$partitions" || die "the topic $topic cannot be created on $kafka"
    say "Kafka at $kafka, topic $topic with $partitions partitions"
}

redis_start() { # false: there is no Redis on this machine
    command -v redis-server >/dev/null || return 1
    ports[redis]=$(free_port)
    redis=127.0.0.1:${ports[redis]}
    start redis redis-server --bind 127.0.0.1 --port "${ports[redis]}" --save '' --appendonly no --dir "$folder"
    wait_for 20 grep -q 'Ready to accept connections' "$folder/redis.log" || die 'Redis does not start' redis
    say "Redis at $redis"
}

# Few duplicates for a kill where they would drown what else there is to see: at-most-once, which knows no ids, gains by the relay's copies
# what it loses by its own fault.
relay_start() { # [NAME]
    local name=${1:-relay}
    [ -n "${ports[$name]:-}" ] || ports[$name]=$(free_port)
    start "$name" "$build/outbox-relay" run --database "$database" --kafka.bootstrap.servers "$kafka" --lease-ttl-ms 2000 \
        --listen "127.0.0.1:${ports[$name]}" ${pids[broker]:+--fetch-rows 60 --window-rows 60}
}

listens() { ask "http://127.0.0.1:${ports[$1]}/healthz"; }

# CARD and CLIENT: more flags, such as --ignore-keys and --bad-client.
card_start() {
    [ -n "${ports[card]:-}" ] || ports[card]=$(free_port)
    start card "$build/card-processor" --listen "127.0.0.1:${ports[card]}" --database "$database" ${CARD:-}
}

service_start() {
    [ -n "${ports[service]:-}" ] || ports[service]=$(free_port)
    start service "$build/order-service" --listen "127.0.0.1:${ports[service]}" --database "$database" --topic "$topic" \
        --card-url "http://127.0.0.1:${ports[card]}" --migrate
}

services_start() {
    card_start
    wait_for 30 listens card || die 'card-processor does not start' card
    service_start
    wait_for 30 listens service || die 'order-service does not start' service
    say "order-service at http://127.0.0.1:${ports[service]}, card-processor at http://127.0.0.1:${ports[card]}"
}

# --- the ways -----------------------------------------------------------------------------------------------------------

ledger() { echo "ledger_${1//-/_}"; }

way_start() { # WAY [FAULT]
    local more=()
    [ -n "${2:-}" ] && more=(--fault "$2")
    # An outbox of a day and a topic of seven; the embedded broker tells nobody how long it keeps anything.
    [ "$1" = unique ] && more+=(--retention-days 14 ${pids[broker]:+--retention-unchecked})
    [ -n "${ports[$1]:-}" ] || ports[$1]=$(free_port)
    mkdir -p "$folder/state-$1"
    start "$1" "$build/payment-consumer" --way "$1" --database "$database" --kafka "$kafka" --topic "$topic" \
        --listen "127.0.0.1:${ports[$1]}" --card-url "http://127.0.0.1:${ports[card]}" ${redis:+--redis "$redis"} \
        --state "$folder/state-$1" --workers 2 --batch "${batch:-100}" --commit-interval-ms "${commit_interval_ms:-1000}" \
        --redeliver "${redeliver:-3}" --seed "${seed:-1}" ${more[@]+"${more[@]}"}
}

# Sets ways, the ones that can run here and that WAYS names (all if it is empty), and skipped, "WAY|why" lines.
ways_choose() {
    local way all_ways
    ways=() skipped=()
    mapfile -t all_ways < <("$build/payment-consumer" --ways | cut -d' ' -f1)
    for way in ${WAYS:-}; do [[ " ${all_ways[*]} " == *" $way "* ]] || die "WAYS: there is no way $way; there are: ${all_ways[*]}"; done
    for way in "${all_ways[@]}"; do
        [ -z "${WAYS:-}" ] || [[ " $WAYS " == *" $way "* ]] || continue
        case ${needs[$way]:-} in
        redis) [ -n "$redis" ] || { skipped+=("$way|needs Redis; \`make deps\` installs it") && continue; } ;;
        kafka) [ -z "${pids[broker]:-}" ] || { skipped+=("$way|needs transactions of a real Kafka: make demo-table, or make demo REAL=1") && continue; } ;;
        esac
        ways+=("$way")
    done
    [ ${#ways[@]} -gt 0 ] || die "nothing can be shown here: ${skipped[*]/|/ }"
    say "consumers: ${ways[*]}; 2 workers each, ${redeliver:-3} % of all records twice"
}

ways_start() {
    local way
    for way in "${ways[@]}"; do way_start "$way"; done
    for way in "${ways[@]}"; do wait_for 60 listens "$way" || die "payment-consumer --way $way does not start" "$way"; done
}

ways_kill() { # wherever they are
    local way
    for way in "${ways[@]}"; do kill -KILL "${pids[$way]}"; done
    for way in "${ways[@]}"; do stop KILL 5 "$way"; done
} 2>/dev/null

# Start them, and wait until each has died at its fault.
ways_start_to_die() { # FAULT
    local way
    for way in "${ways[@]}"; do way_start "$way" "$1"; done
    for way in "${ways[@]}"; do
        wait_for 60 way_is_dead "$way" || die "payment-consumer --way $way does not come to its fault $1" "$way"
        stop KILL 1 "$way"
    done
} 2>/dev/null

ways_fault() { # JSON, to all of them
    local way
    for way in "${ways[@]}"; do
        ask -o /dev/null -f -X POST -H 'Content-Type: application/json' -d "$1" "http://127.0.0.1:${ports[$way]}/faults" ||
            die "payment-consumer --way $way does not take the fault $1" "$way"
    done
}

# Each dies of kill -9 when it next passes the point; who has nothing to do there within some seconds is killed where it is.
ways_die() { # POINT
    local way
    ways_fault "{\"point\": \"$1:1:kill\"}"
    for way in "${ways[@]}"; do
        wait_for 10 way_is_dead "$way" || say "$way does not come to its point \"$1\"; killed where it is"
        stop KILL 1 "$way"
    done
} 2>/dev/null

way_is_dead() { ! running "$1"; }

# --- questions ----------------------------------------------------------------------------------------------------------

# One query for every ledger: what it says in sum, less what the orders say.
drift() { # WAY: in cents
    sql "SELECT (SELECT coalesce(sum(cents), 0) FROM $(ledger "$1").balance) - (SELECT coalesce(sum(cents), 0) FROM shop.intended)"
}

relay_is_done() { [ "$(sql 'SELECT count(*) FROM outbox.event WHERE sent_at IS NULL')" = 0 ]; }

# Sets behind: the ways whose group has not committed the whole topic.
ways_are_done() {
    behind=$("$build/oracle" lag "$kafka" "$topic" "${ways[@]/#/payment-}" 2>>"$folder/oracle.log") || return 1
    behind=$(awk '$2 != 0 { print substr($1, 9) }' <<<"$behind")
    [ -z "$behind" ] && output_is_copied
}

# The ledger of kafka-to-kafka is a topic, and what is asked here is its copy.
output_is_copied() {
    [[ " ${ways[*]} " != *" kafka-to-kafka "* ]] || [ "$(applied kafka-to-kafka)" -ge "$(sql 'SELECT count(*) FROM outbox.event')" ] || {
        behind=kafka-to-kafka
        return 1
    }
}

catch_up() { # SECONDS: the relay has published all, then each way has committed all of it
    behind=outbox-relay
    wait_for "$1" relay_is_done || return 1
    wait_for "$1" ways_are_done
}

metric() { # WAY NAME: of its /metrics, in sum over the labels
    ask "http://127.0.0.1:${ports[$1]}/metrics" | awk -v name="$2" '{ split($1, n, "{") } n[1] == name { sum += $NF } END { printf "%.0f\n", sum }'
}

# --- what each way made of it -------------------------------------------------------------------------------------------

# How many effects there are. Counted in the ledger, since a counter can miss what was at work when its process died.
applied() { # WAY
    case $1 in
    version) sql "SELECT coalesce(sum(version), 0) FROM $(ledger version).fact" ;; # the newest fact stands for all before it
    passthrough) metric "$1" payment_applied_total ;;
    kafka-to-kafka) sql "SELECT count(*) FROM $(ledger kafka-to-kafka).output" ;;
    *) sql "SELECT count(*) FROM $(ledger "$1").entry" ;;
    esac
}

# The time of a batch that QUANTILE of all (0.5, 0.99) did not exceed, in milliseconds.
quantile() { # WAY QUANTILE
    ask "http://127.0.0.1:${ports[$1]}/metrics" | awk -v "wanted=quantile=\"$2\"" '
        /^payment_latency_quantile_seconds/ && index($0, wanted) { ms = $NF * 1000 }
        END { printf (ms > 0 ? "%.1f\n" : "-\n"), ms }'
}

declare -A drifts=()

ways_table() { # sets drifts
    local way line
    printf '  %-15s %9s %15s %12s %11s %9s %9s\n' way applied drift 'duplicates' suppressed 'p50 ms' 'p99 ms'
    printf '  %-15s %9s %15s %12s %11s %9s %9s\n' '' '' 'of its ledger' 'seen' '' 'a batch' ''
    for way in "${ways[@]}"; do
        drifts[$way]=$(drift "$way")
        printf '  %-15s %9s %15s %12s %11s %9s %9s\n' "$way" "$(grouped "$(applied "$way")")" "$(money "${drifts[$way]}")" \
            "$(grouped "$(metric "$way" payment_duplicates_total)")" "$(grouped "$(metric "$way" payment_suppressed_total)")" \
            "$(quantile "$way" 0.5)" "$(quantile "$way" 0.99)"
    done
    for line in ${skipped[@]+"${skipped[@]}"}; do
        printf '  %-15s skipped: it %s\n' "${line%%|*}" "${line#*|}"
    done
}

# Not only the sum: order by order, and each event once.
way_is_whole() { # WAY
    local wrong
    wrong=$(sql "SELECT count(*) FROM shop.intended i FULL JOIN $(ledger "$1").balance b USING (order_id)
        WHERE coalesce(i.cents, 0) <> coalesce(b.cents, 0)")
    [ "$wrong" = 0 ] || return 1
    case $1 in
    unique | version | kafka-to-kafka) [ "$(applied "$1")" = "$(sql 'SELECT count(*) FROM outbox.event')" ] ;;
    esac
}

right_ways_are_right() {
    local way status=0
    for way in "${right_ways[@]}"; do
        [[ " ${ways[*]} " == *" $way "* ]] || continue
        if [ "${drifts[$way]}" = 0 ] && way_is_whole "$way"; then
            case $way in
            unique | version) say "$way: every order's money moved once: committed = published = applied" ;;
            *) say "$way: every order's money moved once" ;; # not every event moves any there
            esac
        else
            say "$way: WRONG, and it should be right: drift $(money "${drifts[$way]}")"
            status=1
        fi
    done
    return $status
}

# --- the client ---------------------------------------------------------------------------------------------------------

client_start() { # ORDERS RATE [NUMBER]: its replies are lost now and then; it tries again under the same key
    start client "$build/order-client" --url "http://127.0.0.1:${ports[service]}" --orders "$1" --rate "$2" --flaky 5 \
        --refunds 4 --cancel 2 --move 4 \
        --journal "$folder/journal-${3:-1}" --seed "$((${seed:-1} * 10 + ${3:-1}))" ${CLIENT:-}
}

client_end() { # waits for it
    local status=0
    wait "${pids[client]}" || status=$?
    unset 'pids[client]'
    [ "$status" = 0 ] || die "the client gave up with exit status $status" client service
}

service_replays() { ask "http://127.0.0.1:${ports[service]}/metrics" | awk '/outcome="replay"/ { sum += $NF } END { printf "%.0f\n", sum }'; }
