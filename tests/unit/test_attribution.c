/* SPDX-License-Identifier: BSD-2-Clause */
/* Planted logs and duplicates: each window explains its own, and nothing that lies beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/lib/attribution.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

#define T0   1000000000000 /* every time of a test is so many ms after this */
#define LOGS 3
#define ALL  0xfeu
#define D(n) (1u << (n))
#define PAIR(earlier, later, marked)                                                                           \
    (struct oracle_duplicate)                                                                                  \
    {                                                                                                          \
        .earlier_ms = T0 + (earlier), .later_ms = T0 + (later), .marked_ms = (marked) != 0 ? T0 + (marked) : 0 \
    }

static struct attribution_process process[LOGS];
static char paths[LOGS][200];

/* Add a line to the log of process `p`. */
static void say(int p, int64_t at_ms, const char *level, const char *rest)
{
    time_t second = (time_t)((T0 + at_ms) / 1000);
    char date[40];
    struct tm t;
    FILE *f;

    (void)snprintf(paths[p], sizeof paths[p], "%s/log-%d", temp_folder(), p);
    process[p].log = paths[p];
    f = fopen(paths[p], "ae");
    CHECK(f != NULL);
    (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", gmtime_r(&second, &t));
    (void)fprintf(f, "ts=%s.%03dZ level=%s event=%s\n", date, (int)((T0 + at_ms) % 1000), level, rest);
    (void)fclose(f);
}

static void hold(int p, int64_t at_ms)
{
    say(p, at_ms, "info", "\"lease held\" name=default floor=7");
}

static struct attribution judge(unsigned processes_n, const struct oracle_duplicate *list, int64_t n, unsigned windows)
{
    struct attribution a;
    char error[300];

    if (!attribution_judge(process, processes_n, list, n, windows, &a, error, sizeof error))
        test_fail(__FILE__, __LINE__, "%s", error);
    return a;
}

/* The number of the window that explains one duplicate, of all allowed ones; 0: none. */
static unsigned window_of(unsigned processes_n, struct oracle_duplicate d, unsigned windows)
{
    struct attribution a = judge(processes_n, &d, 1, windows);

    for (unsigned i = 1; i < ATTRIBUTION_WINDOWS; i++)
        if (a.duplicates[i] > 0)
            return i;
    CHECK_EQ(a.unexplained, 1);
    CHECK_EQ(a.findings_n, 1);
    return 0;
}

TEST(attribution_without_a_fault_explains_nothing)
{
    hold(0, 0);
    say(0, 90000, "info", "stopped name=default status=0 published=10");
    process[0].ended_ms = T0 + 90100;
    CHECK_EQ(window_of(1, PAIR(40000, 40100, 40200), ALL), 0);
    CHECK_EQ(window_of(1, PAIR(89900, 90200, 90300), ALL), 0);
}

TEST(attribution_d1_is_a_log_without_its_closing_line)
{
    hold(0, 0);
    process[0].ended_ms = T0 + 60000;
    hold(1, 62000);
    CHECK_EQ(window_of(2, PAIR(59000, 62100, 62200), ALL), 1);
    CHECK_EQ(window_of(2, PAIR(59000, 62100, 0), ALL), 1);
    CHECK_EQ(window_of(2, PAIR(59000, 62100, 62200), D(3) | D(4)), 0); /* not allowed */
    CHECK_EQ(window_of(2, PAIR(59000, 59200, 59300), ALL), 0);         /* both copies before the death */
    CHECK_EQ(window_of(2, PAIR(59000, 62100, 59100), ALL), 0);         /* marked before the death */
    CHECK_EQ(window_of(2, PAIR(30000, 62100, 62200), ALL), 0);         /* acknowledged long before */
    process[0].ended_ms = 0;
    CHECK_EQ(window_of(2, PAIR(59000, 62100, 62200), ALL), 0); /* it lives */
    say(0, 29000, "warning", "\"statement failed, tried again\" name=default statement=beat reason=x");
    process[0].ended_ms = T0 + 60000;
    CHECK_EQ(window_of(2, PAIR(30000, 62100, 62200), ALL), 1); /* it had trouble by then */
    say(0, 60000, "info", "stopped name=default status=0 published=10");
    CHECK_EQ(window_of(2, PAIR(59000, 62100, 62200), ALL), 0);
}

TEST(attribution_d2_is_a_mark_that_failed)
{
    hold(0, 0);
    say(0, 50000, "warning", "\"statement failed, tried again\" name=default statement=save reason=x");
    CHECK_EQ(window_of(1, PAIR(49900, 50100, 50200), ALL), 0);
    say(0, 50000, "warning", "\"statement failed, tried again\" name=default statement=mark reason=x");
    CHECK_EQ(window_of(1, PAIR(49900, 50100, 50200), ALL), 2);
    CHECK_EQ(window_of(1, PAIR(40000, 50100, 50200), ALL), 0);
    CHECK_EQ(window_of(1, PAIR(48000, 49000, 50200), ALL), 0);
    say(0, 51000, "info", "\"statement works again\" name=default statement=mark");
    say(0, 70000, "error", "\"database lost\" name=default reason=x rows_in_flight=0 rows_unmarked=0");
    CHECK_EQ(window_of(1, PAIR(69900, 70100, 70200), ALL & ~D(5)), 0);
    CHECK_EQ(window_of(1, PAIR(69900, 70100, 70200), ALL), 5); /* if the test says that the database lost marks */
    say(0, 80000, "error", "\"database lost\" name=default reason=x rows_in_flight=1 rows_unmarked=2");
    CHECK_EQ(window_of(1, PAIR(79900, 80100, 80200), ALL), 2);
    say(1, 90000, "warning", "\"stop overran shutdown_ms\" name=default rows_unmarked=3");
    CHECK_EQ(window_of(2, PAIR(89900, 91000, 91200), ALL), 2);
}

TEST(attribution_d3_has_room_for_the_rows_in_flight_only)
{
    struct oracle_duplicate four[4] = {PAIR(49900, 50100, 50200), PAIR(49901, 50100, 50200), PAIR(49902, 50100, 50200),
                                       PAIR(49903, 50100, 50200)};

    hold(0, 0);
    say(0, 40000, "warning", "\"session ends, a new one begins\" name=default reason=x code=_GAPLESS rows_in_flight=0");
    CHECK_EQ(window_of(1, PAIR(39900, 40100, 40200), ALL), 0);
    say(0, 50000, "warning", "\"session ends, a new one begins\" name=default reason=x code=_GAPLESS rows_in_flight=3");
    struct attribution a = judge(1, four, 4, ALL);
    CHECK_EQ(a.duplicates[3], 3);
    CHECK_EQ(a.unexplained, 1);
    CHECK_EQ(window_of(1, PAIR(49000, 49400, 49450), ALL), 0); /* both before */
}

TEST(attribution_d4_wants_another_holder)
{
    hold(0, 0);
    say(0, 60000, "warning", "\"lease lost\" name=default rows_in_flight=5 rows_unmarked=1");
    CHECK_EQ(window_of(1, PAIR(49000, 60100, 60200), ALL), 0);
    hold(1, 52000);
    CHECK_EQ(window_of(2, PAIR(49000, 52100, 52200), ALL), 4);
    CHECK_EQ(window_of(2, PAIR(52100, 60100, 52200), ALL), 4); /* the old holder's copy comes last */
    CHECK_EQ(window_of(2, PAIR(49000, 49500, 52200), ALL), 0);
    say(0, 90000, "warning", "\"lease lost\" name=default rows_in_flight=0 rows_unmarked=0");
    CHECK_EQ(window_of(2, PAIR(120000, 120100, 120200), ALL), 0);
}

TEST(attribution_d4_has_room_for_rows_since_the_last_beat)
{
    struct oracle_duplicate four[4] = {PAIR(51900, 52100, 52200), PAIR(51901, 52100, 52200), PAIR(51902, 52100, 52200),
                                       PAIR(51903, 52100, 52200)};

    hold(0, 0);
    hold(1, 52000);
    say(0, 52300, "warning", "\"lease lost\" name=default rows_in_flight=0 rows_unmarked=1 rows_since_beat=2");
    struct attribution a = judge(2, four, 4, ALL);
    CHECK_EQ(a.duplicates[4], 3);
    CHECK_EQ(a.unexplained, 1);
}

TEST(attribution_d4_is_no_lease_that_came_back_first)
{
    hold(0, 0);
    say(0, 60000, "warning", "\"starting over: the database may have given ids to other events\" rows_in_flight=5 rows_unmarked=1");
    hold(0, 61000);
    hold(1, 90000);
    CHECK_EQ(window_of(2, PAIR(59900, 61100, 61200), D(4)), 0);
    CHECK_EQ(window_of(2, PAIR(59900, 61100, 61200), D(5)), 5);
    CHECK_EQ(window_of(2, PAIR(59000, 61100, 59400), D(5)), 0); /* its mark was not lost */
    CHECK_EQ(window_of(2, PAIR(20000, 61100, 61200), D(5)), 0); /* too old to be lost */
}

TEST(attribution_d7_is_a_producer_that_librdkafka_renewed)
{
    hold(0, 0);
    say(0, 59000, "warning", "librdkafka name=default facility=FAIL text=x");
    say(0, 59500, "debug", "librdkafka name=default facility=DRAIN text=\"Beginning partition drain for epoch bump\"");
    CHECK_EQ(window_of(1, PAIR(43000, 60100, 60200), ALL), 0);
    say(0, 60000, "debug", "librdkafka name=default facility=DRAIN text=\"All partitions drained, bumped epoch to PID{Id:1,Epoch:1}\"");
    CHECK_EQ(window_of(1, PAIR(43000, 60100, 60200), ALL), 7);
    CHECK_EQ(window_of(1, PAIR(43000, 60100, 60200), ALL & ~D(7)), 0);
    CHECK_EQ(window_of(1, PAIR(43000, 59100, 60200), ALL), 0); /* under the producer that was */
    CHECK_EQ(window_of(1, PAIR(95000, 95100, 95200), ALL), 0); /* under the new one, both */
}

TEST(attribution_of_a_log_that_is_not_there)
{
    struct attribution a;
    char error[300] = "";

    process[0].log = "/nowhere/log";
    CHECK(!attribution_judge(process, 1, NULL, 0, ALL, &a, error, sizeof error));
    CHECK_STR(error, "/nowhere/log: No such file or directory");
}
