/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/crash/line_postgres.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/crash/held.h"
#include "tests/crash/kafka_line.h"
#include "tests/lib/test.h"

int line_said_times(const struct process *p, const char *words)
{
    int n = 0;

    for (const char *at = process_output(p); (at = strstr(at, words)) != NULL; at++)
        n++;
    return n;
}

bool line_calm(const struct process *relay)
{
    return line_said_times(relay, "level=error") == 0 &&
           line_said_times(relay, "level=warning") == line_said_times(relay, "level=warning event=librdkafka");
}

void line_role(struct line *l, const char *attributes)
{
    (void)postgres_query(l->e.db.conninfo, "CREATE ROLE relay LOGIN IN ROLE outbox_relay %s", attributes);
    (void)snprintf(l->e.database, sizeof l->e.database, "host=%s port=%d user=relay dbname=postgres", l->e.db.socket_folder, l->e.db.port);
}

void line_terminate(struct line *l)
{
    CHECK(e2e_number(&l->e, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'outbox-relay %'") >
          0);
}

/* --- asynchronous commits ------------------------------------------------------------------------------------------- */

#define GATHERED 100000 /* bytes of WAL: some hundred commits */

struct line *line_asynchronous(const char *name)
{
    /* A full checkpoint would flush as well, as would a full buffer and the process that writes pages. */
    return line_begin(name, &(struct line_options){.e2e.settings = "synchronous_commit = off\nwal_writer_delay = 10s\n"
                                                                   "wal_writer_flush_after = 1GB\ncheckpoint_timeout = 1h\n"
                                                                   "wal_buffers = 32MB\nbgwriter_lru_maxpages = 0"});
}

/* It waits for work, so it holds no lock: one that is stopped while it writes would let nobody write any more. */
static bool wal_writer_stopped(struct held *inside, pid_t writer)
{
    if (kill(writer, SIGSTOP) != 0)
        test_fail(__FILE__, __LINE__, "the WAL writer of the server is gone");
    WAIT_UNTIL(kafka_line_state(writer) == 'T', 20);
    if (held_number(inside, "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event = 'WalWriterMain'", (int)writer) == 1)
        return true;
    (void)kill(writer, SIGCONT);
    return false;
}

void line_wal_writer_stop(struct held *inside)
{
    pid_t writer = 0;

    /* Of a server that has just come up it may not be there yet. */
    WAIT_UNTIL((writer = (pid_t)held_number(inside, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")) > 0, 20);
    WAIT_UNTIL(wal_writer_stopped(inside, writer), 20);
}

static int64_t unwritten_bytes(struct held *inside)
{
    return held_number(inside, "SELECT pg_current_wal_insert_lsn() - pg_current_wal_lsn()");
}

int64_t line_gather_unwritten(struct held *inside)
{
    int64_t since;

    /* A statement that was under way when the relay fell asleep may still write: then all over again. */
    do {
        since = held_number(inside, "SELECT pg_current_wal_insert_lsn() - '0/0'");
        WAIT_UNTIL(held_number(inside, "SELECT pg_current_wal_insert_lsn() - '0/0'") > since + GATHERED, 20);
    } while (held_number(inside, "SELECT pg_current_wal_lsn() - '0/0'") > since);
    return unwritten_bytes(inside);
}

void line_kill_unwritten(struct line *l, struct process *asleep)
{
    static const char count[] = "SELECT count(*) FROM outbox.event WHERE created_at <= to_timestamp(%lld / 1000.0)";
    struct held *inside = held_open(l->e.db.conninfo);
    int64_t unwritten, before, after;
    long long now_ms;

    line_wal_writer_stop(inside);
    line_publishing(l);
    line_strike(l);
    if (asleep != NULL) {
        process_signal(asleep, SIGSTOP);
        unwritten = line_gather_unwritten(inside);
    } else {
        WAIT_UNTIL((unwritten = unwritten_bytes(inside)) > 5000, 20);
    }
    now_ms = e2e_real_ms();
    before = held_number(inside, count, now_ms);
    postgres_kill(&l->e.db);
    if (asleep != NULL)
        process_signal(asleep, SIGCONT);
    postgres_restart(&l->e.db);
    held_close(inside);
    after = postgres_number(l->e.db.conninfo, count, now_ms);
    CHECK(asleep == NULL || after < before);
    line_hit(l, "kill -9 of the postmaster and its children, asynchronous commits in flight",
             "%lld bytes of WAL were in its memory only, %lld rows were lost", (long long)unwritten, (long long)(before - after));
}

/* --- another server ------------------------------------------------------------------------------------------------- */

struct postgres line_standby(struct line *l, const char *settings)
{
    struct postgres standby = postgres_standby(&l->e.db, "standby", settings);

    (void)snprintf(l->e.database, sizeof l->e.database, "host=%.150s,%.150s port=%d,%d user=postgres dbname=postgres",
                   l->e.db.socket_folder, standby.socket_folder, l->e.db.port, standby.port);
    return standby;
}

int64_t line_replace(struct line *l, struct postgres *standby)
{
    process_signal(&l->e.load, SIGTERM);
    e2e_load_end(&l->e, 20);
    postgres_promote(standby);
    l->e.db = *standby;
    int64_t last_id = e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq");
    LOAD(&l->e, "--writers", "6", "--orders", "300", "--rate", "800", "--seconds", "3600");
    WAIT_UNTIL(postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE id > %lld", (long long)last_id) > 0, 20);
    return last_id;
}
