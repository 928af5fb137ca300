/* SPDX-License-Identifier: BSD-2-Clause */
/* Several relays on one table: one publishes, the others wait and say for whom; whoever dies, stops or stands still is replaced in time. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/crash/line.h"
#include "tests/lib/test.h"

#define LEASE_MS   2000
#define LEASE_TEXT "2000"
#define ORDERLY_MS 300 /* from the end of one to the lease of the next */

static struct process *relay_named(struct line *l, const char *name)
{
    return LINE_RELAY(l, "--name", name, "--instance", name, "--lease-ttl-ms", LEASE_TEXT);
}

/* The time of the last line with `words` in its log, in ms since 1970; 0: there is none. */
static int64_t said_ms(const struct process *relay, const char *words)
{
    const char *text = process_output(relay), *line = NULL, *next = text;

    for (; (next = strstr(next, words)) != NULL; next++)
        line = next;
    while (line != NULL && line > text && line[-1] != '\n')
        line--;
    return line != NULL ? line_time_ms(line) : 0;
}

static bool holds(struct process *relay)
{
    return said_ms(relay, "event=\"lease held\"") > said_ms(relay, "event=\"lease lost\"");
}

/* It says for whom it waits. */
static void check_waits_for(struct process *waiting, const char *holder)
{
    char words[100];

    (void)snprintf(words, sizeof words, "holder=\"%s@%s\"", holder, holder);
    WAIT_UNTIL(e2e_said(waiting, "another relay holds the lease, waiting"), 20);
    if (!e2e_said(waiting, holder))
        test_fail(__FILE__, __LINE__, "it does not say that it waits for %s:\n%s", holder, process_output(waiting));
    CHECK(!e2e_said(waiting, "event=\"lease held\""));
}

static void kill_relay(struct line *l, struct process *relay)
{
    line_strike(l);
    process_signal(relay, SIGKILL);
    CHECK_EQ(process_wait(relay, 5), 128 + SIGKILL);
}

/* Returns how long it took from `from_ms` on. */
static int64_t check_takes_over(struct process *next, int64_t from_ms, int64_t within_ms)
{
    WAIT_UNTIL(said_ms(next, "event=\"lease held\"") > from_ms - 1, 20);
    int64_t took_ms = said_ms(next, "event=\"lease held\"") - from_ms;

    if (took_ms > within_ms * test_slow())
        test_fail(__FILE__, __LINE__, "the next relay took over after %lld ms, not within %lld", (long long)took_ms, (long long)within_ms);
    return took_ms;
}

/* Finding 20: the database's clock was set back by an hour since the last beat, so that it is an hour until the lease is over there. */
TEST_WITHIN(crash_takeover_after_kill_though_the_clock_was_set_back, 60)
{
    struct line *l = line_begin("takeover-clock", NULL);
    struct process *holder = relay_named(l, "one"), *two;
    int64_t took_ms, from_ms;

    WAIT_UNTIL(holds(holder), 20);
    two = relay_named(l, "two");
    check_waits_for(two, "one");
    line_publishing(l);
    kill_relay(l, holder);
    from_ms = e2e_real_ms();
    postgres_query(l->e.db.conninfo, "UPDATE outbox.beat SET beat_at = beat_at + '1 h', expires_at = expires_at + '1 h'");
    took_ms = check_takes_over(two, from_ms, 2 * LEASE_MS);
    line_hit(l, "kill -9 of the holder, whose beat lies an hour ahead", "exit status 137, the next one held the lease %lld ms later",
             (long long)took_ms);
    line_end(l, &(struct line_expected){.windows = LINE_D(1)});
}

/* Three relays of three names; each holder is killed, and the next one is there within the lease and a second. */
TEST_WITHIN(crash_takeover_after_kill, 120)
{
    struct line *l = line_begin("takeover-kill", NULL);
    struct process *holder = relay_named(l, "one"), *two, *three;

    WAIT_UNTIL(holds(holder), 20);
    two = relay_named(l, "two");
    check_waits_for(two, "one");
    for (int i = 0; i < 4; i++) {
        int64_t took_ms;

        three = relay_named(l, i % 2 == 0 ? "three" : "one");
        WAIT_UNTIL(e2e_said(three, "another relay holds the lease, waiting"), 20);
        line_publishing(l);
        CHECK(!holds(two) && !holds(three));
        kill_relay(l, holder);
        WAIT_UNTIL(holds(two) || holds(three), 20);
        took_ms = check_takes_over(holds(two) ? two : three, holder->ended_ms, LEASE_MS + 1000);
        line_hit(l, "kill -9 of the holder beside two that wait", "exit status 137, the next one held the lease %lld ms later",
                 (long long)took_ms);
        line_publishing(l);
        CHECK(holds(two) != holds(three));
        holder = holds(two) ? two : three;
        two = holder == two ? three : two;
    }
    line_end(l, &(struct line_expected){.windows = LINE_D(1)});
}

/* With the default lease of 10 s: an orderly stop does not wait for its end, and costs no duplicate. */
TEST_WITHIN(crash_takeover_after_orderly_stop, 120)
{
    struct line *l = line_begin("takeover-stop", NULL);
    struct process *holder = LINE_RELAY(l, "--lease-ttl-ms", "10000", "--name", "one"), *next;

    for (int i = 0; i < 5; i++) {
        int64_t took_ms;

        WAIT_UNTIL(holds(holder), 20);
        next = LINE_RELAY(l, "--lease-ttl-ms", "10000", "--name", i % 2 == 0 ? "two" : "one");
        WAIT_UNTIL(e2e_said(next, "another relay holds the lease, waiting"), 20);
        line_publishing(l);
        line_strike(l);
        e2e_stop(holder);
        took_ms = check_takes_over(next, said_ms(holder, "event=stopped"), ORDERLY_MS);
        line_hit(l, "orderly stop beside one that waits", "exit status 0, the next one held the lease %lld ms later", (long long)took_ms);
        holder = next;
    }
    line_end(l, &(struct line_expected){0});
}

/* The old holder hands nothing more when it wakes: later copies are of rows that it had handed, or not yet marked, before. */
TEST_WITHIN(crash_takeover_after_pause, 120)
{
    struct line *l = line_begin("takeover-pause", NULL);
    struct process *old = relay_named(l, "one"), *next;

    for (int i = 0; i < 3; i++) {
        WAIT_UNTIL(holds(old), 20);
        next = relay_named(l, i % 2 == 0 ? "two" : "one");
        WAIT_UNTIL(e2e_said(next, "another relay holds the lease, waiting"), 20);
        line_publishing(l);
        for (l->unsettled = 0; l->unsettled < LINE_UNSETTLED_MIN; line_look(l)) {
            process_signal(old, SIGCONT); /* it was too late: nothing was unsettled any more */
            line_strike(l);
            process_signal(old, SIGSTOP);
        }
        int64_t stopped_ms = e2e_real_ms();

        (void)check_takes_over(next, stopped_ms, LEASE_MS + 1000);
        line_publishing(l);
        process_signal(old, SIGCONT);
        WAIT_UNTIL(said_ms(old, "event=\"lease lost\"") > stopped_ms, 20);
        WAIT_UNTIL(said_ms(old, "another relay holds the lease, waiting") > stopped_ms, 20);
        CHECK(!holds(old));
        line_hit(l, "SIGSTOP of the holder past its lease, then SIGCONT", "its log: lease lost, waiting for the other");
        line_publishing(l);
        e2e_stop(old);
        old = next;
    }
    line_end(l, &(struct line_expected){.windows = LINE_D(4)});
}

static void kill_at_random(const char *name, int kills, unsigned seed)
{
    struct line *l = line_begin(name, NULL);
    struct process *relay[2] = {relay_named(l, "one"), relay_named(l, "two")};

    for (int i = 0; i < kills; i++) {
        int victim = (int)(seed = seed * 1103515245 + 12345) >> 16 & 1;
        uint64_t until_ms = test_now_ms() + (seed >> 8) % 700;

        WAIT_UNTIL(test_now_ms() >= until_ms, 2);
        line_burst(l, 1000 + (seed >> 4) % 2000);
        line_look(l);
        if (l->unsettled < LINE_UNSETTLED_MIN)
            line_strike(l);
        process_signal(relay[victim], SIGKILL);
        CHECK_EQ(process_wait(relay[victim], 5), 128 + SIGKILL);
        line_hit(l, "kill -9 of one of two relays at a random moment", "exit status 137");
        relay[victim] = relay_named(l, victim == 0 ? "one" : "two");
    }
    line_end(l, &(struct line_expected){.windows = LINE_D(1)});
}

TEST_WITHIN(crash_relays_killed_at_random, 120)
{
    kill_at_random("kills", 20, 1);
}

TEST_WITHIN(long_relays_killed_at_random, 900)
{
    kill_at_random("kills-long", 200, 2);
}
