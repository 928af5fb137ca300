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
    int64_t ended_ms; /* since 1970: when it was seen to have ended; 0: it was not */
    char output[256]; /* the file that stdout and stderr went to */
};

/* Start argv[0] (looked up in PATH), environment inherited plus `env` (NULL-terminated "NAME=value" list, or NULL). Dies with the caller.
 * Its output goes to the file `output`, in temp_folder() unless it is a path; NULL: a new "NAME-N.log" there. A restart appends. */
struct process process_start(const char *const *argv, const char *const *env, const char *output);
/* The same, with more to choose. */
struct process_options {
    const char *user; /* to run as, if we are root; NULL: as we are */
    int input;        /* becomes its stdin; 0: /dev/null */
};
struct process process_start_with(const char *const *argv, const char *const *env, const char *output, struct process_options options);
bool process_running(struct process *p);                   /* reaps it if it ended */
void process_signal(struct process *p, int signal_number); /* after SIGSTOP it waits until every thread has stopped */
int process_wait(struct process *p, unsigned seconds);     /* its exit status, 128 + signal; fails the test after `seconds` */
/* Run to its end, and fail the test with its output unless it exits with 0. */
void process_run(const char *const *argv, const char *const *env, struct process_options options, unsigned seconds);
/* Contents of its output so far; lent until the next call. */
const char *process_output(const struct process *p);

/* Of this test (in test_suite_start: shared by the tests of this program); removed at its end. *.log files in it are shown if it fails. */
const char *temp_folder(void);
int free_port(void); /* on 127.0.0.1; below the range from which outgoing connections take theirs */

/* --- PostgreSQL --------------------------------------------------------------------------------------------------- */

struct postgres {
    char folder[200];   /* data folder; the socket lies beside it */
    char conninfo[400]; /* as the superuser */
    char socket_folder[200];
    int port;
    struct process server;
};

/* A new cluster, started; `settings` are extra lines of postgresql.conf, or NULL. Not as root: runs as user `postgres` when we are root.
 * No TCP, unless `settings` say listen_addresses (the port is free). Clusters of one test program have one system identifier: they are
 * copies of one initdb. */
struct postgres postgres_start(const char *settings);
void postgres_kill(struct postgres *p);                           /* kill -9 of the postmaster and its children */
void postgres_restart(struct postgres *p);                        /* after a kill or a stop; waits until it answers */
void postgres_stop(struct postgres *p);                           /* fast; waits */
void postgres_stop_by(struct postgres *p, int signal_number);     /* SIGTERM smart, SIGINT fast, SIGQUIT immediate; does not wait */
void postgres_migrate(const struct postgres *p);                  /* by the relay's own binary */
void postgres_settings(struct postgres *p, const char *settings); /* more lines of postgresql.conf, from the next start or reload */
void postgres_reload(struct postgres *p);                         /* postgresql.conf and pg_hba.conf; tells the server and goes on */
/* A copy of the running `primary` by pg_basebackup, started: it streams from it under the application_name `name`, and answers reads.
 * `settings`: as above, after those of the primary. */
struct postgres postgres_standby(const struct postgres *primary, const char *name, const char *settings);
void postgres_promote(struct postgres *standby); /* waits until it takes writes */
/* Move a part of the data folder ("base", "pg_wal") to a disk of its own of so many megabytes; in between the server is stopped. The disk
 * is seen by this test and its children only, and gone with them. */
void postgres_disk(struct postgres *p, const char *part, unsigned megabytes);
void postgres_disk_fill(const struct postgres *p, const char *part); /* to the last byte, by a file... */
void postgres_disk_free(const struct postgres *p, const char *part); /* ...that is removed again */
void postgres_forget(const char *folder);                            /* for the harness: what killed servers below it left in the kernel */

/* Run statements on a connection of their own. Returns the rows of the last one, columns separated by tabs, rows by newlines (none after
 * the last), NULL as nothing; lent until the 16th next call. An error fails the test. Write %% for %. */
const char *postgres_query(const char *conninfo, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, for one number (0 where there is NULL or no row). */
int64_t postgres_number(const char *conninfo, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, where an error is expected: returns its SQLSTATE, or "" if there was none. */
const char *postgres_error(const char *conninfo, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- PgBouncer ---------------------------------------------------------------------------------------------------- */

struct pgbouncer {
    char folder[200];   /* of its socket and its files */
    char conninfo[400]; /* as the superuser, through it */
    char console[400];  /* its own console, for postgres_query: SHOW POOLS and the like; every answer is text */
    int port;
    const char *settings; /* borrowed for good */
    struct process server;
};

/* In front of `p` (which may be down), in transaction mode, for every database and user of it; waits until it listens. On a unix socket
 * only. `settings` are extra lines of its [pgbouncer] section, or NULL; later ones win. Runs as user `postgres` when we are root. */
struct pgbouncer pgbouncer_start(const struct postgres *p, const char *settings);
void pgbouncer_kill(struct pgbouncer *b);
void pgbouncer_restart(struct pgbouncer *b); /* after a kill or a stop; waits until it listens */
void pgbouncer_stop(struct pgbouncer *b);    /* at once, without waiting for its clients */
/* Between statements: its clients wait from now on, and it has no connection to the server any more... */
void pgbouncer_pause(struct pgbouncer *b);
/* ...until they are served again, by `p`, who may be another server than before. */
void pgbouncer_resume(struct pgbouncer *b, const struct postgres *p);

/* --- Redis -------------------------------------------------------------------------------------------------------- */

struct redis {
    char address[64]; /* host:port */
    char folder[200];
    int port;
    struct process server;
};

/* One that keeps everything in memory only; waits until it answers. For programs that are linked with hiredis (test-demo). */
struct redis redis_start(void);
void redis_kill(struct redis *r);
void redis_restart(struct redis *r); /* after a kill or a stop, and empty; waits until it answers */
void redis_stop(struct redis *r);    /* waits */
/* Carry out one command ("FLUSHALL", "EXISTS %s"); the number that it answered, 0 if the answer was none. An error fails the test. */
int64_t redis_number(const struct redis *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- Kafka -------------------------------------------------------------------------------------------------------- */

struct kafka {
    char bootstrap[64]; /* without a password, and everything is allowed here */
    char secure[64];    /* of kafka_start_secure: its other listener */
    char protocol[24];  /* of that one */
    char voters[128];   /* who may be controller */
    int node;           /* its number: 1, 2, 3 */
    int port, controller_port;
    int proxied_port; /* one more listener: what comes there is told to go on to 127.0.0.1:`proxy_port`, so that a proxy between */
    int proxy_port;   /* the two sees all of it (tests/lib/proxy.h). Nobody listens on `proxy_port` until a test does. */
    char folder[200];
    struct process server;
};

/* Real; one node; waits until it answers. A broker that was started in test_suite_start is for every test: do not kill or stop it in one. */
struct kafka kafka_start(void);
/* The same, with extra lines of server.properties. */
struct kafka kafka_start_with(const char *settings);
/* The same, with a second listener `secure`, named RELAY, that speaks `protocol` (SASL_PLAINTEXT, SSL): its own lines begin with
 * "listener.name.relay.". */
struct kafka kafka_start_secure(const char *protocol, const char *settings);
/* Other extra lines, from the next restart on. */
void kafka_settings(struct kafka *k, const char *settings);
void kafka_kill(struct kafka *k);
void kafka_restart(struct kafka *k);
void kafka_stop(struct kafka *k); /* SIGTERM: it hands its partitions over first, if there is somebody to take them; waits */
/* kafka_restart in two steps, for several nodes at once: start it; wait until it answers. */
void kafka_launch(struct kafka *k);
void kafka_await(struct kafka *k);

/* Three nodes, each broker and controller, in half a heap each. Their numbers are 1, 2, 3: node[0] is number 1. */
#define KAFKA_NODES 3
struct kafka_cluster {
    char bootstrap[200];
    struct kafka node[KAFKA_NODES];
};

/* Waits until all three answer and know each other. */
struct kafka_cluster kafka_cluster_start(const char *settings);

/* What administrators do; each waits for the answer, and an error fails the test. `config`: "name=value" pairs separated by commas, or
 * NULL. A topic has as many replicas as default.replication.factor says: 1. */
void kafka_topic_create(const char *bootstrap, const char *topic, int partitions, const char *config);
void kafka_topic_delete(const char *bootstrap, const char *topic);
void kafka_topic_configure(const char *bootstrap, const char *topic, const char *config); /* what is not named has its default again */
void kafka_topic_extend(const char *bootstrap, const char *topic, int partitions);        /* to so many in all */
/* Allow or deny `user` an operation ("WRITE", "DESCRIBE", "DESCRIBE_CONFIGS") on a topic, or on all ("*"); or take that back. */
struct kafka_acl {
    const char *user, *topic, *operation;
    bool deny;
};
void kafka_acl_add(const char *bootstrap, struct kafka_acl acl);
void kafka_acl_remove(const char *bootstrap, struct kafka_acl acl);

/* Partitions that metadata shows, all with a leader; 0: there is no such topic; -1: nobody answers within a second. */
int kafka_topic_partitions(const char *bootstrap, const char *topic);
int kafka_brokers(const char *bootstrap); /* that it knows; -1: nobody answers within a second */
/* Partitions of the topic that node `node` leads; of node -1: those without a leader. -1: nobody answers. */
int kafka_topic_led_by(const char *bootstrap, const char *topic, int node);
/* Replicas in sync with the leader of a partition; -1: nobody answers, or there is no such partition. */
int kafka_topic_in_sync(const char *bootstrap, const char *topic, int partition);
/* Producers that the broker remembers of a partition, of which it is the leader. */
int kafka_topic_producers(const char *bootstrap, const char *topic, int partition);
/* Records ever appended to partitions first, first + 1, ... of the topic. */
int64_t kafka_topic_records(const char *bootstrap, const char *topic, int first);

/* The mock cluster: build/<variant>/mock-cluster, whose stdin takes commands, one a line:
 *   topic NAME PARTITIONS | error APIKEY CODE COUNT | rtt MS | down | up | leader TOPIC PARTITION BROKER | topic-error NAME CODE
 * APIKEY is a number of Kafka's protocol (0 Produce, 3 Metadata, 22 InitProducerId); CODE an error number of it. */
struct mock {
    char bootstrap[256];
    int commands; /* the write end of its stdin */
    struct process server;
};

struct mock mock_start(int brokers);
void mock_command(struct mock *m, const char *format, ...) __attribute__((format(printf, 2, 3))); /* waits until it is done */
void mock_stop(struct mock *m);

#endif
