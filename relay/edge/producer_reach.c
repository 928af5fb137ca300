/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/edge/producer_reach.h"

#include <stdio.h>

#include "relay/edge/producer_fault.h"

/* Of silence, where no error tells that all brokers are down: a firewall that swallows everything. */
#define SILENCE_MS 5000

bool reach_is_good(const struct reach *r)
{
    return r->state == REACH_GOOD;
}

void reach_doubt(struct reach *r, uint64_t now_ms)
{
    if (!r->doubtful)
        r->doubt_since_ms = now_ms;
    r->doubtful = true;
}

/* A refused login, a bad certificate, a wrong name have these at their heels. */
static bool is_consequence(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__TRANSPORT || error == RD_KAFKA_RESP_ERR__TIMED_OUT || error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
}

void reach_trouble(struct reach *r, rd_kafka_resp_err_t error, const char *text)
{
    if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        r->all_down = true;
    if (r->trouble != RD_KAFKA_RESP_ERR_NO_ERROR && is_consequence(error))
        return;
    r->trouble = error;
    snprintf(r->text, sizeof r->text, "%s", text);
}

bool reach_answered(struct reach *r)
{
    bool changed = r->state != REACH_GOOD;

    r->state = REACH_GOOD;
    r->all_down = r->doubtful = false;
    r->trouble = RD_KAFKA_RESP_ERR_NO_ERROR;
    return changed;
}

bool reach_lost(struct reach *r)
{
    bool changed = r->state != REACH_LOST;

    r->state = REACH_LOST;
    r->told_cause &= !changed;
    return changed;
}

bool reach_silent(struct reach *r, uint64_t now_ms, rd_kafka_resp_err_t error, char *ret_reason, size_t reason_size)
{
    reach_doubt(r, now_ms);
    if (!r->all_down && now_ms - r->doubt_since_ms < SILENCE_MS)
        return false;
    reach_trouble(r, error, rd_kafka_err2str(error));
    producer_fault_sentence(r->trouble, r->text, ret_reason, reason_size);
    bool changed = reach_lost(r), cause = !is_consequence(r->trouble) && !r->told_cause;

    r->told_cause |= cause;
    return changed || cause;
}
