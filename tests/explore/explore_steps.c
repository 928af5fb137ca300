/* SPDX-License-Identifier: BSD-2-Clause */
/* What may happen next. Each kind of step says whether it is possible by being tried. */
#include <stdio.h>
#include <string.h>

#include "tests/explore/explore.h"

enum step_kind {
    STEP_DRAW,
    STEP_COMMIT,
    STEP_COMMIT_ASYNCHRONOUSLY,
    STEP_ROLL_BACK,
    STEP_FLUSH_WAL,
    STEP_LEASE,
    STEP_READ,
    STEP_READ_ANSWER,
    STEP_MARK,
    STEP_MARK_ANSWER,
    STEP_SAVE,
    STEP_SAVE_ANSWER,
    STEP_FLUSH,
    STEP_TOPIC,
    STEP_SESSION_CLOSE,
    STEP_APPEND,
    STEP_REPLY,
    STEP_LATE_APPEND,
    STEP_LATE_REFUSE,
    STEP_LATE_STATEMENT,
    STEP_TIME,
    STEP_TIMERS,
    /* these use up a fault */
    STEP_READ_SLOWLY,
    STEP_READ_UNHEARD,
    STEP_MARK_SLOWLY,
    STEP_MARK_UNHEARD,
    STEP_SAVE_SLOWLY,
    STEP_SAVE_UNHEARD,
    STEP_LEASE_UNHEARD,
    STEP_APPEND_SLOWLY,
    STEP_APPEND_UNHEARD,
    STEP_LEASE_OVER,
    STEP_KILL,
    STEP_STOP,
    STEP_DATABASE_LOST,
    STEP_FAIL,
    STEP_CUT,
    STEP_REFUSE_NOW,
    STEP_REFUSE,
    STEP_BREAK,
    STEP_CRASH,
    STEP_CRASH_POOLED,
    STEPS
};

/* What `a` counts for a kind, and what `relay` does. */
enum scope {
    SCOPE_WORLD,
    SCOPE_EVENT,
    SCOPE_LATE,
    SCOPE_RELAY,
    SCOPE_SESSION,
    SCOPE_STATEMENT, /* of a relay */
    SCOPE_BATCH      /* of a session, `b` rows */
};

static const struct {
    const char *words;
    enum scope scope;
    bool is_fault;
} kinds[STEPS] = {
    [STEP_DRAW] = {"a writer draws the next id", SCOPE_WORLD, false},
    [STEP_COMMIT] = {"it commits", SCOPE_EVENT, false},
    [STEP_COMMIT_ASYNCHRONOUSLY] = {"it commits asynchronously", SCOPE_EVENT, false},
    [STEP_ROLL_BACK] = {"it rolls back", SCOPE_EVENT, false},
    [STEP_FLUSH_WAL] = {"the WAL is flushed", SCOPE_WORLD, false},
    [STEP_LEASE] = {"its question about the lease is answered", SCOPE_RELAY, false},
    [STEP_READ] = {"its read is executed", SCOPE_RELAY, false},
    [STEP_READ_ANSWER] = {"is told what was read", SCOPE_RELAY, false},
    [STEP_MARK] = {"its mark is executed", SCOPE_RELAY, false},
    [STEP_MARK_ANSWER] = {"is told that it is marked", SCOPE_RELAY, false},
    [STEP_SAVE] = {"its save is executed", SCOPE_RELAY, false},
    [STEP_SAVE_ANSWER] = {"is told that it is saved", SCOPE_RELAY, false},
    [STEP_FLUSH] = {"asks for the barrier, and is told", SCOPE_RELAY, false},
    [STEP_TOPIC] = {"is told of its topic", SCOPE_RELAY, false},
    [STEP_SESSION_CLOSE] = {"closes", SCOPE_SESSION, false},
    [STEP_APPEND] = {"the broker takes its next message", SCOPE_SESSION, false},
    [STEP_REPLY] = {"the broker's reply arrives", SCOPE_SESSION, false},
    [STEP_LATE_APPEND] = {"a request of a dead session is executed late", SCOPE_LATE, false},
    [STEP_LATE_REFUSE] = {"a request of a dead session is refused, the later ones go on", SCOPE_LATE, false},
    [STEP_LATE_STATEMENT] = {"a statement of a dead connection is executed late", SCOPE_LATE, false},
    [STEP_TIME] = {"time passes for it: to its beat, or to the end of its lease", SCOPE_RELAY, false},
    [STEP_TIMERS] = {"what waits for a moment of its own is due", SCOPE_RELAY, false},
    [STEP_READ_SLOWLY] = {"its read is executed, the answer is slow", SCOPE_RELAY, true},
    [STEP_READ_UNHEARD] = {"its read is executed, its connections are lost", SCOPE_RELAY, true},
    [STEP_MARK_SLOWLY] = {"its mark is executed, the answer is slow", SCOPE_RELAY, true},
    [STEP_MARK_UNHEARD] = {"its mark is executed, its connections are lost", SCOPE_RELAY, true},
    [STEP_SAVE_SLOWLY] = {"its save is executed, the answer is slow", SCOPE_RELAY, true},
    [STEP_SAVE_UNHEARD] = {"its save is executed, its connections are lost", SCOPE_RELAY, true},
    [STEP_LEASE_UNHEARD] = {"its question about the lease is answered, its connections are lost", SCOPE_RELAY, true},
    [STEP_APPEND_SLOWLY] = {"the broker takes its next message, the reply is slow", SCOPE_SESSION, true},
    [STEP_APPEND_UNHEARD] = {"the broker takes its next message, the reply is lost", SCOPE_SESSION, true},
    [STEP_LEASE_OVER] = {"the lease runs out by the database's clock", SCOPE_WORLD, true},
    [STEP_KILL] = {"is killed, and started again", SCOPE_RELAY, true},
    [STEP_STOP] = {"is told to stop", SCOPE_RELAY, true},
    [STEP_DATABASE_LOST] = {"loses its connections to the database", SCOPE_RELAY, true},
    [STEP_FAIL] = {"a statement of it fails", SCOPE_STATEMENT, true},
    [STEP_CUT] = {"loses its connection to the broker, and every reply on it", SCOPE_SESSION, true},
    [STEP_REFUSE_NOW] = {"the broker refuses its next message for now", SCOPE_SESSION, true},
    [STEP_REFUSE] = {"the broker refuses its next batch for good", SCOPE_BATCH, true},
    [STEP_BREAK] = {"breaks by itself", SCOPE_SESSION, true},
    [STEP_CRASH] = {"the database crashes and loses what was not flushed", SCOPE_WORLD, true},
    [STEP_CRASH_POOLED] = {"the database crashes behind its pooler: the connections stay", SCOPE_WORLD, true},
};

static const enum relay_action_type failing[] = {RELAY_FETCH, RELAY_CATCH_UP, RELAY_WRITERS, RELAY_MARK, RELAY_SAVE};

/* --- one after the other ------------------------------------------------------------------------------------------ */

static unsigned count_of(enum scope scope)
{
    switch (scope) {
    case SCOPE_EVENT:
        return EVENTS_MAX;
    case SCOPE_LATE:
        return LATE_MAX;
    case SCOPE_SESSION:
    case SCOPE_BATCH:
        return RELAY_SESSIONS;
    case SCOPE_STATEMENT:
        return sizeof failing / sizeof *failing;
    case SCOPE_WORLD:
    case SCOPE_RELAY:
        break;
    }
    return 1;
}

struct step step_first(void)
{
    return (struct step){0};
}

bool step_next(struct step *step)
{
    enum scope scope = kinds[step->kind].scope;

    if (scope == SCOPE_BATCH && ++step->b < 3)
        return true;
    step->b = 0;
    if (++step->a < count_of(scope))
        return true;
    step->a = 0;
    if (scope >= SCOPE_RELAY && ++step->relay < RELAYS)
        return true;
    step->relay = 0;
    return ++step->kind < STEPS;
}

bool step_is_likely(const struct world *w, struct step step)
{
    const struct process *p = &w->relays[step.relay];

    if (kinds[step.kind].is_fault && w->faults == 0)
        return false;
    switch (kinds[step.kind].scope) {
    case SCOPE_EVENT:
        return (w->database.open >> step.a & 1) != 0;
    case SCOPE_LATE:
        return w->statements[step.a].type != 0 || w->sessions[step.a].n > 0;
    case SCOPE_SESSION:
    case SCOPE_BATCH:
        return p->sessions[step.a].n > 0 || p->sessions[step.a].state == SESSION_IS_CLOSING;
    case SCOPE_RELAY:
    case SCOPE_STATEMENT:
    case SCOPE_WORLD:
        break;
    }
    return !p->fresh || step.kind == STEP_LEASE || step.kind == STEP_LEASE_UNHEARD || kinds[step.kind].scope == SCOPE_WORLD;
}

/* --- to do -------------------------------------------------------------------------------------------------------- */

static bool late_statement(struct world *w, unsigned late)
{
    struct late_statement s = w->statements[late];

    if (s.type == 0)
        return false;
    memmove(&w->statements[late], &w->statements[late + 1], (LATE_MAX - 1 - late) * sizeof s);
    memset(&w->statements[LATE_MAX - 1], 0, sizeof s);
    if (s.type == RELAY_MARK)
        database_mark(w, &s.statement);
    else if (s.type == RELAY_SAVE)
        database_save(w, &s.statement);
    else
        (void)database_take(w, s.statement.token, RELAYS);
    return true;
}

/* How an answer comes. */
enum hearing {
    AT_ONCE,
    SLOWLY,
    UNHEARD /* the connection is gone */
};

static bool statement_read(struct world *w, unsigned relay, enum hearing hearing)
{
    struct read_statement *read = &w->relays[relay].read;

    if (read->phase != SENT && read->phase != READ)
        return false;
    database_read(w, read);
    if (hearing == UNHEARD)
        return relay_lose_database(w, relay, false);
    if (hearing == AT_ONCE && read->phase == DONE)
        return relay_read_answer(w, relay);
    /* An answer that brings nothing new need not be slow. */
    return hearing == AT_ONCE || read->type == RELAY_WRITERS || read->seen != 0 || read->settled != 0;
}

static bool statement_mark(struct world *w, unsigned relay, enum hearing hearing)
{
    struct write_statement *mark = &w->relays[relay].mark;

    if (mark->phase != SENT)
        return false;
    database_mark(w, mark);
    if (hearing == UNHEARD)
        return relay_lose_database(w, relay, false);
    return hearing == SLOWLY || relay_mark_answer(w, relay);
}

static bool statement_save(struct world *w, unsigned relay, enum hearing hearing)
{
    struct write_statement *save = &w->relays[relay].save;

    if (save->phase != SENT)
        return false;
    database_save(w, save);
    if (hearing == UNHEARD)
        return relay_lose_database(w, relay, false);
    return hearing == SLOWLY || relay_save_answer(w, relay);
}

static bool append(struct world *w, struct step s, enum hearing hearing)
{
    enum relay_session session = (enum relay_session)s.a;

    if (!kafka_append(w, s.relay, session))
        return false;
    if (hearing == UNHEARD)
        return kafka_cut(w, s.relay, session);
    return hearing == SLOWLY || (kafka_reply(w, s.relay, session), true);
}

static bool lease_over(struct world *w)
{
    if (w->database.lease == 0 || w->database.lease_over)
        return false;
    w->database.lease_over = true;
    return true;
}

static bool refuse(struct world *w, struct step s)
{
    if (w->refusals == 0)
        return false;
    w->refusals--;
    return kafka_refuse(w, s.relay, (enum relay_session)s.a, s.b + 1u, true);
}

static bool database_step(struct world *w, struct step s)
{
    switch (s.kind) {
    case STEP_DRAW:
        return database_draw(w);
    case STEP_COMMIT:
        return database_commit(w, s.a, true);
    case STEP_COMMIT_ASYNCHRONOUSLY:
        return explore_play->asynchronous && database_commit(w, s.a, false);
    case STEP_ROLL_BACK:
        return database_roll_back(w, s.a);
    case STEP_FLUSH_WAL:
        return explore_play->asynchronous && database_flush(w);
    case STEP_LATE_STATEMENT:
        return late_statement(w, s.a);
    case STEP_LEASE_OVER:
        return lease_over(w);
    case STEP_CRASH:
        return database_crash(w, false);
    case STEP_CRASH_POOLED:
        return database_crash(w, true);
    default:
        return false;
    }
}

static bool kafka_step(struct world *w, struct step s)
{
    enum relay_session session = (enum relay_session)s.a;

    switch (s.kind) {
    case STEP_SESSION_CLOSE:
        return relay_session_close(w, s.relay, session);
    case STEP_APPEND:
        return append(w, s, AT_ONCE);
    case STEP_APPEND_SLOWLY:
        return append(w, s, SLOWLY);
    case STEP_APPEND_UNHEARD:
        return append(w, s, UNHEARD);
    case STEP_REPLY:
        return kafka_reply(w, s.relay, session);
    case STEP_LATE_APPEND:
        return kafka_late_append(w, s.a);
    case STEP_LATE_REFUSE:
        return kafka_late_refuse(w, s.a);
    case STEP_CUT:
        return kafka_cut(w, s.relay, session);
    case STEP_REFUSE_NOW:
        return kafka_refuse(w, s.relay, session, 1, false);
    case STEP_REFUSE:
        return refuse(w, s);
    case STEP_BREAK:
        return kafka_break(w, s.relay, session);
    default:
        return false;
    }
}

static bool relay_step(struct world *w, struct step s)
{
    switch (s.kind) {
    case STEP_LEASE:
        return relay_lease(w, s.relay);
    case STEP_READ:
        return statement_read(w, s.relay, AT_ONCE);
    case STEP_READ_SLOWLY:
        return statement_read(w, s.relay, SLOWLY);
    case STEP_READ_UNHEARD:
        return statement_read(w, s.relay, UNHEARD);
    case STEP_READ_ANSWER:
        return relay_read_answer(w, s.relay);
    case STEP_MARK:
        return statement_mark(w, s.relay, AT_ONCE);
    case STEP_MARK_SLOWLY:
        return statement_mark(w, s.relay, SLOWLY);
    case STEP_MARK_UNHEARD:
        return statement_mark(w, s.relay, UNHEARD);
    case STEP_MARK_ANSWER:
        return relay_mark_answer(w, s.relay);
    case STEP_SAVE:
        return statement_save(w, s.relay, AT_ONCE);
    case STEP_SAVE_SLOWLY:
        return statement_save(w, s.relay, SLOWLY);
    case STEP_SAVE_UNHEARD:
        return statement_save(w, s.relay, UNHEARD);
    case STEP_LEASE_UNHEARD:
        return relay_lease_unheard(w, s.relay);
    case STEP_SAVE_ANSWER:
        return relay_save_answer(w, s.relay);
    case STEP_FLUSH:
        return relay_flush(w, s.relay);
    case STEP_TOPIC:
        return relay_topic(w, s.relay);
    case STEP_TIME:
        return relay_pass_time(w, s.relay);
    case STEP_TIMERS:
        return relay_timers(w, s.relay);
    case STEP_KILL:
        return relay_kill(w, s.relay);
    case STEP_STOP:
        return relay_stop(w, s.relay);
    case STEP_DATABASE_LOST:
        return relay_lose_database(w, s.relay, false);
    case STEP_FAIL:
        return relay_fail(w, s.relay, failing[s.a]);
    default:
        return kafka_step(w, s);
    }
}

bool step_do(struct world *w, struct step step)
{
    if (kinds[step.kind].is_fault && w->faults == 0)
        return false;
    w->faults = (uint8_t)(w->faults - kinds[step.kind].is_fault);
    return kinds[step.kind].scope < SCOPE_RELAY && step.kind != STEP_LATE_APPEND && step.kind != STEP_LATE_REFUSE ? database_step(w, step)
                                                                                                                  : relay_step(w, step);
}

/* --- to tell ------------------------------------------------------------------------------------------------------ */

void step_describe(struct step step, char *ret_text, size_t size)
{
    static const char *const sessions[RELAY_SESSIONS] = {"session", "probe session"};
    const char *words = kinds[step.kind].words;
    unsigned relay = explore_told[step.relay];

    switch (kinds[step.kind].scope) {
    case SCOPE_WORLD:
    case SCOPE_LATE:
        snprintf(ret_text, size, "%s", words);
        break;
    case SCOPE_EVENT:
        snprintf(ret_text, size, "row %d: %s", (int)id_of(step.a), words);
        break;
    case SCOPE_RELAY:
    case SCOPE_STATEMENT:
        snprintf(ret_text, size, "relay %u: %s", relay, words);
        break;
    case SCOPE_SESSION:
        snprintf(ret_text, size, "relay %u, %s: %s", relay, sessions[step.a], words);
        break;
    case SCOPE_BATCH:
        snprintf(ret_text, size, "relay %u, %s: %s, of %u", relay, sessions[step.a], words, step.b + 1u);
        break;
    }
}
