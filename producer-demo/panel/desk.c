/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/desk.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEPT    24
#define THREADS 6

enum state {
    STATE_WAITING,
    STATE_DOING,
    STATE_DONE,
    STATE_FAILED
};

struct press {
    int number; /* 0: this place is free */
    const struct desk_row *row;
    json_t *arguments; /* until it is done */
    enum state state;
    int64_t at_ms;
    char text[400];
};

struct desk {
    const struct desk_row *rows;
    int rows_n;
    void *context;
    pthread_t threads[THREADS];
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t pressed;
    struct press presses[KEPT]; /* a ring: number % KEPT */
    int newest;
    bool stopping;
};

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct press *waiting_find(struct desk *desk)
{
    for (int i = 0; i < KEPT; i++)
        if (desk->presses[i].number && desk->presses[i].state == STATE_WAITING)
            return &desk->presses[i];
    return NULL;
}

/* Called and returns with the mutex held. Its place is not given away before it is done. */
static void press_carry_out(struct desk *desk, struct press *press)
{
    char text[sizeof press->text] = "";
    bool worked;

    press->state = STATE_DOING;
    pthread_mutex_unlock(&desk->mutex);
    worked = press->row->press(desk->context, press->arguments, text, sizeof text);
    pthread_mutex_lock(&desk->mutex);
    memcpy(press->text, text, sizeof text);
    press->state = worked ? STATE_DONE : STATE_FAILED;
    json_decref(press->arguments);
    press->arguments = NULL;
}

static void *desk_run(void *context)
{
    struct desk *desk = context;
    struct press *press;

    pthread_mutex_lock(&desk->mutex);
    while (!desk->stopping) {
        press = waiting_find(desk);
        if (press)
            press_carry_out(desk, press);
        else
            pthread_cond_wait(&desk->pressed, &desk->mutex);
    }
    pthread_mutex_unlock(&desk->mutex);
    return NULL;
}

struct desk *desk_open(const struct desk_row *rows, int rows_n, void *context)
{
    struct desk *desk = calloc(1, sizeof *desk);

    if (!desk)
        abort();
    desk->rows = rows;
    desk->rows_n = rows_n;
    desk->context = context;
    pthread_mutex_init(&desk->mutex, NULL);
    pthread_cond_init(&desk->pressed, NULL);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&desk->threads[i], NULL, desk_run, desk) != 0)
            abort();
    return desk;
}

void desk_close(struct desk *desk)
{
    pthread_mutex_lock(&desk->mutex);
    desk->stopping = true;
    pthread_cond_broadcast(&desk->pressed);
    pthread_mutex_unlock(&desk->mutex);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(desk->threads[i], NULL);
    for (int i = 0; i < KEPT; i++)
        json_decref(desk->presses[i].arguments);
    pthread_cond_destroy(&desk->pressed);
    pthread_mutex_destroy(&desk->mutex);
    free(desk);
}

static bool is_pending(const struct press *press)
{
    return press->number && (press->state == STATE_WAITING || press->state == STATE_DOING);
}

static bool row_is_pending(const struct desk *desk, const struct desk_row *row)
{
    for (int i = 0; i < KEPT; i++)
        if (is_pending(&desk->presses[i]) && desk->presses[i].row == row)
            return true;
    return false;
}

static const struct desk_row *row_find(const struct desk *desk, const char *name)
{
    for (int i = 0; i < desk->rows_n; i++)
        if (strcmp(desk->rows[i].name, name) == 0)
            return &desk->rows[i];
    return NULL;
}

enum desk_answer desk_press(struct desk *desk, const char *name, json_t *arguments, int *ret_number)
{
    const struct desk_row *row = row_find(desk, name);
    enum desk_answer answer = row ? DESK_BUSY : DESK_UNKNOWN;
    struct press *press;

    pthread_mutex_lock(&desk->mutex);
    press = &desk->presses[(desk->newest + 1) % KEPT];
    if (row && !row_is_pending(desk, row) && !is_pending(press)) {
        *ret_number = ++desk->newest;
        *press = (struct press){.number = desk->newest, .row = row, .arguments = json_incref(arguments), .at_ms = now_ms()};
        pthread_cond_signal(&desk->pressed);
        answer = DESK_TAKEN;
    }
    pthread_mutex_unlock(&desk->mutex);
    return answer;
}

json_t *desk_list(struct desk *desk)
{
    static const char *const states[] = {"doing", "doing", "done", "failed"};
    json_t *list = json_array();

    pthread_mutex_lock(&desk->mutex);
    for (int number = desk->newest >= KEPT ? desk->newest - KEPT + 1 : 1; number <= desk->newest; number++) {
        const struct press *press = &desk->presses[number % KEPT];

        json_array_append_new(list, json_pack("{s:i, s:s, s:I, s:s, s:s}", "number", press->number, "button", press->row->name, "at",
                                              (json_int_t)press->at_ms, "state", states[press->state], "text", press->text));
    }
    pthread_mutex_unlock(&desk->mutex);
    return list;
}
