/* SPDX-License-Identifier: BSD-2-Clause */
/* Real peers for tests: a temporary PostgreSQL on a unix socket, a real Kafka, librdkafka's mock cluster in a process of its own. Each is a
 * child that dies with the test program, on ports and in folders of its own. Failures end the test with a sentence. */
#ifndef TESTS_LIB_SERVICES_H
#define TESTS_LIB_SERVICES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* --- processes ---------------------------------------------------------------------------------------------------- */

struct process {
    pid_t pid;
    int status;       /* of waitpid, once it ended */
    char output[256]; /* the file that stdout and stderr went to */
};

/* Start argv[0] (looked up in PATH), environment inherited plus `env` (NULL-terminated "NAME=value" list, or NULL). Dies with the caller. */
struct process process_start(const char *const *argv, const char *const *env, const char *output);
bool process_running(struct process *p); /* reaps it if it ended */
void process_signal(struct process *p, int signal_number);
int process_wait(struct process *p, unsigned seconds); /* its exit status, 128 + signal; fails the test after `seconds` */
/* Contents of its output so far; lent until the next call. */
const char *process_output(const struct process *p);

const char *temp_folder(void); /* of this test program; removed at its end */
int free_port(void);

/* --- PostgreSQL --------------------------------------------------------------------------------------------------- */

struct postgres {
    char folder[200];   /* data folder; the socket lies beside it */
    char conninfo[400]; /* as the superuser */
    char socket_folder[200];
    int port;
    struct process server;
};

/* initdb and start; `settings` are extra lines of postgresql.conf, or NULL. Not as root: runs as user `postgres` when we are root. */
struct postgres postgres_start(const char *settings);
void postgres_kill(struct postgres *p);          /* kill -9 of the postmaster and its children */
void postgres_restart(struct postgres *p);       /* after a kill or a stop; waits until it answers */
void postgres_stop(struct postgres *p);          /* fast; waits */
void postgres_migrate(const struct postgres *p); /* by the relay's own binary */

/* --- Kafka -------------------------------------------------------------------------------------------------------- */

struct kafka {
    char bootstrap[64];
    int port;
    char folder[200];
    struct process server;
};

struct kafka kafka_start(void); /* real; one node; waits until it answers */
void kafka_kill(struct kafka *k);
void kafka_restart(struct kafka *k);
void kafka_stop(struct kafka *k);
/* `config`: "name=value" pairs separated by commas, or NULL. */
void kafka_topic_create(const char *bootstrap, const char *topic, int partitions, const char *config);
void kafka_topic_delete(const char *bootstrap, const char *topic);

/* The mock cluster: tests/lib/mock_cluster, whose stdin takes commands, one a line:
 *   topic NAME PARTITIONS | error APIKEY CODE COUNT | rtt MS | down | up | leader TOPIC PARTITION BROKER | topic-error NAME CODE */
struct mock {
    char bootstrap[128];
    int commands; /* the write end of its stdin */
    struct process server;
};

struct mock mock_start(int brokers);
void mock_command(struct mock *m, const char *format, ...) __attribute__((format(printf, 2, 3))); /* waits until it is done */
void mock_stop(struct mock *m);

#endif
