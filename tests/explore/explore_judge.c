/* SPDX-License-Identifier: BSD-2-Clause */
/* What must hold, whatever happens. */
#include <string.h>

#include "tests/explore/explore.h"

static char key_of(uint8_t event)
{
    return explore_play->keys[event % IDS_MAX];
}

/* Only what the database cannot lose any more (P2), and first copies of a key in the order of its commits, which is that of its ids (P3). */
void judge_append(struct world *w, uint8_t event)
{
    const struct database *db = &w->database;

    if (!(db->committed >> event & 1))
        explore_violation("phantom", "row %d is published and is not in the database", (int)id_of(event));
    if (!(db->committed_flushed >> event & 1))
        explore_violation("barrier", "row %d is published and not flushed yet", (int)id_of(event));
    if (w->log >> event & 1)
        return;
    for (uint8_t other = 0; other < EVENTS_MAX; other++)
        if (id_of(other) < id_of(event) && (db->committed & (event_set)~w->log) >> other & 1 && key_of(other) == key_of(event))
            explore_violation("order", "row %d is published before row %d of its key", (int)id_of(event), (int)id_of(other));
}

/* A mark says that the row is in the log (P1, P6). */
void judge_mark(const struct world *w, event_set marked)
{
    for (uint8_t event = 0; event < EVENTS_MAX; event++)
        if ((marked & (event_set)~w->log) >> event & 1)
            explore_violation("lying_mark", "row %d is marked and is not in the log", (int)id_of(event));
}

/* Whoever starts from what is saved finds every row that is not settled (P1). */
void judge_saved(const struct world *w)
{
    const struct database *db = &w->database;
    event_set unsettled = database_events(w) & (db->open | db->committed) & (event_set)~db->sent;

    for (uint8_t event = 0; event < EVENTS_MAX; event++) {
        int64_t id = id_of(event);
        bool is_covered = false;

        if (!(unsettled >> event & 1) || id > db->floor)
            continue;
        for (unsigned record = 0; record < RECORDS; record++) {
            bool is_its_own = record < 3 || key_of(event) - 'A' == (int)record - 3;

            is_covered |= is_its_own && db->first_ids[record] != 0 && db->first_ids[record] <= id;
        }
        if (!is_covered)
            explore_violation("floor", "floor %d is saved, row %d is not settled and no record covers it", db->floor, (int)id);
    }
}

bool judge_is_done(const struct world *w)
{
    const struct database *db = &w->database;

    return db->last_id == strlen(explore_play->keys) && db->open == 0 && (db->committed & (event_set) ~(db->sent & w->log)) == 0;
}
