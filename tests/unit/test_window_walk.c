/* SPDX-License-Identifier: BSD-2-Clause */
/* A random walk of the window beside a model that is too simple to be wrong. */
#include "relay/core/window.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

static struct row row_of(int64_t id)
{
    struct row row = {.id = id, .bytes = 10, .partition = -1};

    memcpy(row.event_id.bytes, &id, sizeof id);
    return row;
}

enum model_state {
    GONE,
    QUEUED,
    HANDED,
    ACKED
};

struct model {
    enum model_state state[1000]; /* by id */
    row_slot slot[1000];
    unsigned lane[1000];
    unsigned rows, ids;
};

static unsigned dice(uint64_t *state, unsigned sides)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33) % sides;
}

/* The id that the lane must hand next: the smallest queued one. */
static unsigned model_first(const struct model *m, unsigned lane)
{
    for (unsigned id = 1; id < m->ids; id++) {
        if (m->state[id] == QUEUED && m->lane[id] == lane)
            return id;
    }
    return 0;
}

static unsigned model_n(const struct model *m, enum model_state state)
{
    unsigned n = 0;

    for (unsigned id = 1; id < m->ids; id++)
        n += m->state[id] == state;
    return n;
}

static void model_admit(struct model *m, struct window *w, uint64_t *seed)
{
    unsigned id = 1 + dice(seed, m->ids - 1);
    struct row row;

    if (window_room_rows(w) == 0 || m->state[id] != GONE)
        return;
    m->lane[id] = dice(seed, 2);
    row = row_of(id);
    m->slot[id] = window_admit(w, &row, m->lane[id], 0);
    m->state[id] = QUEUED;
}

static void model_report(struct model *m, struct window *w, uint64_t *seed)
{
    unsigned id = 1 + dice(seed, m->ids - 1);
    bool good = dice(seed, 2) == 0;

    if (m->state[id] != HANDED)
        return;
    m->state[id] = good ? ACKED : QUEUED;
    if (good)
        window_ack(w, 0, m->slot[id]);
    else
        window_return(w, m->slot[id]);
}

static void model_hand(struct model *m, struct window *w)
{
    unsigned first[2] = {model_first(m, 0), model_first(m, 1)};
    row_slot s;

    if (!window_hand(w, 0, false, &s))
        return;
    CHECK(window_id(w, s) == first[window_lane(w, s)]);
    m->state[window_id(w, s)] = HANDED;
}

static void model_settle(struct model *m, struct window *w, uint64_t *seed)
{
    unsigned lane = dice(seed, 2), first = model_first(m, lane);
    row_slot s;

    if (dice(seed, 3) > 0) {
        if (!window_mark(w, &s))
            return;
        m->state[window_id(w, s)] = GONE;
        window_marked(w, s, false);
        return;
    }
    CHECK_EQ(window_take(w, lane), first == 0 ? INT64_MAX : first);
    for (unsigned id = 1; id < m->ids; id++)
        m->state[id] = m->state[id] == QUEUED && m->lane[id] == lane ? GONE : m->state[id];
    while (window_drop(w, &s))
        continue;
}

TEST(window_walks_beside_a_model)
{
    struct window *w = window_init(test_allocate(window_size(50, 2)), 50, 1000, 2, 10);
    static struct model m;
    uint64_t seed = 7;

    m.ids = 200; /* some share a bucket */
    window_lane_open(w, 0, false, false);
    window_lane_open(w, 1, false, false);
    for (unsigned i = 0; i < 20000; i++) {
        switch (dice(&seed, 8)) {
        case 0:
            model_settle(&m, w, &seed);
            break;
        case 1:
        case 2:
            model_hand(&m, w);
            break;
        case 3:
        case 4:
            model_report(&m, w, &seed);
            break;
        default:
            model_admit(&m, w, &seed);
        }
        CHECK_EQ(window_handed(w), model_n(&m, HANDED));
        CHECK_EQ(window_acked(w), model_n(&m, ACKED));
        CHECK_EQ(window_bytes(w), 10 * (model_n(&m, HANDED) + model_n(&m, QUEUED)));
        CHECK_EQ(window_room_rows(w), 50 - model_n(&m, HANDED) - model_n(&m, QUEUED) - model_n(&m, ACKED));
    }
    for (unsigned id = 1; id < m.ids; id++) {
        struct row row = row_of(id);

        CHECK_EQ(window_knows(w, &row), m.state[id] != GONE);
    }
}
