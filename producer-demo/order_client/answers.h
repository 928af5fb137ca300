/* SPDX-License-Identifier: BSD-2-Clause */
/* What an answer means to a client that keeps its key. The question is never whether the server failed, but whether asking again, under the same
 * key, can lead to another answer, and does no harm. All of it is this one table; the first row that fits counts. */
#ifndef PRODUCER_DEMO_ANSWERS_H
#define PRODUCER_DEMO_ANSWERS_H

#include <stdbool.h>

enum answer_meaning {
    ANSWER_DONE,     /* final: it happened */
    ANSWER_RETRY,    /* not final: ask again, under the same key */
    ANSWER_CONFLICT, /* final: what the intent was based on has changed; whoever still wants it reads again and makes a new intent */
    ANSWER_REFUSED,  /* final: it will never happen under this key */
};

struct answer_rule {
    int first, last; /* statuses, both included */
    bool asked;      /* only with Retry-After */
    enum answer_meaning meaning;
    const char *why;
};

static const struct answer_rule answer_rules[] = {
    {0, 0, false, ANSWER_RETRY, "no answer: it may have happened or not, and only the same key can tell"},
    {200, 299, false, ANSWER_DONE, "it happened, now or at an earlier try"},
    {408, 408, false, ANSWER_RETRY, "the server did not get all of it in time"},
    {409, 409, true, ANSWER_RETRY, "an earlier try under this key is still being carried out"},
    {409, 409, false, ANSWER_CONFLICT, "the state of the order does not allow it"},
    {410, 410, false, ANSWER_CONFLICT, "the order was cancelled"},
    {412, 412, false, ANSWER_CONFLICT, "the order has another version by now"},
    {425, 425, false, ANSWER_RETRY, "too early"},
    {429, 429, false, ANSWER_RETRY, "too much at once"},
    {422, 422, false, ANSWER_REFUSED, "the key stands for another request: a mistake of the client, which no retry mends"},
    {400, 499, false, ANSWER_REFUSED, "the request is wrong, and will be wrong again"},
    {501, 501, false, ANSWER_REFUSED, "the server cannot do this at all"},
    {500, 599, false, ANSWER_RETRY, "the server or something behind it failed: it may have happened or not"},
    {0, 999, false, ANSWER_REFUSED, "no answer that a server of ours gives"},
};

/* The row that fits. `retry_after`: the header was there. Lent for ever. */
const struct answer_rule *answer_rule_find(int status, bool retry_after);

#endif
