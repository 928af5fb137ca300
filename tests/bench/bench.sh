#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# How fast the relay drains, how late it is, what it costs when idle; against its own PostgreSQL and its own real Kafka.
#
#   make bench                                    everything, about nine minutes
#   make bench MODE=drain REPS=1 ROWS=200000 ONLY=relay       a quick look
#
#   MODE="drain latency idle"   which parts
#   ROWS=1000000 REPS=3         rows of 300 bytes (10 000 keys, 12 partitions) in each table; repetitions, contenders interleaved
#   TEXTBOOKS="textbook-1000 textbook-100"                    textbook-BATCH or textbook-BATCH-LINGER, the linger being 5 ms otherwise
#   ROWS_100=ROWS/5             rows for the textbook relay at batch 100, whose rate does not depend on them
#   ONLY=relay,textbook-1000,textbook-100,contender,...       who runs
#   RELAY_ARGS="--name value"   more arguments for the relay
#   RETRIES=2                   how often a run is repeated when more than 5 % of the machine's time was used by others
#   RUN_SECONDS=600             a run that takes longer has failed
#   SECONDS=60 RATE=1000 WRITERS=4 IDLE_SECONDS=20            latency and idle
#   CONTENDER="PROGRAM ARGUMENT...; PROGRAM ARGUMENT..."      other programs that drain a table, in shell syntax; the second one is
#       called contender-2, and so on. Each gets after its own arguments: bootstrap=HOST:PORT ci=CONNINFO table=NAME n=ROWS topic=orders
#       bpidfile=FILE (with the broker's process id), and the same as BENCH_BOOTSTRAP, BENCH_DATABASE, BENCH_TABLE, BENCH_ROWS, BENCH_TOPIC,
#       BENCH_BROKER_PID_FILE. The table has id, event_id, topic, key, payload, sent_at, fillfactor 50 and its primary key; with the word
#       `indexed` before PROGRAM it is the textbook's, fillfactor 100 with a partial index of the unsent rows. The program ends when the
#       rows are published and marked.
#   LATENCY_CONTENDER="..."     measured in the latency part instead of the relay, in the same way; it must go on until it is killed
#   KEEP=1                      leave the logs in the temporary folder
#
# A run is measured from the start of the process to its end, and again without the time up to the first record (by the broker's clock).
# Before each run: a new database, VACUUM and CHECKPOINT, a new topic. After it the topic is read: every row, in the order of its key.
latency_seconds=$SECONDS # bash's own clock of this name begins at the value from outside, or at 0
[ "$latency_seconds" -gt 0 ] || latency_seconds=60
set -u

cd "$(dirname "$0")/../.." || exit 2
build=$PWD/${BUILD:-build/release}
relay=${RELAY:-$build/outbox-relay}
rows=${ROWS:-1000000} reps=${REPS:-3} retries=${RETRIES:-2} unaccounted_max=5 run_seconds=${RUN_SECONDS:-600}
partitions=12 topic=orders
services=() follower=

fail()
{
    echo "bench: $*" >&2
    exit 2
}

. tests/bench/services.sh

finish()
{
    [ -z "$follower" ] || kill -9 "$follower" 2> /dev/null
    services_stop
    if [ -n "${KEEP:-}" ]; then
        echo "logs are in $folder"
    else
        rm -rf "$folder"
    fi
}

sql() # DATABASE STATEMENT...
{
    local name=$1
    shift
    PGOPTIONS='-c client_min_messages=warning' psql -qtAX -v ON_ERROR_STOP=1 "$database dbname=$name" "${@/#/-c}" || fail "PostgreSQL refused a statement of the bench"
}

# --- who runs ---------------------------------------------------------------------------------------------------------

declare -A contender
contenders_read()
{
    local program n=0 name
    while IFS= read -r -d ';' program; do
        [ -n "${program// /}" ] || continue
        n=$((n + 1))
        name=contender$([ $n = 1 ] || echo "-$n")
        contender[$name]=$program
        who+=("$name")
    done <<< "${CONTENDER:-};"
}

chosen() # NAME
{
    [ -z "${ONLY:-}" ] || [[ ",$ONLY," == *",$1,"* ]]
}

rows_of() # NAME
{
    case $1 in
    textbook-100 | textbook-100-*)
        echo "${ROWS_100:-$((rows / 5))}"
        ;;
    *)
        echo "$rows"
        ;;
    esac
}

table_of() # NAME
{
    if [ "$1" = relay ]; then
        echo outbox.event
    else
        echo outbox_rows
    fi
}

# A new database `bench` with the table of NAME, empty.
database_make() # NAME
{
    local table="CREATE TABLE outbox_rows (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id uuid NOT NULL DEFAULT gen_random_uuid(),
        topic text NOT NULL, key text, payload bytea, created_at timestamptz DEFAULT clock_timestamp(), sent_at timestamptz)"
    sql postgres 'DROP DATABASE IF EXISTS bench WITH (FORCE)' 'CREATE DATABASE bench'
    case "$1 ${contender[$1]:-}" in
    relay*)
        relay_command migrate
        "${command[@]}" > "$folder/migrate.log" 2>&1 || fail "migrate failed: $(tail -1 "$folder/migrate.log")"
        ;;
    textbook* | contender*\ indexed\ *)
        sql bench "$table" 'CREATE INDEX ON outbox_rows (id) WHERE sent_at IS NULL'
        ;;
    *)
        sql bench "$table WITH (fillfactor = 50)"
        ;;
    esac
}

fill() # TABLE ROWS
{
    sql bench "INSERT INTO $1 (event_id, topic, key, payload) SELECT gen_random_uuid(), '$topic', 'key-' || n::bigint * 7919 % 10000,
        convert_to(lpad(n::text, 12, '0') || repeat(md5(n::text), 9), 'UTF8') FROM generate_series(1, $2) n" "VACUUM (ANALYZE) $1" CHECKPOINT
}

# The relay takes every OUTBOX_RELAY_* for a setting, so those of the makefile and of the bench must not reach it.
relay_command() # VERB: sets `command`
{
    relay_port=$(free_port)
    command=(/usr/bin/env OUTBOX_RELAY_DATABASE="$database dbname=bench"
        OUTBOX_RELAY_KAFKA_BOOTSTRAP_SERVERS="$bootstrap" OUTBOX_RELAY_LISTEN="127.0.0.1:$relay_port" "$relay" "$1")
}

# Sets `command`: what drains the table, or follows it if the second argument is `follow`.
command_make() # NAME [follow]
{
    local name=$1 ci="$database dbname=bench" program textbook
    case $name in
    relay)
        relay_command run
        [ "${2:-}" = follow ] || command+=(--drain)
        # shellcheck disable=SC2206 # several words on purpose
        command+=(${RELAY_ARGS:-})
        ;;
    textbook-*)
        IFS=- read -r -a textbook <<< "$name-5"
        command=("$build/textbook" "$ci" outbox_rows "$bootstrap" "${textbook[@]:1:2}")
        ;;
    *)
        program=${contender[$name]# }
        eval "command=(${program#indexed })"
        command[0]=$(command -v "${command[0]}") || fail "CONTENDER ${command[0]} is not there"
        command=(/usr/bin/env BENCH_BOOTSTRAP="$bootstrap" BENCH_DATABASE="$ci" BENCH_TABLE=outbox_rows BENCH_ROWS="$(rows_of "$name")"
            BENCH_TOPIC="$topic" BENCH_BROKER_PID_FILE="$broker_pid_file" "${command[@]}"
            bootstrap="$bootstrap" ci="$ci" table=outbox_rows "n=$(rows_of "$name")" topic="$topic" bpidfile="$broker_pid_file")
        ;;
    esac
}

# --- drain ------------------------------------------------------------------------------------------------------------

# One run; appends a line of pairs to $folder/results. Returns 1 if others used the machine.
drain_once() # NAME REPETITION
{
    local name=$1 rows_n table wal figures checked unmarked unaccounted
    rows_n=$(rows_of "$name")
    table=$(table_of "$name")
    database_make "$name"
    fill "$table" "$rows_n"
    "$build/topic" fresh "$bootstrap" $topic $partitions || exit 2
    command_make "$name"
    wal=$(sql bench 'SELECT pg_current_wal_insert_lsn()')
    figures=$("$build/measure" run "$folder/output" "$postmaster" "$broker" /usr/bin/timeout --foreground "$run_seconds" "${command[@]}") || exit 2
    [[ "$figures" != *status=124 ]] || fail "$name was not done after $run_seconds s: $(tail -3 "$folder/output")"
    [[ "$figures" == *status=0 ]] || fail "$name ended with ${figures##* }: $(tail -3 "$folder/output")"
    wal=$(sql bench "SELECT pg_current_wal_insert_lsn() - '$wal'")
    unmarked=$(sql bench "SELECT count(*) FROM $table WHERE sent_at IS NULL")
    [ "$unmarked" = 0 ] || fail "$name left $unmarked rows unmarked"
    checked=$("$build/topic" check "$bootstrap" $topic $partitions "$rows_n") || fail "$name did not deliver every row in order: $checked"
    echo "name=$name rep=$2 rows=$rows_n $figures wal_bytes=$wal $checked" > "$folder/result"
    awk -v line=1 -f tests/bench/report.awk "$folder/result"
    unaccounted=${figures##*unaccounted=}
    unaccounted=${unaccounted%%[. ]*}
    [ "${unaccounted:-0}" -lt $unaccounted_max ]
}

drain()
{
    local rep name attempt
    echo "drain: $rows rows, $reps repetitions of ${who[*]}"
    for rep in $(seq "$reps"); do
        for name in "${who[@]}"; do
            attempt=0
            until drain_once "$name" "$rep" || [ $attempt -ge "$retries" ]; do
                attempt=$((attempt + 1))
                echo "  $name again: others used the machine"
            done
            cat "$folder/result" >> "$folder/results"
        done
    done
    awk -f tests/bench/report.awk "$folder/results"
}

# --- latency and idle -------------------------------------------------------------------------------------------------

follower_start() # NAME
{
    database_make "$1"
    command_make "$1" follow
    "${command[@]}" > "$folder/follower.log" 2>&1 &
    follower=$!
}

follower_stop()
{
    kill -TERM "$follower" 2> /dev/null
    wait "$follower" 2> /dev/null
    follower=
}

metrics()
{
    exec 3<> "/dev/tcp/127.0.0.1/$relay_port" || return
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
    cat <&3
    exec 3>&-
}

latency()
{
    local name=relay void=0
    if [ -n "${LATENCY_CONTENDER:-}" ]; then
        name=contender-latency
        contender[$name]=$LATENCY_CONTENDER
    fi
    echo "latency: ${RATE:-1000} rows/s by ${WRITERS:-4} writers for $latency_seconds s, $name beside the broker alone; milliseconds"
    "$build/topic" fresh "$bootstrap" $topic $partitions || exit 2
    "$build/topic" fresh "$bootstrap" direct $partitions || exit 2
    follower_start $name
    "$build/latency" "$database dbname=bench" "$bootstrap" $partitions "${RATE:-1000}" "$latency_seconds" "${WRITERS:-4}" \
        "INSERT INTO $(table_of $name) (event_id, topic, key, payload) VALUES (gen_random_uuid(), \$1, \$2, \$3)" > "$folder/latency" || void=$?
    [ $void -lt 2 ] || fail "the latency run failed: $(tail -2 "$folder/follower.log")"
    [ $name != relay ] || metrics > "$folder/metrics" 2> /dev/null
    touch "$folder/metrics"
    awk -v void=$void -f tests/bench/latency.awk "$folder/latency" "$folder/metrics"
    follower_stop
    return $void
}

idle()
{
    echo "idle: an empty table for ${IDLE_SECONDS:-20} s"
    follower_start relay
    sleep 3
    kill -0 $follower 2> /dev/null || fail "the relay ended: $(tail -1 "$folder/follower.log")"
    "$build/measure" watch "${IDLE_SECONDS:-20}" "$postmaster" "$broker" $follower |
        awk '{ for (i = 1; i <= NF; i++) { split($i, pair, "="); v[pair[1]] = pair[2] }
               printf "  relay %.2f %% + PostgreSQL %.2f %% = %.2f %% of a core (broker %.2f %%)\n", 100 * v["cpu_s"] / v["wall_s"],
                   100 * v["postgres_s"] / v["wall_s"], 100 * (v["cpu_s"] + v["postgres_s"]) / v["wall_s"], 100 * v["broker_s"] / v["wall_s"] }'
    follower_stop
}

# --- main -------------------------------------------------------------------------------------------------------------

[ -x "$build/measure" ] || fail "the programs are not built; run 'make bench'"
read -r -a who <<< "relay ${TEXTBOOKS:-textbook-1000 textbook-100}"
contenders_read
for name in "${who[@]}"; do
    chosen "$name" && chosen_who+=("$name")
done
who=("${chosen_who[@]:-}")
[ -n "${who[0]}" ] || fail "ONLY=$ONLY names nobody"

folder=$(mktemp -d "${TMPDIR:-/tmp}/outbox-bench.XXXXXX") || exit 2
chmod 711 "$folder"
trap finish EXIT
trap 'exit 130' INT TERM
postgres_start
kafka_start
echo "warming up the broker with 1 M records"
"$build/topic" warm "$bootstrap" warm $partitions 1000000 || exit 2

status=0
for part in ${MODE:-drain latency idle}; do
    case $part in
    drain | latency | idle)
        $part || status=1
        ;;
    *)
        fail "MODE knows drain, latency and idle, not $part"
        ;;
    esac
done
exit $status
