/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/demo/service_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producer-demo/lib/uuid.h"
#include "tests/lib/test.h"

static void server_start(struct service_rig *rig)
{
    const char *argv[40] = {rig->binary, "--database", rig->db.conninfo, "--migrate", "--listen"};
    char listen[40], wanted[80];
    int n = 5;

    (void)snprintf(listen, sizeof listen, "127.0.0.1:%d", rig->port);
    argv[n++] = listen;
    for (int i = 0; rig->arguments[i]; i++)
        argv[n++] = rig->arguments[i];
    rig->server = process_start(argv, NULL, NULL);
    (void)snprintf(wanted, sizeof wanted, "listening on http://127.0.0.1:%d\n", rig->port);
    WAIT_UNTIL(strstr(process_output(&rig->server), wanted) || !process_running(&rig->server), 30);
    CHECK(process_running(&rig->server));
}

struct service_rig service_start_of(const char *binary, const char *const *arguments)
{
    struct service_rig rig = {.db = postgres_start(NULL), .binary = binary, .port = free_port()};

    for (int i = 0; arguments && arguments[i]; i++)
        rig.arguments[i] = arguments[i];
    postgres_migrate(&rig.db);
    server_start(&rig);
    return rig;
}

struct service_rig service_start(const char *const *arguments)
{
    return service_start_of(TEST_BUILD_FOLDER "/order-service", arguments);
}

void service_restart(struct service_rig *rig)
{
    server_start(rig);
}

void service_fault(const struct service_rig *rig, const char *point)
{
    char body[200];

    (void)snprintf(body, sizeof body, "{\"point\":\"%s\"}", point);
    CHECK_EQ(wire_ask(rig->port, "POST", "/faults", SERVICE_JSON, body).status, 204);
}

struct wire_answer service_post(const struct service_rig *rig, const char *path, const char *key, const char *body)
{
    char headers[600];

    (void)snprintf(headers, sizeof headers, SERVICE_JSON "Idempotency-Key: %s\r\n", key);
    return wire_ask(rig->port, "POST", path, headers, body);
}

static bool is_final(const struct wire_answer *answer)
{
    return answer->status != 0 && answer->status != 503 && !(answer->status == 409 && wire_header(answer, "Retry-After"));
}

struct wire_answer service_insist(struct service_rig *rig, const char *path, const char *key, const char *body)
{
    uint64_t deadline_ms = test_now_ms() + 60000 * test_slow();
    struct wire_answer answer;

    while (answer = service_post(rig, path, key, body), !is_final(&answer)) {
        CHECK(test_now_ms() < deadline_ms);
        test_pause();
        if (answer.status == 0 && !process_running(&rig->server))
            service_restart(rig);
    }
    return answer;
}

const char *service_place(const struct service_rig *rig, const char *key)
{
    static char ids[16][37];
    static int next;
    struct wire_answer answer = service_post(rig, "/orders", key, SERVICE_ORDER);
    char *id = ids[next++ % 16];

    CHECK_EQ(answer.status, 201);
    CHECK_EQ(sscanf(wire_header(&answer, "Location"), "/orders/%36s", id), 1);
    return id;
}

int64_t service_number(const struct service_rig *rig, const char *sql)
{
    return postgres_number(rig->db.conninfo, "%s", sql);
}

int64_t service_wrong(const struct service_rig *rig)
{
    char *rows =
             strdup(postgres_query(rig->db.conninfo, "SELECT scope, key, event_id, (extract(epoch FROM created_at) * 1000)::bigint FROM "
                                                     "shop.idempotency_keys WHERE status = 'COMPLETED'")),
         *rest = rows;
    int64_t wrong = service_number(rig, "SELECT abs((SELECT count(*) FROM outbox.event WHERE headers ? 'idempotency-key') - "
                                        "(SELECT count(*) FROM shop.idempotency_keys WHERE status = 'COMPLETED'))");

    CHECK(rows != NULL);
    for (char *row; (row = strsep(&rest, "\n")) && *row;) {
        char scope[101], key[256], event_id[37], wanted[37];
        long long created_ms;

        CHECK_EQ(sscanf(row, "%100[^\t]\t%255[^\t]\t%36[^\t]\t%lld", scope, key, event_id, &created_ms), 4);
        uuid_print(uuid_derive(created_ms, scope, key, 1), wanted);
        wrong += strcmp(event_id, wanted) != 0 ||
                 postgres_number(rig->db.conninfo, "SELECT count(*) FROM outbox.event WHERE event_id = '%s'", event_id) != 1;
    }
    free(rows);
    return wrong;
}

void service_check_keys(const struct service_rig *rig)
{
    CHECK_EQ(service_wrong(rig), 0);
}
