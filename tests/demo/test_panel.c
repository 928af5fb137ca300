/* SPDX-License-Identifier: BSD-2-Clause */
/* The panel's parts that need no service; what a browser sees is tested in tests/panel. */
#include "producer-demo/lib/web.h"
#include "producer-demo/lib/web_feed.h"
#include "producer-demo/panel/desk.h"
#include "producer-demo/panel/gauges.h"
#include "producer-demo/panel/place.h"
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- gauges --------------------------------------------------------------------------------------------------------- */

static const char page[] =
    "# HELP x_total What.\n# TYPE x_total counter\nx_total{way=\"a\",reason=\"late\"} 3\nx_total{way=\"a\",reason=\"early\"} 4\n"
    "x_total_more 100\ny 2.5\nh_bucket{le=\"0.001\"} 0\nh_bucket{le=\"0.01\"} 50\nh_bucket{le=\"0.1\"} 100\nh_bucket{le=\"+Inf\"} 101\n";

TEST(demo_panel_gauges_are_summed_by_name_and_label)
{
    CHECK_EQ(gauges_sum(page, "x_total"), 7);
    CHECK_EQ(gauges_sum_labelled(page, "x_total", "reason=\"early\""), 4);
    CHECK_EQ(gauges_sum(page, "y") * 10, 25);
    CHECK_EQ(gauges_sum(page, "x"), 0);
    CHECK_EQ(gauges_sum("", "y"), 0);
}

TEST(demo_panel_gauges_tell_the_percentile_of_what_came_since)
{
    struct gauges_histogram none = {0}, before, now;

    gauges_histogram_read(page, "h", &before);
    CHECK_EQ(before.n, 4);
    CHECK_EQ(gauges_percentile(&none, &before, 25), 5545);    /* 25.25 of the 50 between 1 and 10 ms */
    CHECK_EQ(gauges_percentile(&none, &before, 100), 100000); /* beyond the last bound: that */
    CHECK_EQ(gauges_percentile(&before, &before, 50), 0);
    now = before;
    now.counts[2] += 10;
    now.counts[3] += 10;
    CHECK_EQ(gauges_percentile(&before, &now, 50), 55000); /* the ten that came lie between 10 and 100 ms */
    now.counts[3] = 5;                                     /* a counter that began anew */
    CHECK(gauges_percentile(&before, &now, 50) > 0);
}

/* --- places --------------------------------------------------------------------------------------------------------- */

static void number_write(const char *folder, const char *file, long number)
{
    char path[300];
    FILE *to;

    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    to = fopen(path, "w");
    CHECK(to);
    (void)fprintf(to, "%ld\n", number);
    (void)fclose(to);
}

TEST(demo_panel_place_knows_what_a_process_does)
{
    char folder[] = "/tmp/panel-XXXXXX", path[64];
    pid_t child, told;

    CHECK(mkdtemp(folder));
    CHECK_EQ(place_look(folder, "relay").state, PLACE_ABSENT);
    child = fork();
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    number_write(folder, "relay.pid", child);
    number_write(folder, "relay.port", 8123);
    CHECK_EQ(place_look(folder, "relay").state, PLACE_RUNNING);
    CHECK_EQ(place_look(folder, "relay").port, 8123);
    CHECK(place_signal(folder, "relay", SIGSTOP, &told) && told == child);
    WAIT_UNTIL(place_look(folder, "relay").state == PLACE_FROZEN, 10);
    CHECK(place_signal(folder, "relay", SIGKILL, &told));
    WAIT_UNTIL(place_look(folder, "relay").state == PLACE_DEAD, 10); /* nobody has waited for it yet */
    CHECK(!place_signal(folder, "relay", SIGKILL, &told));
    CHECK_EQ(waitpid(child, NULL, 0), child);
    CHECK_EQ(place_look(folder, "relay").state, PLACE_DEAD);
    CHECK(place_keep_down(folder, "relay", true) && place_keep_down(folder, "relay", true));
    CHECK_EQ(place_look(folder, "relay").state, PLACE_DOWN);
    CHECK(place_keep_down(folder, "relay", false) && place_keep_down(folder, "relay", false));
    CHECK_EQ(place_look(folder, "relay").state, PLACE_DEAD);
    for (const char *const *name = (const char *const[]){"pid", "port", NULL}; *name; name++) {
        (void)snprintf(path, sizeof path, "%s/relay.%s", folder, *name);
        (void)unlink(path);
    }
    CHECK_EQ(rmdir(folder), 0);
}

/* --- desk ----------------------------------------------------------------------------------------------------------- */

static bool press_waiting(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    atomic_int *go = context;

    WAIT_UNTIL(*go, 20);
    (void)snprintf(ret_text, text_size, "%s", json_string_value(json_object_get(arguments, "say")));
    return *go == 1;
}

static bool desk_says(struct desk *desk, size_t at, const char *state, const char *text)
{
    json_t *list = desk_list(desk), *press = json_array_get(list, at);
    bool says = press && strcmp(json_string_value(json_object_get(press, "state")), state) == 0 &&
                strcmp(json_string_value(json_object_get(press, "text")), text) == 0;

    json_decref(list);
    return says;
}

TEST(demo_panel_desk_presses_a_button_once_at_a_time)
{
    atomic_int go = 0;
    const struct desk_row rows[] = {{"wait", press_waiting}, {"other", press_waiting}};
    struct desk *desk = desk_open(rows, 2, &go);
    json_t *arguments = json_pack("{s:s}", "say", "so");
    int number = 0;

    CHECK_EQ(desk_press(desk, "nothing", arguments, &number), DESK_UNKNOWN);
    CHECK_EQ(desk_press(desk, "wait", arguments, &number), DESK_TAKEN);
    CHECK_EQ(number, 1);
    CHECK_EQ(desk_press(desk, "wait", arguments, &number), DESK_BUSY);
    CHECK_EQ(desk_press(desk, "other", arguments, &number), DESK_TAKEN);
    CHECK(desk_says(desk, 0, "doing", ""));
    go = 1;
    WAIT_UNTIL(desk_says(desk, 0, "done", "so") && desk_says(desk, 1, "done", "so"), 20);
    for (int i = 0; i < 60; i++) { /* more than are remembered */
        WAIT_UNTIL(desk_press(desk, "wait", arguments, &number) == DESK_TAKEN, 20);
        CHECK_EQ(number, i + 3);
    }
    go = 2;
    WAIT_UNTIL(desk_press(desk, "wait", arguments, &number) == DESK_TAKEN, 20);
    WAIT_UNTIL(desk_says(desk, 23, "failed", "so"), 20);
    json_decref(arguments);
    desk_close(desk);
}

/* --- feeds ---------------------------------------------------------------------------------------------------------- */

static void handle(void *context, const struct web_request *request, struct web_response *response)
{
    (void)request;
    response->status = 200;
    response->content_type = "text/event-stream";
    response->feed = context;
}

static int reader_connect(int port)
{
    const char question[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK_EQ(write(fd, question, sizeof question - 1), (ssize_t)(sizeof question - 1));
    return fd;
}

/* Read on until `wanted` has come, or the end. */
static bool reader_reads(int fd, const char *wanted)
{
    static char all[1 << 20];
    size_t n = 0;
    ssize_t more;

    while (n < sizeof all - 1 && (more = read(fd, all + n, sizeof all - 1 - n)) > 0) {
        n += (size_t)more;
        all[n] = 0;
        if (strstr(all, wanted))
            return true;
    }
    return false;
}

static void publish(struct web_feed *feed, const char *text)
{
    web_feed_publish(feed, strdup(text), strlen(text));
}

TEST(demo_panel_feed_gives_the_newest_to_all_and_ends_in_order)
{
    char reason[200];
    struct web_feed *feed = web_feed_open();
    struct web *web = web_start(
        &(struct web_settings){.listen = "127.0.0.1:0", .threads = 2, .body_max = 100, .timeout_s = 2, .handler = handle, .context = feed},
        reason, sizeof reason);
    int first, second, gone;
    time_t begun = time(NULL);

    CHECK(web);
    publish(feed, "data: one\n\n");
    first = reader_connect(web_port(web));
    second = reader_connect(web_port(web));
    gone = reader_connect(web_port(web));
    CHECK(reader_reads(first, "data: one\n\n") && reader_reads(second, "data: one\n\n") && reader_reads(gone, "data: one\n\n"));
    CHECK_EQ(web_feed_readers(feed), 3);
    (void)close(gone);
    for (uint64_t end_ms = test_now_ms() + 10000; web_feed_readers(feed) > 2 && test_now_ms() < end_ms;) {
        /* noticed when there is something to send */
        publish(feed, "data: two\n\n");
        (void)reader_reads(first, "two");
    }
    CHECK_EQ(web_feed_readers(feed), 2);
    WAIT_UNTIL(time(NULL) > begun + 3, 10); /* a request may take two seconds, a feed as long as it likes */
    publish(feed, "data: three\n\n");
    CHECK(reader_reads(second, "data: three\n\n"));
    web_feed_end(feed);
    CHECK(!reader_reads(first, "data: four"));
    web_stop(web);
    web_feed_close(feed);
    (void)close(first);
    (void)close(second);
}
