/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/demo/chain.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "producer-demo/lib/fetch.h"
#include "tests/lib/test.h"

#define ARGUMENTS_MAX 32

static const char *const way_names[CHAIN_PARTS] = {
    [CHAIN_UNIQUE] = "unique", [CHAIN_VERSION] = "version", [CHAIN_PASSTHROUGH] = "passthrough"};

/* Texts of one command line. */
struct arguments {
    const char *list[ARGUMENTS_MAX];
    int n;
};

static void add(struct arguments *a, const char *flag, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(struct arguments *a, const char *flag, const char *format, ...)
{
    char *value = test_allocate(512);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(value, 512, format, args);
    va_end(args);
    CHECK(a->n + 3 < ARGUMENTS_MAX);
    a->list[a->n++] = flag;
    a->list[a->n++] = value;
}

static void add_listen(struct arguments *a, const struct chain *chain, enum chain_part part)
{
    add(a, "--listen", "127.0.0.1:%d", chain->port[part]);
}

static void add_card(struct arguments *a, const struct chain *chain)
{
    add(a, "--card-url", "http://127.0.0.1:%d", chain->port[CHAIN_CARD]);
}

static void arguments_of_way(struct arguments *a, const struct chain *chain, enum chain_part part)
{
    const char *way = way_names[part];
    char state[300];

    (void)snprintf(state, sizeof state, "%s/state-%s", temp_folder(), way);
    (void)mkdir(state, 0755);
    a->list[a->n++] = TEST_BUILD_FOLDER "/payment-consumer";
    add(a, "--way", "%s", way);
    add(a, "--kafka", "%s", chain->bootstrap);
    add(a, "--state", "%s", state);
    add(a, "--redeliver", "20");
    add_card(a, chain);
    if (part == CHAIN_UNIQUE) {
        add(a, "--retention-days", "14");
        a->list[a->n++] = "--retention-unchecked"; /* the embedded broker does not tell how long it keeps anything */
    }
}

static void arguments_of_client(struct arguments *a, const struct chain *chain)
{
    a->list[a->n++] = TEST_BUILD_FOLDER "/order-client";
    add(a, "--url", "http://127.0.0.1:%d", chain->port[CHAIN_SERVICE]);
    add(a, "--orders", "%d", chain->orders);
    add(a, "--journal", "%s/journal", temp_folder());
    add(a, "--flaky", "10");
    add(a, "--refunds", "10");
    add(a, "--cancel", "5");
    add(a, "--move", "5");
}

static void arguments_of(struct arguments *a, const struct chain *chain, enum chain_part part)
{
    const char *relay = getenv("TEST_RELAY_BINARY");

    switch (part) {
    case CHAIN_CARD:
        a->list[a->n++] = TEST_BUILD_FOLDER "/card-processor";
        break;
    case CHAIN_SERVICE:
        a->list[a->n++] = TEST_BUILD_FOLDER "/order-service";
        add_card(a, chain);
        break;
    case CHAIN_RELAY:
        a->list[a->n++] = relay != NULL ? relay : TEST_BUILD_FOLDER "/outbox-relay";
        a->list[a->n++] = "run";
        add(a, "--kafka.bootstrap.servers", "%s", chain->bootstrap);
        add(a, "--lease-ttl-ms", "2000");
        break;
    case CHAIN_CLIENT:
        arguments_of_client(a, chain);
        return;
    case CHAIN_UNIQUE:
    case CHAIN_VERSION:
    case CHAIN_PASSTHROUGH:
    case CHAIN_PARTS:
        arguments_of_way(a, chain, part);
    }
    add(a, "--database", "%s", chain->db.conninfo);
    add_listen(a, chain, part);
}

void chain_start(struct chain *chain, enum chain_part part)
{
    struct arguments a = {0};

    arguments_of(&a, chain, part);
    if (part == CHAIN_SERVICE)
        a.list[a.n++] = "--migrate";
    CHECK(!process_running(&chain->part[part]));
    chain->part[part] = process_start(a.list, NULL, NULL);
}

static bool answers(const struct chain *chain, enum chain_part part)
{
    struct fetch *fetch = fetch_open();
    struct fetch_response response;
    char url[64];

    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/healthz", chain->port[part]);
    fetch_send(fetch, &(struct fetch_request){.method = "GET", .url = url, .timeout_ms = 2000}, &response);
    fetch_close(fetch);
    return response.status == 200;
}

void chain_await(struct chain *chain, enum chain_part part)
{
    if (part != CHAIN_CLIENT)
        WAIT_UNTIL(answers(chain, part), 60);
}

void chain_begin(struct chain *ret_chain, const char *bootstrap, int orders)
{
    *ret_chain = (struct chain){.db = postgres_start("max_connections = 200"), .orders = orders};
    (void)snprintf(ret_chain->bootstrap, sizeof ret_chain->bootstrap, "%s", bootstrap);
    postgres_migrate(&ret_chain->db);
    for (int p = 0; p < CHAIN_PARTS; p++)
        ret_chain->port[p] = free_port();
    for (enum chain_part p = 0; p < CHAIN_CLIENT; p++) {
        chain_start(ret_chain, p);
        chain_await(ret_chain, p);
    }
}

void chain_kill(struct chain *chain, enum chain_part part)
{
    CHECK(process_running(&chain->part[part]));
    process_signal(&chain->part[part], SIGKILL);
    CHECK_EQ(process_wait(&chain->part[part], 20), 128 + SIGKILL);
}

int64_t chain_placed(const struct chain *chain)
{
    const char *there = postgres_error(chain->db.conninfo, "SELECT 1");

    return there[0] != '\0' ? -1 : postgres_number(chain->db.conninfo, "SELECT count(*) FROM shop.orders");
}

/* --- the verdict ----------------------------------------------------------------------------------------------------- */

/* The groups of all ways have committed the whole topic: nothing more will come to them. */
static bool is_read(const struct chain *chain)
{
    static const char done[] = "payment-unique 0\npayment-version 0\npayment-passthrough 0\n";
    struct process lag = process_start((const char *[]){TEST_BUILD_FOLDER "/oracle", "lag", chain->bootstrap, "orders", "payment-unique",
                                                        "payment-version", "payment-passthrough", NULL},
                                       NULL, "lag.log");
    bool answered = process_wait(&lag, 60) == 0;
    const char *said = process_output(&lag); /* and what it said before */
    size_t n = strlen(said);

    return answered && n >= sizeof done - 1 && strcmp(said + n - (sizeof done - 1), done) == 0;
}

static int64_t ask(const struct chain *chain, const char *sql)
{
    return postgres_number(chain->db.conninfo, "%s", sql);
}

static void judge_ledgers(const struct chain *chain)
{
    int64_t events = ask(chain, "SELECT count(*) FROM outbox.event");

    CHECK_EQ(events, ask(chain, "SELECT sum(version) FROM shop.orders"));
    CHECK_EQ(ask(chain, "SELECT count(*) FROM ledger_unique.entry"), events);
    CHECK_EQ(ask(chain, "SELECT count(DISTINCT event_id) FROM ledger_unique.entry"), events);
    CHECK_EQ(ask(chain, "SELECT sum(version) FROM ledger_version.fact"), events);
    for (int p = CHAIN_UNIQUE; p <= CHAIN_PASSTHROUGH; p++)
        CHECK_EQ(postgres_number(chain->db.conninfo,
                                 "SELECT count(*) FROM shop.intended i FULL JOIN ledger_%s.balance b USING (order_id) "
                                 "WHERE coalesce(i.cents, 0) <> coalesce(b.cents, 0)",
                                 way_names[p]),
                 0);
}

void chain_judge(struct chain *chain)
{
    CHECK_EQ(process_wait(&chain->part[CHAIN_CLIENT], 120), 0);
    CHECK_EQ(chain_placed(chain), chain->orders);
    WAIT_UNTIL(ask(chain, "SELECT count(*) FROM outbox.event WHERE sent_at IS NULL") == 0, 60);
    WAIT_UNTIL(is_read(chain), 90);
    process_run((const char *[]){TEST_BUILD_FOLDER "/oracle", "relay", chain->db.conninfo, chain->bootstrap, "orders", NULL}, NULL,
                (struct process_options){0}, 60);
    judge_ledgers(chain);
}
