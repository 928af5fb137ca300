# SPDX-License-Identifier: BSD-2-Clause
# The bench's own PostgreSQL and Kafka, in $folder, on free ports; sourced by bench.sh. Sets database (a conninfo without dbname), postmaster,
# bootstrap, broker and broker_pid_file.

# Below the range from which the kernel gives ports to clients.
free_port()
{
    local port
    while port=$((20000 + RANDOM % 12000)) && (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do
        :
    done
    echo "$port"
}

postgres_bin()
{
    command -v initdb > /dev/null && dirname "$(command -v initdb)" && return
    ls -d /usr/lib/postgresql/*/bin 2> /dev/null | sort -V | tail -1
}

as_postgres() # COMMAND...: PostgreSQL refuses to run as root
{
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=postgres --regid=postgres --init-groups "$@"
    else
        "$@"
    fi
}

postgres_start()
{
    local bin data=$folder/postgres
    bin=$(postgres_bin)
    [ -x "$bin/initdb" ] || fail "PostgreSQL is not installed; run 'make deps'"
    postgres_port=$(free_port)
    mkdir -p "$data"
    [ "$(id -u)" != 0 ] || chown postgres "$data"
    (cd / && as_postgres "$bin/initdb" -D "$data/data" -U postgres -A trust -E UTF8 --locale=C > "$data/initdb.log" 2>&1) || fail "initdb failed: $(tail -1 "$data/initdb.log")"
    # Autovacuum is off so that no run pays for the table of another; a checkpoint stands before each run and none falls into it.
    cat >> "$data/data/postgresql.conf" << END
listen_addresses = '127.0.0.1'
port = $postgres_port
unix_socket_directories = '$data'
shared_buffers = ${SHARED_BUFFERS:-2GB}
fsync = on
max_wal_size = 16GB
checkpoint_timeout = 1h
autovacuum = off
END
    (cd / && as_postgres "$bin/postgres" -D "$data/data" > "$data/log" 2>&1) &
    services+=($!)
    database="host=$data port=$postgres_port user=postgres"
    for _ in $(seq 300); do
        psql -qtAX "$database dbname=postgres" -c 'SELECT 1' > /dev/null 2>&1 && break
        sleep 0.1
    done
    postmaster=$(head -1 "$data/data/postmaster.pid") || fail "PostgreSQL did not start; see $data/log"
}

kafka_start()
{
    local controller_port data=$folder/kafka
    local jars=${TEST_KAFKA_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/outbox-relay/kafka-4.1.1}
    [ -d "$jars" ] || fail "there is no Kafka in $jars; run 'make deps'"
    mkdir -p "$data"
    bootstrap=127.0.0.1:$(free_port)
    controller_port=$(free_port)
    # A busy machine is no reason to fence the broker, and deleted topics need not stay on the disk.
    cat tests/lib/kafka/server.properties - > "$data/server.properties" << END
controller.quorum.voters=1@127.0.0.1:$controller_port
listeners=PLAINTEXT://$bootstrap,CONTROLLER://127.0.0.1:$controller_port
advertised.listeners=PLAINTEXT://$bootstrap
log.dirs=$data/data
broker.session.timeout.ms=9000
log.segment.delete.delay.ms=1000
END
    java -cp "$jars/*" kafka.tools.StorageTool format -t "$(java -cp "$jars/*" kafka.tools.StorageTool random-uuid)" \
        -c "$data/server.properties" > "$data/format.log" 2>&1 || fail "Kafka's folder cannot be made: $(tail -1 "$data/format.log")"
    (cd "$data" && exec java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$jars/*" kafka.Kafka server.properties > log 2>&1) &
    broker=$!
    services+=("$broker")
    broker_pid_file=$data/broker.pid
    echo "$broker" > "$broker_pid_file"
    for _ in $(seq 60); do
        "$build/topic" fresh "$bootstrap" warm 12 2> "$data/ready.log" && return
        kill -0 "$broker" 2> /dev/null || break
        sleep 0.5
    done
    fail "Kafka did not start; see $data/log"
}

# The data is thrown away, so nobody needs an orderly end. The postmaster is told by its own pid: what we started is the shell around it.
services_stop()
{
    [ -z "${broker:-}" ] || kill -9 "$broker" 2> /dev/null
    [ -z "${postmaster:-}" ] || kill -QUIT "$postmaster" 2> /dev/null
    wait "${services[@]}" 2> /dev/null
}
