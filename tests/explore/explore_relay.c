/* SPDX-License-Identifier: BSD-2-Clause */
/* A relay process: performs at once what its core wants, which is to send something, and tells it what came of that later. */
#include <string.h>

#include "relay/core/relay_state.h"
#include "tests/explore/explore.h"

/* --- what the core wants ------------------------------------------------------------------------------------------ */

static uint8_t small(int64_t id)
{
    return id < 0 ? 0 : id > 200 ? 200 : (uint8_t)id;
}

static uint8_t gaps_of(const struct relay *r)
{
    const int64_t *firsts, *lasts;
    uint32_t n = relay_gaps(r, &firsts, &lasts);
    uint8_t gaps = 0;

    for (uint32_t i = 0; i < n; i++)
        for (unsigned bit = 0; bit < IDS_MAX; bit++)
            gaps |= (uint8_t)((firsts[i] <= bit + 1 && bit + 1 <= lasts[i]) << bit);
    return gaps;
}

static void send_read(struct process *p, const struct relay *r, const struct relay_action *a)
{
    if (p->read.phase != NOT_SENT)
        explore_violation("one_reader", "a second read is asked for");
    p->read = (struct read_statement){.phase = SENT, .type = (uint8_t)a->type};
    if (a->type == RELAY_WRITERS)
        return;
    p->read.from = small(a->from);
    p->read.upto = small(a->upto);
    p->read.settled_upto = small(a->settled_upto);
    p->read.rows = (uint8_t)a->rows;
    if (a->type == RELAY_FETCH)
        p->read.gaps = gaps_of(r);
}

static void send_mark(struct process *p, const struct relay *r)
{
    const int64_t *ids;
    const struct row_event_id *event_ids;
    uint32_t n = relay_marks(r, &ids, &event_ids);

    if (p->mark.phase != NOT_SENT)
        explore_violation("one_mark", "a second mark is asked for");
    p->mark.phase = SENT;
    for (uint32_t i = 0; i < n; i++)
        p->mark.marked |= (event_set)(1u << event_of(event_ids[i]));
}

static unsigned record_of(const struct relay_behind *behind)
{
    if (behind->key_hash != 0)
        return 2 + (unsigned)behind->key_hash;
    return behind->partition == RELAY_WHOLE_TOPIC ? 1 : behind->partition == RELAY_UNPLACED ? 2 : 0;
}

static void send_save(struct process *p, const struct relay *r, const struct relay_action *a)
{
    const struct relay_behind *changes;
    uint32_t n = relay_saving(r, &changes);

    if (p->save.phase != NOT_SENT)
        explore_violation("one_save", "a second save is asked for");
    p->save.phase = SENT;
    p->save.token = token_number(r->lease.token);
    p->save.floor = small(a->from);
    for (uint32_t i = 0; i < n; i++) {
        unsigned record = record_of(&changes[i]);

        p->save.changed |= (uint8_t)(1u << record);
        p->save.first_ids[record] = small(changes[i].first_id);
        p->save.attempts[record] = changes[i].attempts > 0;
    }
}

static void process_end(struct world *w, unsigned relay);

/* Returns false when the process is over. */
static bool perform(struct world *w, unsigned relay, struct relay *r, uint64_t now_ms, const struct relay_action *a)
{
    struct process *p = &w->relays[relay];

    switch (a->type) {
    case RELAY_CONNECT:
        relay_on_connected(r, now_ms);
        break;
    case RELAY_LEASE_TAKE:
    case RELAY_LEASE_BEAT:
    case RELAY_LEASE_RELEASE:
        if (p->lease_type != 0)
            explore_violation("one_lease", "a second question about the lease");
        p->lease_type = (uint8_t)a->type;
        p->lease_token = a->type == RELAY_LEASE_TAKE ? token_unused(w) : token_number(r->lease.token);
        break;
    case RELAY_FETCH:
    case RELAY_CATCH_UP:
    case RELAY_PATROL:
    case RELAY_WRITERS:
        send_read(p, r, a);
        break;
    case RELAY_FLUSH:
        p->flush = a->force ? 2 : 1;
        break;
    case RELAY_PUBLISH:
        kafka_enqueue(&p->sessions[a->session], event_of(a->event_id));
        break;
    case RELAY_MARK:
        send_mark(p, r);
        break;
    case RELAY_SAVE:
        send_save(p, r, a);
        break;
    case RELAY_TOPIC:
        if (explore_play->topics)
            p->asks_topic = true;
        else
            relay_on_topic(r, now_ms, 0, 1, 1, 0);
        break;
    case RELAY_SESSION_OPEN:
        p->sessions[a->session] = (struct session){.state = SESSION_IS_OPEN};
        relay_on_session_open(r, now_ms, a->session);
        break;
    case RELAY_SESSION_CLOSE:
        p->sessions[a->session].state = SESSION_IS_CLOSING;
        break;
    case RELAY_EXIT:
        process_end(w, relay);
        return false;
    case RELAY_WAIT:
    case RELAY_DROP:
    case RELAY_FORGET:
    case RELAY_NOTE:
        break;
    }
    return true;
}

void relay_pump(struct world *w, unsigned relay, struct relay *r, uint64_t now_ms)
{
    for (unsigned i = 0; i < 1000; i++) {
        struct relay_action a = relay_next(r, now_ms);

        if (a.type == RELAY_WAIT && r->notes_n > 0)
            continue; /* a note was made after it had looked for one */
        if (a.type == RELAY_WAIT) {
            w->relays[relay].core = cores_put(r, now_ms);
            return;
        }
        if (explore_telling)
            tell_action(explore_told[relay], r, &a);
        if (!perform(w, relay, r, now_ms, &a))
            return;
    }
    explore_violation("end", "the core never waits");
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void relay_start(struct world *w, unsigned relay)
{
    static uint32_t number = UINT32_MAX;
    struct process *p = &w->relays[relay];
    uint64_t now_ms;

    if (number == UINT32_MAX)
        number = cores_new();
    memset(p, 0, sizeof *p);
    relay_pump(w, relay, cores_take(number, &now_ms), now_ms);
    p->fresh = true;
}

static void statements_late(struct world *w, struct process *p)
{
    if (p->mark.phase == SENT)
        database_late(w, RELAY_MARK, &p->mark);
    if (p->save.phase == SENT)
        database_late(w, RELAY_SAVE, &p->save);
    if (p->lease_type == RELAY_LEASE_TAKE)
        database_late(w, RELAY_LEASE_TAKE, &(struct write_statement){.token = p->lease_token});
}

static void process_end(struct world *w, unsigned relay)
{
    struct process *p = &w->relays[relay];

    statements_late(w, p);
    for (unsigned i = 0; i < RELAY_SESSIONS; i++)
        kafka_late(w, &p->sessions[i]);
    if (w->database.lease_relay == relay + 1)
        w->database.lease_relay = 0;
    relay_start(w, relay);
}

bool relay_kill(struct world *w, unsigned relay)
{
    if (w->relays[relay].fresh)
        return false;
    process_end(w, relay);
    return true;
}

bool relay_stop(struct world *w, unsigned relay)
{
    struct process *p = &w->relays[relay];
    uint64_t now_ms;
    struct relay *r = cores_take(p->core, &now_ms);

    if (p->stopped || w->stops == 0)
        return false;
    w->stops--;
    p->stopped = true;
    relay_on_stop(r, now_ms);
    relay_pump(w, relay, r, now_ms);
    return true;
}

bool relay_pass_time(struct world *w, unsigned relay)
{
    enum {
        LONG_MS = 1000
    };
    struct process *p = &w->relays[relay];
    uint64_t now_ms;
    struct relay *r = cores_take(p->core, &now_ms);

    if (w->times == 0 || (p->lease_type != 0 && (p->lease_type != RELAY_LEASE_BEAT || !r->lease.held)))
        return false;
    w->times--;
    if (!r->lease.held)
        now_ms += LONG_MS;
    else
        now_ms = p->lease_type == 0 ? r->lease.next_ms : r->lease.deadline_ms;
    for (unsigned i = 0; i < RELAY_SESSIONS; i++)
        p->sessions[i].idle = p->sessions[i].state == SESSION_IS_OPEN && p->sessions[i].n == 0;
    relay_pump(w, relay, r, now_ms);
    return true;
}

/* What only waits for its time: a key or lane to be tried again, a question about writers. */
bool relay_timers(struct world *w, unsigned relay)
{
    uint64_t now_ms;
    struct relay *r = cores_take(w->relays[relay].core, &now_ms);
    struct behind *b = relay_behind_of(r);
    bool some = r->writers_ms > now_ms && gaps_n(relay_gaps_of(r)) > 0;

    if (some)
        r->writers_ms = now_ms;
    for (uint32_t record = behind_first(b); record != BEHIND_NONE; record = behind_next(b, record)) {
        if (!behind_is(b, record) || behind_retry_ms(b, record) <= now_ms)
            continue;
        behind_wait(b, record, now_ms);
        r->page_due_ms = now_ms;
        some = true;
    }
    if (some)
        relay_pump(w, relay, r, now_ms);
    return some;
}

bool relay_lose_database(struct world *w, unsigned relay, bool server_is_gone)
{
    struct process *p = &w->relays[relay];
    uint64_t now_ms;
    struct relay *r;

    if (p->fresh)
        return false;
    if (!server_is_gone)
        statements_late(w, p);
    memset(&p->read, 0, sizeof p->read);
    memset(&p->mark, 0, sizeof p->mark);
    memset(&p->save, 0, sizeof p->save);
    p->lease_type = p->lease_token = p->flush = 0;
    p->asks_topic = false;
    r = cores_take(p->core, &now_ms);
    relay_on_database_lost(r, now_ms);
    relay_pump(w, relay, r, now_ms);
    return true;
}
