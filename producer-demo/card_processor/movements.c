/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/card_processor/movements.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producer-demo/lib/uuid.h"

#define COLUMNS "id, key, kind, order_id, abs(cents), to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"

/* The key and the movement in one statement, which is one transaction: they are there together or not at all. Who comes second waits at the
 * key's index until the first has committed, and then inserts nothing; if the first failed, the second takes its place. */
static const char make_once[] =
    "WITH taken AS (INSERT INTO card.key (scope, key, movement_id) VALUES ($2, $3, $1::uuid) ON CONFLICT DO NOTHING RETURNING movement_id) "
    "INSERT INTO card.movement (id, scope, key, kind, order_id, cents) "
    "SELECT movement_id, $2, $3, $4, $5::uuid, $6::bigint FROM taken RETURNING " COLUMNS;

/* The same without the key: the mistake. */
static const char make_always[] = "INSERT INTO card.movement (id, scope, key, kind, order_id, cents) "
                                  "VALUES ($1::uuid, $2, $3, $4, $5::uuid, $6::bigint) RETURNING " COLUMNS;

/* The one that the key stands for; of those made without heeding it, the first. */
static const char find[] = "SELECT " COLUMNS " FROM card.movement m WHERE scope = $1 AND key = $2 ORDER BY EXISTS (SELECT FROM card.key k "
                           "WHERE k.scope = $1 AND k.key = $2 AND k.movement_id = m.id) DESC, at, id LIMIT 1";

static void field_copy(char *to, size_t size, const PGresult *result, int column)
{
    (void)snprintf(to, size, "%s", PQgetvalue(result, 0, column));
}

static void movement_read(const PGresult *result, struct movement *ret_movement)
{
    field_copy(ret_movement->id, sizeof ret_movement->id, result, 0);
    field_copy(ret_movement->key, sizeof ret_movement->key, result, 1);
    field_copy(ret_movement->kind, sizeof ret_movement->kind, result, 2);
    field_copy(ret_movement->order_id, sizeof ret_movement->order_id, result, 3);
    ret_movement->amount_cents = strtoll(PQgetvalue(result, 0, 4), NULL, 10);
    field_copy(ret_movement->at, sizeof ret_movement->at, result, 5);
}

/* `found` if there is a row. Clears the result. */
static enum movement_outcome result_take(PGconn *db, PGresult *result, enum movement_outcome found, struct movement *ret_movement,
                                         char *ret_reason, size_t reason_size)
{
    enum movement_outcome outcome = MOVEMENT_NONE;
    const char *message = PQerrorMessage(db);

    if (!store_succeeded(result)) {
        (void)snprintf(ret_reason, reason_size, "%.*s", (int)strcspn(message, "\n"), message);
        outcome = MOVEMENT_UNAVAILABLE;
    } else if (PQntuples(result) > 0) {
        movement_read(result, ret_movement);
        outcome = found;
    }
    PQclear(result);
    return outcome;
}

enum movement_outcome movement_find(PGconn *db, const char *scope, const char *key, struct movement *ret_movement, char *ret_reason,
                                    size_t reason_size)
{
    PGresult *result = store_query(db, find, 2, (const char *const[]){scope, key});

    return result_take(db, result, MOVEMENT_REPEATED, ret_movement, ret_reason, reason_size);
}

static bool movement_matches(const struct movement *movement, const struct movement_request *request)
{
    return strcmp(movement->kind, request->kind) == 0 && strcmp(movement->order_id, request->order_id) == 0 &&
           movement->amount_cents == request->amount_cents;
}

enum movement_outcome movement_make(PGconn *db, const struct movement_request *request, bool ignore_keys, struct movement *ret_movement,
                                    char *ret_reason, size_t reason_size)
{
    char id[37], cents[24];
    const char *values[] = {id, request->scope, request->key, request->kind, request->order_id, cents};
    bool refund = strcmp(request->kind, "refund") == 0;
    enum movement_outcome outcome;

    uuid_print(uuid_make(), id);
    (void)snprintf(cents, sizeof cents, "%" PRId64, refund ? -request->amount_cents : request->amount_cents);
    outcome = result_take(db, store_query(db, ignore_keys ? make_always : make_once, 6, values), MOVEMENT_MADE, ret_movement, ret_reason,
                          reason_size);
    if (outcome != MOVEMENT_NONE)
        return outcome;
    /* The statement that lost could not see the winner's row yet; this one does. */
    outcome = movement_find(db, request->scope, request->key, ret_movement, ret_reason, reason_size);
    if (outcome == MOVEMENT_REPEATED && !movement_matches(ret_movement, request))
        return MOVEMENT_MISMATCH;
    return outcome;
}
