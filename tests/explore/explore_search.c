/* SPDX-License-Identifier: BSD-2-Clause */
/* Breadth first over every state that can be reached, with a hash set. A state is a few numbers, those of its parts. A broken rule ends the
 * run with the shortest way to it. */
#include "tests/explore/explore_search.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/explore/explore.h"
#include "tests/explore/explore_parts.h"

struct node {
    uint32_t parts[PARTS];
    uint32_t parent;
    struct step step; /* that led here; its relay's number is that in the parent... */
    bool swapped;     /* ...and then the relays changed places */
};

const struct play *explore_play;

static struct {
    struct node *nodes;
    uint32_t n, max, *table, table_mask;
    uint64_t transitions;
    uint32_t current; /* the state of which the next ones are made... */
    struct step step; /* ...by this step */
    bool trying;
    const struct search_options *options;
    const char *rule; /* that is broken */
    struct timespec began;
} run;

/* --- states ------------------------------------------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - run.began.tv_sec) + (double)(now.tv_nsec - run.began.tv_nsec) / 1e9;
}

static uint64_t node_hash(const uint32_t parts[PARTS])
{
    uint64_t hash = 0;

    for (unsigned i = 0; i < PARTS; i++)
        hash = (hash ^ parts[i]) * 0x9fb21c651e98df25u + (hash >> 29);
    return hash ^ (hash >> 32);
}

static void table_add(uint32_t number)
{
    uint64_t at = node_hash(run.nodes[number].parts);

    while (run.table[at & run.table_mask] != 0)
        at++;
    run.table[at & run.table_mask] = number + 1;
}

static void table_grow(void)
{
    run.table_mask = run.table_mask * 2 + 1;
    free(run.table);
    run.table = calloc((size_t)run.table_mask + 1, sizeof *run.table);
    assert(run.table != NULL);
    for (uint32_t i = 0; i < run.n; i++)
        table_add(i);
}

static bool is_known(const uint32_t parts[PARTS])
{
    for (uint64_t at = node_hash(parts); run.table[at & run.table_mask] != 0; at++)
        if (memcmp(run.nodes[run.table[at & run.table_mask] - 1].parts, parts, sizeof(uint32_t) * PARTS) == 0)
            return true;
    return false;
}

/* The relays are alike: they change places, where that makes two states equal. */
static bool parts_order(struct world *w, uint32_t parts[PARTS])
{
    uint32_t part = parts[0];

    if (parts[0] <= parts[1])
        return false;
    parts[0] = parts[1];
    parts[1] = part;
    if (w->database.lease_relay != 0)
        w->database.lease_relay = (uint8_t)(3 - w->database.lease_relay);
    return true;
}

static void state_add(struct world *w, const struct world *before)
{
    struct node node = {.parent = run.current, .step = run.step};

    parts_of_relays(w, before, run.nodes[run.current].parts, node.parts);
    node.swapped = parts_order(w, node.parts);
    parts_of_rest(w, node.parts);
    if (is_known(node.parts))
        return;
    if (run.n == run.max)
        explore_violation("explorer", "there are more than %u states", run.max);
    run.nodes[run.n++] = node;
    if (run.n > run.table_mask / 4 * 3)
        table_grow();
    else
        table_add(run.n - 1);
}

/* --- the way to a state ------------------------------------------------------------------------------------------- */

/* A step in words, and what the cores do about it. */
static void print_step(unsigned number, uint32_t from, struct step step, bool swapped)
{
    struct world w;
    char text[200];

    parts_world(run.nodes[from].parts, &w);
    explore_told[0] = swapped ? 2 : 1;
    explore_told[1] = swapped ? 1 : 2;
    step_describe(step, text, sizeof text);
    printf("  %3u  %s\n", number, text);
    explore_telling = true;
    (void)step_do(&w, step);
    explore_telling = false;
}

/* Prints the steps to `number`. Returns whether the relays have changed places since the beginning. */
static bool print_way(uint32_t number, unsigned *ret_steps)
{
    const struct node *node = &run.nodes[number];
    bool swapped;

    *ret_steps = 0;
    if (number == 0)
        return false;
    swapped = print_way(node->parent, ret_steps);
    print_step(++*ret_steps, node->parent, node->step, swapped);
    return swapped != node->swapped;
}

static void print_sums(uint32_t depth, const char *end)
{
    printf("%-6s %9u states, depth %2u, %10" PRIu64 " transitions, %6u cores, %.1f s: %s\n", explore_play->name, run.n, depth,
           run.transitions, cores_n(), seconds(), end);
    fflush(stdout);
}

static bool is_expected(const char *rule)
{
    return run.options->expected != NULL && strstr(run.options->expected, rule) != NULL;
}

_Noreturn void explore_violation(const char *rule, const char *format, ...)
{
    char end[100];
    va_list args;
    unsigned steps = 0;
    bool swapped;

    if (run.rule == NULL) {
        run.rule = rule;
        swapped = print_way(run.current, &steps);
        if (run.trying)
            print_step(steps + 1, run.current, run.step, swapped); /* for its words; breaks the rule again, and comes back here */
    }
    printf("       ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    snprintf(end, sizeof end, "VIOLATION of %s%s", run.rule, is_expected(run.rule) ? ", as expected" : "");
    print_sums(0, end);
    _exit(is_expected(run.rule) ? 0 : 1);
}

static void on_abort(int signo)
{
    (void)signo;
    explore_violation("assert", "an assert of the core failed");
}

/* --- the search --------------------------------------------------------------------------------------------------- */

static void expand(uint32_t number)
{
    struct world before, after;

    run.current = number;
    parts_world(run.nodes[number].parts, &before);
    run.step = step_first();
    run.trying = true;
    do {
        if (!step_is_likely(&before, run.step))
            continue;
        after = before;
        if (!step_do(&after, run.step))
            continue;
        run.transitions++;
        state_add(&after, &before);
    } while (step_next(&run.step));
    run.trying = false;
}

static void world_begin(struct world *w)
{
    memset(w, 0, sizeof *w);
    w->faults = explore_play->faults;
    w->refusals = explore_play->refusals;
    w->crashes = explore_play->crashes;
    w->stops = explore_play->stops;
    w->rollbacks = explore_play->rollbacks;
    w->times = explore_play->times;
    for (unsigned i = 0; i < RELAYS; i++)
        relay_start(w, i);
}

static uint32_t search(void)
{
    struct world w;
    uint32_t depth = 0, layer_end = 1;

    world_begin(&w);
    parts_first(&w, run.nodes[0].parts);
    run.n = 1;
    table_add(0);
    for (uint32_t i = 0; i < run.n; i++) {
        if (i == layer_end) {
            depth++;
            layer_end = run.n;
            if (run.options->progress)
                print_sums(depth, "...");
        }
        expand(i);
    }
    return depth;
}

void search_play(const struct play *play, const struct search_options *options)
{
    uint32_t depth;

    explore_play = play;
    run.options = options;
    run.max = options->states_max;
    clock_gettime(CLOCK_MONOTONIC, &run.began);
    signal(SIGABRT, on_abort);
    /* Pages that are never written to cost nothing. */
    run.nodes = mmap(NULL, (size_t)run.max * sizeof *run.nodes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert(run.nodes != MAP_FAILED);
    run.table_mask = (1u << 15) - 1;
    table_grow();
    cores_start();
    depth = search();
    print_sums(depth, options->expected == NULL ? "the frontier is empty, nothing is broken" : "NOT CAUGHT");
    _exit(options->expected == NULL ? 0 : 1);
}
