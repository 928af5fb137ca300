/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of the daemon, for daemon*.c only.
 *
 *   daemon.c         life: settings -> edges, the loop, signals, the end
 *   daemon_act.c     the one switch that performs actions
 *   daemon_events.c  what the edges tell, told to the relay
 *   daemon_tell.c    the log and the pages
 */
#ifndef RELAY_APP_DAEMON_STATE_H
#define RELAY_APP_DAEMON_STATE_H

#include <uv.h>

#include "relay/app/config.h"
#include "relay/app/log.h"
#include "relay/app/stats.h"
#include "relay/core/relay.h"
#include "relay/edge/headers.h"
#include "relay/edge/http.h"
#include "relay/edge/outbox.h"
#include "relay/edge/producer.h"

struct daemon {
    const struct config *config;
    uv_loop_t loop;
    uv_prepare_t before_poll; /* pulls the relay's actions, once before the loop blocks */
    uv_check_t after_poll;
    uv_idle_t more;         /* active while there are more actions than one turn should do */
    uv_timer_t wake, alive; /* when time alone brings an action; for the service manager's watchdog */
    uv_signal_t terminate, interrupt;

    struct relay *relay;
    struct outbox *outbox;
    struct producer *producer;
    struct http *http;
    struct log *log;
    struct stats *stats;

    uint64_t clock_ms; /* CLOCK_BOOTTIME, read again when it is stale... */
    bool clock_stale;
    int64_t real_ms; /* ...together with CLOCK_REALTIME */

    struct headers headers;
    uint64_t lease_asked_ms, lease_until_ms; /* the other relays count from here */

    struct {
        bool asked; /* a question about `number` is on its way: first to Kafka, then for the pin */
        uint32_t number, message_bytes_max;
        int32_t actual_n;
        char reason[256];
    } topic;

    /* transitions, so that each makes one line */
    bool database_known, database_up, kafka_known, kafka_up, waiting_told, ready;
    uint64_t database_lost_ms;
    uint64_t connect_attempts;
    bool failing[RELAY_EXIT + 1];   /* by action: its statement failed last time */
    int64_t blamed_ids[256];        /* rows that were told to be unpublishable, by the end of their id */
    char codes[RELAY_SESSIONS][64]; /* of the last bad report of each */
    const char *code;               /* the last of them; NULL: none yet */

    bool rows_wait; /* `run --drain` ended with rows that got nowhere */
    bool stopping, exited;
    uint64_t drained_ms; /* since when only waiting rows remain; 0: they do not */
    uint64_t acked_rows, drained_acked_rows;
    uint64_t beaten_acked_rows; /* acked_rows when the lease was certain last */
    int status;
};

/* --- daemon.c ----------------------------------------------------------------------------------------------------- */

uint64_t daemon_now(struct daemon *d); /* ms that never go back, and count while the machine sleeps */
void daemon_stop(struct daemon *d, const char *why);

/* --- daemon_act.c ------------------------------------------------------------------------------------------------- */

/* Perform what the relay wants, as much as one turn of the loop should do. Returns when it is to be asked again: 0: there is more;
 * UINT64_MAX: never. */
uint64_t daemon_act(struct daemon *d);
void daemon_event_id_print(const struct row_event_id *id, char text[37]);

/* --- daemon_events.c ---------------------------------------------------------------------------------------------- */

const struct outbox_callbacks *daemon_outbox_callbacks(void);
const struct producer_callbacks *daemon_producer_callbacks(void);

/* --- daemon_tell.c ------------------------------------------------------------------------------------------------ */

const char *daemon_session_word(enum relay_session session);
/* A bad report, or a row that could not be handed: librdkafka's name of the error. */
void daemon_tell_code(struct daemon *d, enum relay_session session, const char *code);
void daemon_tell_note(struct daemon *d, const struct relay_action *note);
void daemon_tell_connected(struct daemon *d);
void daemon_tell_lost(struct daemon *d, const char *reason);
/* `reason` NULL: the statement of `what` worked. One line when that changes. */
void daemon_tell_statement(struct daemon *d, enum relay_action_type what, const char *reason);
void daemon_tell_unpublished(struct daemon *d, const struct relay_action *publish, const char *reason);
unsigned daemon_render(void *data, enum http_page page, char **ret_body, size_t *ret_body_n);

#endif
