/* SPDX-License-Identifier: BSD-2-Clause */
/* librdkafka and the broker, for one partition: messages in their order, sequence numbers, retries; gapless, as the edge sets it. */
#include <string.h>

#include "tests/explore/explore.h"

/* --- the broker --------------------------------------------------------------------------------------------------- */

/* The message in place `i` arrives. Returns what became of it. */
static enum message_state arrive(struct world *w, struct session *s, unsigned i)
{
    int8_t sequence = s->sequence[i];

    if (s->known && sequence < 0)
        return MESSAGE_APPENDED; /* a copy: acknowledged again */
    if (s->known && sequence > 0)
        return MESSAGE_WRONG_TURN;
    judge_append(w, s->event[i]);
    w->log |= (event_set)(1u << s->event[i]);
    s->known = true;
    for (unsigned k = 0; k < s->n; k++)
        s->sequence[k] = (int8_t)(s->sequence[k] - sequence - 1);
    s->next = (int8_t)(s->next - sequence - 1);
    return MESSAGE_APPENDED;
}

static unsigned first_in(const struct session *s, enum message_state state)
{
    unsigned i = 0;

    while (i < s->n && s->message[i] != state)
        i++;
    return i;
}

bool kafka_append(struct world *w, unsigned relay, enum relay_session session)
{
    struct session *s = &w->relays[relay].sessions[session];
    unsigned i = first_in(s, MESSAGE_SENT);

    if (i == s->n)
        return false;
    s->message[i] = (uint8_t)arrive(w, s, i);
    return true;
}

bool kafka_refuse(struct world *w, unsigned relay, enum relay_session session, unsigned rows, bool for_good)
{
    struct session *s = &w->relays[relay].sessions[session];
    unsigned i = first_in(s, MESSAGE_SENT);

    if (s->n - i < rows || (s->known && s->sequence[i] != 0))
        return false;
    for (unsigned k = i; k < i + rows; k++) {
        if (s->message[k] != MESSAGE_SENT)
            return false;
        s->message[k] = for_good ? MESSAGE_REFUSED : MESSAGE_NOT_NOW;
    }
    return true;
}

bool kafka_forget(struct world *w, unsigned relay, enum relay_session session)
{
    struct session *s = &w->relays[relay].sessions[session];

    if (s->state != SESSION_IS_OPEN || !s->known || !s->idle)
        return false;
    s->known = false;
    return true;
}

/* --- the client --------------------------------------------------------------------------------------------------- */

static void message_remove(struct session *s, unsigned i)
{
    s->n--;
    for (; i < s->n; i++) {
        s->event[i] = s->event[i + 1];
        s->message[i] = s->message[i + 1];
        s->sequence[i] = s->sequence[i + 1];
    }
    s->event[i] = s->message[i] = 0;
    s->sequence[i] = 0;
}

void kafka_enqueue(struct session *s, uint8_t event)
{
    if (s->n == IN_FLIGHT_MAX)
        explore_violation("explorer", "too many messages in flight");
    s->idle = false;
    s->event[s->n] = event;
    s->message[s->n] = MESSAGE_SENT;
    s->sequence[s->n++] = s->next++;
}

/* Once nothing is in flight any more, everything that was not appended is sent again. */
static void send_again(struct session *s)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->message[i] != MESSAGE_AGAIN)
            return;
    for (unsigned i = 0; i < s->n && !s->fatal; i++)
        s->message[i] = MESSAGE_SENT;
}

static void session_fatal(struct world *w, unsigned relay, enum relay_session session)
{
    struct session *s = &w->relays[relay].sessions[session];

    if (s->fatal)
        return;
    s->fatal = true;
    relay_session_broken(w, relay, session);
}

/* Acknowledged. An acknowledgement counts for all earlier ones too. */
static void on_appended(struct world *w, unsigned relay, enum relay_session session, unsigned i)
{
    struct session *s = &w->relays[relay].sessions[session];

    for (unsigned n = i + 1; n > 0; n--) {
        uint8_t event = s->event[0];

        message_remove(s, 0);
        relay_report(w, relay, session, event, RELAY_FAULT_NONE);
    }
}

#ifdef MUTANT_NO_GAPLESS
/* enable.gapless.guarantee=false: a new producer number, and what is queued goes on without the one that was refused. */
static bool renumber(struct session *s)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->message[i] != MESSAGE_AGAIN && s->message[i] != MESSAGE_SENT)
            return false;
    s->known = false;
    for (unsigned i = 0; i < s->n; i++)
        s->sequence[i] = (int8_t)i;
    s->next = (int8_t)s->n;
    return true;
}
#endif

static void on_refused(struct world *w, unsigned relay, enum relay_session session, unsigned i)
{
    struct session *s = &w->relays[relay].sessions[session];

    while (i < s->n && s->message[i] == MESSAGE_REFUSED) {
        uint8_t event = s->event[i];

        message_remove(s, i);
#ifdef MUTANT_NO_GAPLESS
        if (!renumber(s))
#endif
            session_fatal(w, relay, session);
        relay_report(w, relay, session, event, RELAY_FAULT_ROW);
    }
}

bool kafka_reply(struct world *w, unsigned relay, enum relay_session session)
{
    struct session *s = &w->relays[relay].sessions[session];
    unsigned i = 0;

    while (i < s->n && s->message[i] == MESSAGE_AGAIN)
        i++;
    if (i == s->n || s->message[i] == MESSAGE_SENT)
        return false;
    if (s->message[i] == MESSAGE_APPENDED) {
        on_appended(w, relay, session, i);
    } else if (s->message[i] == MESSAGE_REFUSED) {
        on_refused(w, relay, session, i);
    } else {
        bool is_wrong = s->message[i] == MESSAGE_WRONG_TURN && i == 0; /* the oldest one cannot be, if nothing went wrong */

        s->message[i] = MESSAGE_AGAIN;
        if (is_wrong)
            session_fatal(w, relay, session);
    }
    send_again(s);
    return true;
}

bool kafka_cut(struct world *w, unsigned relay, enum relay_session session)
{
    struct session *s = &w->relays[relay].sessions[session];
    bool some = false;

    for (unsigned i = 0; i < s->n; i++) {
        some |= s->message[i] != MESSAGE_AGAIN && s->message[i] != MESSAGE_SENT;
        s->message[i] = MESSAGE_AGAIN;
    }
    send_again(s);
    return some;
}

bool kafka_break(struct world *w, unsigned relay, enum relay_session session)
{
    struct session *s = &w->relays[relay].sessions[session];

    if (s->state != SESSION_IS_OPEN || s->fatal || s->n == 0)
        return false;
    session_fatal(w, relay, session);
    return true;
}

/* --- late requests ------------------------------------------------------------------------------------------------ */

/* What can never be appended is not kept; an empty one is all zero. */
static void late_prune(struct session *s)
{
    while (s->n > 0 && s->known && s->sequence[0] < 0)
        message_remove(s, 0);
    if (s->n == 0 || (s->known && s->sequence[0] > 0)) {
        memset(s, 0, sizeof *s);
        return;
    }
    if (s->known)
        return;
    /* Any first number is accepted; the rest counts from it. */
    for (unsigned i = 1; i < s->n; i++)
        s->sequence[i] = (int8_t)(s->sequence[i] - s->sequence[0]);
    s->sequence[0] = 0;
}

void kafka_late_sort(struct world *w)
{
    for (unsigned i = 0; i < LATE_MAX; i++)
        late_prune(&w->sessions[i]);
    for (unsigned i = 1; i < LATE_MAX; i++) {
        for (unsigned k = i; k > 0 && memcmp(&w->sessions[k - 1], &w->sessions[k], sizeof w->sessions[0]) < 0; k--) {
            struct session s = w->sessions[k];

            w->sessions[k] = w->sessions[k - 1];
            w->sessions[k - 1] = s;
        }
    }
}

void kafka_late(struct world *w, const struct session *s)
{
    struct session late = *s;

    for (unsigned i = 0; i < late.n;) {
        if (late.message[i] == MESSAGE_SENT)
            i++;
        else
            message_remove(&late, i);
    }
    late.state = late.fatal = late.idle = 0;
    late.next = 0;
    late_prune(&late);
    if (late.n == 0 || w->sessions[LATE_MAX - 1].n > 0)
        return;
    w->sessions[LATE_MAX - 1] = late;
    kafka_late_sort(w);
}

bool kafka_late_append(struct world *w, unsigned late)
{
    struct session *s = &w->sessions[late];

    if (s->n == 0)
        return false;
    (void)arrive(w, s, 0);
    s->next = 0;
    message_remove(s, 0);
    kafka_late_sort(w);
    return true;
}

/* Refused, or lost: the later ones go on. */
bool kafka_late_refuse(struct world *w, unsigned late)
{
    struct session *s = &w->sessions[late];

    if (s->n == 0)
        return false;
    message_remove(s, 0);
    kafka_late_sort(w);
    return true;
}
