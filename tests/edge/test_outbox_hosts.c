/* SPDX-License-Identifier: BSD-2-Clause */
/* Several hosts, of which one takes writes: it is found wherever it stands in the list, and followed. Each in sessions, and through a
 * transaction pooler in front of each host, whose memory of the server's role is not to be trusted. */
#include <stdio.h>
#include <string.h>

#include "tests/edge/outbox_box.h"

struct pair {
    struct postgres first, second;
    struct pgbouncer first_pooler, second_pooler;
    bool pooled;
    char conninfo[600]; /* both hosts, `first` first */
};

/* A primary and its standby, which is the first host. */
static void pair_begin(struct pair *pair, bool pooled)
{
    pair->pooled = pooled;
    pair->second = box_postgres(NULL);
    pair->first = postgres_standby(&pair->second, "standby", NULL);
    if (pooled) {
        pair->first_pooler = pgbouncer_start(&pair->first, NULL);
        pair->second_pooler = pgbouncer_start(&pair->second, NULL);
        snprintf(pair->conninfo, sizeof pair->conninfo, "host=%.150s,%.150s port=%d,%d user=postgres dbname=postgres",
                 pair->first_pooler.folder, pair->second_pooler.folder, pair->first_pooler.port, pair->second_pooler.port);
        return;
    }
    snprintf(pair->conninfo, sizeof pair->conninfo, "host=%.150s,%.150s port=%d,%d user=postgres dbname=postgres",
             pair->first.socket_folder, pair->second.socket_folder, pair->first.port, pair->second.port);
}

static struct box *box_to(const char *conninfo, bool pooled)
{
    struct outbox_settings settings = box_settings(conninfo);

    settings.pooled = pooled;
    settings.connect_ms = 5000;
    return box_new_with(&settings);
}

/* Our relays' sessions, at this server, that have done something. */
static int64_t sessions(const struct postgres *p)
{
    return postgres_number(p->conninfo, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'outbox-relay %%'");
}

static void insert(const struct postgres *p, unsigned n)
{
    postgres_query(p->conninfo, "INSERT INTO outbox.event (event_id, topic) SELECT gen_random_uuid(), 't' FROM generate_series(1, %u)", n);
}

static void check_says(const char *sentence, const char *what)
{
    if (strstr(sentence, what) == NULL)
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", sentence, what);
}

/* Everything works, and at this server. */
static void check_works(struct box *b, const struct postgres *primary)
{
    CHECK(box_take(b));
    insert(primary, 3);
    CHECK_EQ(box_fetch(b, b->saved.last_id), 3);
    box_mark(b, 0, 3);
    CHECK(box_save(b, b->rows[2].id, NULL, 0));
    box_beat(b);
    CHECK(b->held && box_token_is(b, b->saved.token));
    CHECK(sessions(primary) > 0);
}

/* The standby is asked first, each time; after its promotion it is the one. The old primary comes back as a standby of the new one, and
 * then they change places again. */
static void check_followed(bool pooled)
{
    struct pair pair;
    struct box *b;

    pair_begin(&pair, pooled);
    b = box_to(pair.conninfo, pooled);
    box_connect(b);
    check_works(b, &pair.second);

    postgres_kill(&pair.second);
    postgres_promote(&pair.first);
    if (b->lost_n == 0) { /* in the pooled form a connection is lost when it is used */
        outbox_beat(b->outbox);
        BOX_UNTIL(b, b->lost_n == 1, 20);
    }
    box_connect(b);
    check_works(b, &pair.first);

    /* The roles change: what was second is a new standby, on another port. */
    pair.second = postgres_standby(&pair.first, "standby", NULL);
    if (pooled) {
        pgbouncer_pause(&pair.second_pooler);
        pgbouncer_resume(&pair.second_pooler, &pair.second);
    } else {
        snprintf(pair.conninfo, sizeof pair.conninfo, "host=%.150s,%.150s port=%d,%d user=postgres dbname=postgres",
                 pair.second.socket_folder, pair.first.socket_folder, pair.second.port, pair.first.port);
    }
    box_release(b); /* another process follows */
    box_free(b);
    b = box_to(pair.conninfo, pooled);
    box_connect(b);
    check_works(b, &pair.first);
    postgres_kill(&pair.first);
    postgres_promote(&pair.second);
    BOX_UNTIL(b, b->lost_n == 1 || pooled, 20);
    box_connect(b);
    check_works(b, &pair.second);
    box_free(b);
}

TEST_WITHIN(outbox_hosts_the_primary_is_followed, 90)
{
    check_followed(false);
}

TEST_WITHIN(outbox_hosts_the_primary_is_followed_pooled, 90)
{
    check_followed(true);
}

/* A standby is an outage, and its promotion the end of it: the pooler has not been told, and must not matter. */
static void check_standby(bool pooled)
{
    struct pair pair;
    struct box *b;

    pair_begin(&pair, pooled);
    b = box_to(pooled ? pair.first_pooler.conninfo : pair.first.conninfo, pooled);
    box_connect_refused(b);
    check_says(b->reason, "cannot connect to the database: ");
    check_says(b->reason, pooled ? "the server behind the pooler is a standby" : "read-only");
    postgres_stop(&pair.second);
    postgres_promote(&pair.first);
    box_connect(b);
    check_works(b, &pair.first);
    box_free(b);
}

TEST_WITHIN(outbox_hosts_a_standby_is_an_outage, 90)
{
    check_standby(false);
}

TEST_WITHIN(outbox_hosts_a_standby_is_an_outage_pooled, 90)
{
    check_standby(true);
}

/* A pooler that is led to a standby between two statements: the next one ends it, and the other host is found. */
TEST_WITHIN(outbox_hosts_a_pooler_turns_to_a_standby, 90)
{
    struct pair pair;
    struct box *b;

    pair_begin(&pair, true);
    b = box_to(pair.conninfo, true);
    box_connect(b);
    check_works(b, &pair.second);
    pgbouncer_pause(&pair.second_pooler);
    pgbouncer_resume(&pair.second_pooler, &pair.first);
    pgbouncer_pause(&pair.first_pooler);
    pgbouncer_resume(&pair.first_pooler, &pair.second);
    outbox_fetch(b->outbox, &(struct outbox_fetch){.rows = 100, .bytes = 1 << 20});
    BOX_UNTIL(b, b->lost_n == 1, 10);
    CHECK_EQ(b->fetched_n, 1);
    box_connect(b);
    check_works(b, &pair.second);
    box_free(b);
}

/* default_transaction_read_only makes a server one that takes no writes, wherever it is set; target_session_attrs = primary is how to say
 * that it does not count. */
static void check_read_only(const char *set, bool pooled)
{
    struct postgres p = box_postgres(NULL);
    struct pgbouncer pooler;
    char conninfo[500];
    struct box *b;

    postgres_query(p.conninfo, "CREATE ROLE sidecar LOGIN IN ROLE outbox_relay");
    postgres_query(p.conninfo, "%s", set);
    if (pooled)
        pooler = pgbouncer_start(&p, NULL);
    snprintf(conninfo, sizeof conninfo, "host=%s port=%d user=sidecar dbname=postgres", pooled ? pooler.folder : p.socket_folder,
             pooled ? pooler.port : p.port);
    b = box_to(conninfo, pooled);
    box_connect_refused(b);
    check_says(b->reason, "session is read-only");
    box_free(b);
    strcat(conninfo, " target_session_attrs=primary");
    b = box_to(conninfo, pooled);
    box_connect(b);
    check_works(b, &p);
    box_free(b);
}

TEST_WITHIN(outbox_hosts_read_only_by_default, 90)
{
    check_read_only("ALTER ROLE sidecar SET default_transaction_read_only = on", false);
    check_read_only("ALTER ROLE sidecar SET default_transaction_read_only = on", true);
}

/* Whoever asks for any host gets a standby, and is told by the relay. */
TEST_WITHIN(outbox_hosts_any_may_be_a_standby, 90)
{
    struct pair pair;
    char conninfo[700];

    pair_begin(&pair, true);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(conninfo, sizeof conninfo, "%s target_session_attrs=any", i == 0 ? pair.first.conninfo : pair.first_pooler.conninfo);
        struct box *b = box_to(conninfo, i == 1);
        box_connect_refused(b);
        check_says(b->reason, i == 0 ? "is a standby" : "recovery");
        box_free(b);
    }
}
