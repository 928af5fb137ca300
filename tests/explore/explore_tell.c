/* SPDX-License-Identifier: BSD-2-Clause */
/* What a core wants, for people who read a trace. */
#include <inttypes.h>
#include <stdio.h>

#include "tests/explore/explore.h"

bool explore_telling;
unsigned explore_told[RELAYS];

static const char *const notes[] = {
    [RELAY_NOTE_LEASE_HELD] = "holds the lease",
    [RELAY_NOTE_LEASE_LOST] = "has lost the lease",
    [RELAY_NOTE_START_OVER] = "starts over",
    [RELAY_NOTE_FLOOR_RESET] = "begins at floor 0",
    [RELAY_NOTE_LANE_BEHIND] = "notes that the lane is behind",
    [RELAY_NOTE_LANE_LIVE] = "notes that the lane is live",
    [RELAY_NOTE_TOPIC_BEHIND] = "notes that the topic is behind",
    [RELAY_NOTE_TOPIC_LIVE] = "notes that the topic is live",
    [RELAY_NOTE_TOPIC_OPEN] = "notes that the topic is open",
    [RELAY_NOTE_KEY_BEHIND] = "notes that a key is behind",
    [RELAY_NOTE_KEY_LIVE] = "notes that a key is live",
    [RELAY_NOTE_KEYS_FULL] = "notes that too many keys wait",
    [RELAY_NOTE_PHANTOM] = "notes a phantom",
    [RELAY_NOTE_SESSION_BROKEN] = "gives up a session",
    [RELAY_NOTE_DROPPED] = "dropped notes",
};

static const char *const actions[] = {
    [RELAY_CONNECT] = "connects",
    [RELAY_LEASE_TAKE] = "asks for the lease",
    [RELAY_LEASE_BEAT] = "beats",
    [RELAY_LEASE_RELEASE] = "releases the lease",
    [RELAY_WRITERS] = "asks who writes",
    [RELAY_FLUSH] = "asks for the barrier",
    [RELAY_TOPIC] = "asks about the topic",
    [RELAY_SESSION_OPEN] = "opens a session",
    [RELAY_SESSION_CLOSE] = "closes a session",
    [RELAY_EXIT] = "exits",
};

static const char *word(const char *const *words, size_t words_n, unsigned i)
{
    return i < words_n && words[i] != NULL ? words[i] : "does something";
}

static void tell_ranges(const struct relay *r)
{
    const int64_t *firsts, *lasts;
    uint32_t n = relay_gaps(r, &firsts, &lasts);

    for (uint32_t i = 0; i < n; i++)
        printf(", gap %" PRId64 "-%" PRId64, firsts[i], lasts[i]);
}

static void tell_marks(const struct relay *r)
{
    const int64_t *ids;
    const struct row_event_id *event_ids;
    uint32_t n = relay_marks(r, &ids, &event_ids);

    for (uint32_t i = 0; i < n; i++)
        printf(" %" PRId64, ids[i]);
}

static void tell_changes(const struct relay *r)
{
    const struct relay_behind *changes;
    uint32_t n = relay_saving(r, &changes);

    for (uint32_t i = 0; i < n; i++) {
        if (changes[i].key_hash != 0)
            printf(", key %c from %" PRId64, (char)('A' + changes[i].key_hash - 1), changes[i].first_id);
        else
            printf(", %s from %" PRId64, changes[i].partition == 0 ? "lane" : "topic", changes[i].first_id);
    }
}

void tell_action(unsigned relay, const struct relay *r, const struct relay_action *a)
{
    const char *session = a->session == RELAY_PROBE ? " (probe)" : "";

    if (a->type == RELAY_DROP)
        return;
    printf("           relay %u ", relay);
    if (a->type == RELAY_FETCH) {
        printf("fetches above %" PRId64, a->from);
        tell_ranges(r);
    } else if (a->type == RELAY_CATCH_UP) {
        printf("catches up from %" PRId64 " to %" PRId64, a->from, a->upto);
    } else if (a->type == RELAY_PUBLISH) {
        printf("publishes row %" PRId64 "%s%s", a->id, event_of(a->event_id) >= IDS_MAX ? ", the second of this id" : "", session);
    } else if (a->type == RELAY_MARK) {
        printf("marks");
        tell_marks(r);
    } else if (a->type == RELAY_SAVE) {
        printf("saves floor %" PRId64, a->from);
        tell_changes(r);
    } else if (a->type == RELAY_NOTE) {
        printf("%s%s", word(notes, sizeof notes / sizeof *notes, a->note), session);
    } else {
        printf("%s%s", word(actions, sizeof actions / sizeof *actions, a->type), session);
    }
    printf("\n");
}
