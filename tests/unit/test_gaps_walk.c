/* SPDX-License-Identifier: BSD-2-Clause */
/* A random walk of the gaps beside a model: writers draw ids and commit or roll back, reads are cut or whole, questions are answered. */
#include "relay/core/gaps.h"

#include <stdlib.h>

#include "relay/core/relay.h"
#include "tests/lib/test.h"

#define IDS     400
#define RANGES  12
#define WRITERS 6

enum fate {
    NOT_DRAWN,
    OPEN,
    COMMITTED,
    ROLLED_BACK
};

struct model {
    enum fate fate[IDS + 1];
    unsigned writer[IDS + 1]; /* whose vxid is its number + 1 */
    bool seen[IDS + 1];
    unsigned drawn, acts[WRITERS]; /* how often each drew: it is quiet since the last time */
    uint64_t seed;
};

static unsigned dice(struct model *m, unsigned sides)
{
    m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(m->seed >> 33) % sides;
}

static void model_write(struct model *m, unsigned steps)
{
    for (unsigned i = 0; i < steps && m->drawn < IDS; i++) {
        m->fate[++m->drawn] = OPEN;
        m->writer[m->drawn] = dice(m, WRITERS);
        m->acts[m->writer[m->drawn]]++;
    }
    if (dice(m, 2) > 0 || m->drawn == IDS) {                                            /* one of them ends, with all its rows */
        unsigned writer = dice(m, 4) > 0 ? 1 + dice(m, WRITERS - 1) : dice(m, WRITERS); /* the first one stays longest */
        enum fate fate = dice(m, 3) > 0 ? COMMITTED : ROLLED_BACK;

        for (unsigned id = 1; id <= m->drawn; id++)
            m->fate[id] = m->fate[id] == OPEN && m->writer[id] == writer ? fate : m->fate[id];
    }
}

static void model_read(struct model *m, struct gaps *g)
{
    const int64_t *firsts, *lasts;
    int64_t upto = INT64_MAX, highest = gaps_highest(g);
    unsigned rows = 0, rows_max = 1 + dice(m, 9);

    gaps_read_begin(g);
    (void)gaps_ranges(g, &firsts, &lasts);
    for (int64_t id = 1; id <= m->drawn; id++) {
        if (m->fate[id] != COMMITTED || (id <= highest && m->seen[id]))
            continue;
        if (!gaps_read_see(g, 0, id)) {
            upto = id - 1;
            break;
        }
        m->seen[id] = true;
        if (++rows == rows_max) {
            upto = id;
            break;
        }
    }
    gaps_read_end(g, upto);
}

static void model_ask(struct model *m, struct gaps *g)
{
    struct relay_writer writers[WRITERS];
    bool holds[WRITERS] = {false};
    uint32_t n = 0;
    int64_t last_id = m->drawn;

    if (!gaps_wants_writers(g, 0, 0))
        return;
    gaps_writers_begin(g);
    model_write(m, m->drawn < IDS ? dice(m, 3) : 0);
    for (unsigned id = 1; id <= m->drawn; id++)
        holds[m->writer[id]] |= m->fate[id] == OPEN;
    for (unsigned writer = 0; writer < WRITERS; writer++) {
        if (holds[writer])
            writers[n++] = (struct relay_writer){.vxid = writer + 1, .quiet_since = writer % 3 < 2 ? m->acts[writer] : 0};
    }
    gaps_writers_end(g, last_id, writers, n);
}

/* Every id that may still show is in a gap; what was seen is in none. */
static void model_check(const struct model *m, const struct gaps *g)
{
    for (int64_t id = 1; id <= gaps_highest(g); id++) {
        if (m->seen[id])
            CHECK(!gaps_open_at(g, id));
        else if (m->fate[id] != ROLLED_BACK)
            CHECK(gaps_open_at(g, id) && id > gaps_closed_upto(g));
    }
    CHECK(gaps_n(g) <= RANGES);
}

static void walk(uint64_t seed)
{
    struct gaps *g = gaps_init(malloc(gaps_size(RANGES, WRITERS)), RANGES, WRITERS, 0);
    struct model m = {.seed = seed};

    for (unsigned i = 0; i < 1500; i++) {
        model_write(&m, m.drawn < IDS ? dice(&m, 3) : 0);
        if (dice(&m, 2) == 0)
            model_ask(&m, g);
        else
            model_read(&m, g);
        model_check(&m, g);
    }
    for (unsigned id = 1; id <= IDS; id++)
        CHECK(m.fate[id] == ROLLED_BACK || m.seen[id]);
    CHECK_EQ(gaps_n(g), 0);
    free(g);
}

TEST(gaps_walk_beside_a_model)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        walk(seed);
}
