/* SPDX-License-Identifier: BSD-2-Clause */
/* explore [--expect RULE,RULE] [--progress] [PLAY...]
 *
 * Explores the plays, by default those of `make test-explore`; `all` is most of them. With --expect the core is a mutant: one of the rules must
 * be found broken in one of the plays. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/explore/explore_search.h"

/* Faults are those of any kind that one run may have; the others are of their kind. All keys share the partition. */
static const struct {
    struct play play;
    enum {
        SHORT,  /* for every change */
        LONG,   /* among `all` */
        BY_NAME /* larger: explored only if asked for */
    } effort;
} plays[] = {
    {{.name = "pair", .keys = "AA", .faults = 1, .refusals = 1, .rollbacks = 1}, SHORT},
    {{.name = "three", .keys = "AAA", .faults = 1, .refusals = 1}, SHORT},
    {{.name = "gaps", .keys = "ABA", .rollbacks = 1}, SHORT},
    {{.name = "gaps4", .keys = "ABCB"}, LONG},
    {{.name = "stop", .keys = "AA", .faults = 1, .stops = 1}, SHORT},
    {{.name = "crash", .keys = "AA", .faults = 1, .crashes = 1, .asynchronous = true}, LONG},
    {{.name = "time", .keys = "AA", .faults = 1, .refusals = 1, .times = 1}, BY_NAME},
    {{.name = "topic", .keys = "AA", .faults = 1, .refusals = 1, .topics = true}, LONG},
    {{.name = "gaps1", .keys = "ABA", .faults = 1, .refusals = 1, .rollbacks = 1}, BY_NAME},
    {{.name = "pair2", .keys = "AA", .faults = 2, .refusals = 1}, BY_NAME},
    {{.name = "three2", .keys = "AAA", .faults = 2, .refusals = 1}, BY_NAME},
};

enum {
    PLAYS = sizeof plays / sizeof *plays,
    STATES_MAX = 120000000
};

static bool is_chosen(unsigned i, char **names, int names_n)
{
    bool chosen = names_n == 0 && plays[i].effort == SHORT;

    for (int k = 0; k < names_n; k++)
        chosen |= strcmp(names[k], plays[i].play.name) == 0 || (strcmp(names[k], "all") == 0 && plays[i].effort != BY_NAME);
    return chosen;
}

/* Each play has a process of its own. */
static bool play_explore(const struct play *play, const struct search_options *options)
{
    pid_t child;
    int status;

    fflush(stdout);
    child = fork();
    if (child == 0)
        search_play(play, options);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
    struct search_options options = {.states_max = STATES_MAX};
    unsigned passed = 0, failed = 0;
    int first = 1;

    for (; first < argc && strncmp(argv[first], "--", 2) == 0; first++) {
        if (strcmp(argv[first], "--progress") == 0)
            options.progress = true;
        else if (strcmp(argv[first], "--expect") == 0 && first + 1 < argc)
            options.expected = argv[++first];
    }
    for (unsigned i = 0; i < PLAYS; i++) {
        if (!is_chosen(i, argv + first, argc - first))
            continue;
        if (play_explore(&plays[i].play, &options))
            passed++;
        else
            failed++;
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed > 0 || passed == 0;
}
