#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# What the way `unique` of payment-consumer costs beside `none`: the same topic of a real Kafka, the same PostgreSQL (fsync on), batches of 1, 100
# and 1 000, two workers. The two take turns, each run with a ledger and a group of its own.
#
#   make bench-unique
#   make bench-unique ROWS=50000 REPS=1     a quick look
#
#   ROWS=200000    events in the topic; a run with batches of 1 takes the first 2 % of them, one of 100 half, one of 1 000 all
#   REPS=3         runs of each; the one with the middle rate is shown
#   KEEP=1         leave the logs in the temporary folder
#
# Time runs from the begin of the first batch to the end of the last; p50 and p99 are of a batch, from its begin to its commit. It fails if `unique`
# does not reach 20 000 messages a second with batches of 1 000.
set -u

cd "$(dirname "$0")/../.." || exit 2
build=$PWD/${BUILD:-build/release}
rows=${ROWS:-200000} reps=${REPS:-3}
services=() consumer=

fail()
{
    echo "bench-unique: $*" >&2
    exit 2
}

. tests/bench/services.sh

finish()
{
    [ -z "$consumer" ] || kill -9 "$consumer" 2> /dev/null
    services_stop
    if [ -n "${KEEP:-}" ]; then
        echo "logs are in $folder"
    else
        rm -rf "$folder"
    fi
}

sql() # STATEMENT...
{
    PGOPTIONS='-c client_min_messages=warning' psql -qtAX -v ON_ERROR_STOP=1 "$database dbname=postgres" "${@/#/-c}" > /dev/null ||
        fail "PostgreSQL refused a statement of the bench"
}

handled() # PORT
{
    curl -s --max-time 5 "http://127.0.0.1:$1/metrics" | awk '/^payment_(applied|suppressed)_total/ { sum += $2 } END { print sum + 0 }'
}

run() # WAY BATCH MESSAGES REPETITION: adds a line "RATE P50 P99" to the file of way and batch
{
    local way=$1 batch=$2 messages=$3 port log=$folder/$1-$2-$4.log deadline=$((SECONDS + 600))
    port=$(free_port)
    sql "DROP SCHEMA IF EXISTS ledger_$way CASCADE" 'CHECKPOINT'
    "$build/payment-consumer" --way "$way" --batch "$batch" --database "$database dbname=postgres" --kafka "$bootstrap" --topic payments \
        --group "bench-$way-$batch-$4" --listen "127.0.0.1:$port" --retention-days 30 2> "$log" &
    consumer=$!
    while [ "$(handled "$port")" -lt "$messages" ]; do
        kill -0 "$consumer" 2> /dev/null || fail "payment-consumer ended: $(tail -1 "$log")"
        [ "$SECONDS" -lt "$deadline" ] || fail "payment-consumer was not done after ten minutes; see $log"
        sleep 0.2
    done
    kill -TERM "$consumer"
    wait "$consumer" || fail "payment-consumer did not end orderly: $(tail -1 "$log")"
    consumer=
    sed -n 's/.* deliveries in .* s, \([0-9]*\) a second; a batch took \([0-9.]*\) ms (p50), \([0-9.]*\) ms (p99)$/\1 \2 \3/p' "$log" >> "$folder/$way-$batch"
}

middle() # WAY BATCH: the run whose rate is in the middle
{
    sort -n "$folder/$1-$2" | awk '{ line[NR] = $0 } END { print line[int((NR + 1) / 2)] }'
}

compare() # BATCH
{
    local none unique
    none=$(middle none "$1") unique=$(middle unique "$1")
    [ -n "$none" ] && [ -n "$unique" ] || fail "a run told nothing"
    echo "$1 $none $unique" | awk '{
        printf "%7d   none    %10d %10.2f %10.2f\n%7s   unique  %10d %10.2f %10.2f   %.0f %% of the rate, %+.2f ms p50, %+.2f ms p99\n", \
            $1, $2, $3, $4, "", $5, $6, $7, 100 * $5 / $2, $6 - $3, $7 - $4 }'
}

folder=$(mktemp -d) || exit 2
chmod 755 "$folder"
trap finish EXIT
trap 'exit 130' INT TERM
postgres_start
kafka_start
"$build/topic" fresh "$bootstrap" payments 12 || fail "the topic cannot be made"
"$build/payments" "$bootstrap" payments "$rows" || fail "the topic cannot be filled"
for repetition in $(seq "$reps"); do
    for batch in 1 100 1000; do
        case $batch in 1) messages=$((rows / 50)) ;; 100) messages=$((rows / 2)) ;; *) messages=$rows ;; esac
        for way in none unique; do
            run "$way" "$batch" "$messages" "$repetition"
        done
    done
done
echo "$rows events, 12 partitions, two workers, the middle of $reps runs; $(nproc) processors, load of the last minute $(cut -d ' ' -f 1 /proc/loadavg)"
printf '%7s   %-7s %10s %10s %10s\n' batch way messages/s 'p50 ms' 'p99 ms'
for batch in 1 100 1000; do
    compare "$batch"
done
[ "$(middle unique 1000 | cut -d ' ' -f 1)" -ge 20000 ] || fail "unique with batches of 1000: less than 20000 messages a second (was anybody else at work here? see the load)"
