/* SPDX-License-Identifier: BSD-2-Clause */
/* Ways to connect, and ways not to. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/edge/database_client.h"

/* libuv's threads call this one: a name server that does not answer for names that end in ".blackhole", until the test is over (a
 * program cannot exit before its lookups do). */
static atomic_bool name_server_answers;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    if (node != NULL && strlen(node) > 10 && strcmp(node + strlen(node) - 10, ".blackhole") == 0)
        WAIT_UNTIL(name_server_answers, 60);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(node, service, hints, list);
}

static int listen_anywhere(int backlog, int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(bind(fd, (struct sockaddr *)&address, n) == 0 && listen(fd, backlog) == 0 &&
          getsockname(fd, (struct sockaddr *)&address, &n) == 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

TEST_WITHIN(database_survives_a_silent_name_server, 60)
{
    struct client *c = client_new("host=db.blackhole dbname=x", 200, 0);

    /* Each of many attempts waits for the same lookup: the threads of the loop are few. */
    for (unsigned i = 0; i < 10; i++)
        client_says(client_refused(c), "cannot resolve the host \"db.blackhole\"");
    client_says(c->reason, "no answer from the name server");
    /* And others can still resolve. */
    struct client *other = client_new("host=name.invalid dbname=x", 15000, 0);
    client_says(client_refused(other), "cannot resolve the host \"name.invalid\"");
    client_free(other);
    client_free(c);
    name_server_answers = true;
}

TEST_WITHIN(database_survives_a_server_that_swallows_packets, 60)
{
    char conninfo[100];
    int port, fd = listen_anywhere(0, &port), fillers[8];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};

    /* Its queue is full: it answers no SYN any more. */
    for (unsigned i = 0; i < 8; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&address, sizeof address);
    }
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%d dbname=x", port);
    struct client *c = client_new(conninfo, 300, 0);
    client_says(client_refused(c), "did not answer within 300 ms");
    client_free(c);
    close(fd);
}

TEST_WITHIN(database_survives_a_server_that_says_nothing, 60)
{
    char conninfo[100];
    int port, fd = listen_anywhere(10, &port);

    snprintf(conninfo, sizeof conninfo, "host=localhost port=%d dbname=x", port);
    struct client *c = client_new(conninfo, 300, 0);
    client_says(client_refused(c), "cannot connect to the database: ");
    client_free(c);
    close(fd);
}

/* A black hole in front of the list does not use up the time of the rest. */
TEST_WITHIN(database_tries_every_host, 60)
{
    struct postgres p = postgres_start("listen_addresses = 'localhost'");
    int port, fd = listen_anywhere(10, &port);
    char conninfo[600];

    snprintf(conninfo, sizeof conninfo, "host=db.blackhole,127.0.0.1,/nowhere,localhost port=1,%d,2,%d user=postgres dbname=postgres", port,
             p.port);
    struct client *c = client_new(conninfo, 400, 0);
    client_connect(c);
    CLIENT_UNTIL(c, c->connected_n + c->lost_n > 0, 20);
    if (c->lost_n > 0)
        test_fail(__FILE__, __LINE__, "%s", c->reason);
    client_free(c);

    name_server_answers = true;
    /* As a URI. */
    snprintf(conninfo, sizeof conninfo, "postgresql://postgres@127.0.0.1:1,localhost:%d/postgres", p.port);
    client_free(client_connected(conninfo));
    /* The environment counts, too. */
    char text[20];
    snprintf(text, sizeof text, "%d", p.port);
    (void)setenv("PGPORT", text, 1);
    (void)setenv("PGHOST", p.socket_folder, 1);
    client_free(client_connected("user=postgres dbname=postgres"));
    close(fd);
}

/* The first server that takes writes. */
TEST_WITHIN(database_prefers_a_server_that_takes_writes, 60)
{
    struct postgres standby = postgres_start("default_transaction_read_only = on"), primary = postgres_start(NULL);
    char conninfo[600];

    snprintf(conninfo, sizeof conninfo, "host=%s,%s port=%d,%d user=postgres dbname=postgres", standby.socket_folder, primary.socket_folder,
             standby.port, primary.port);
    struct client *c = client_connected(conninfo);
    client_ask(c, "s", "CREATE TABLE t (a int)");
    CHECK(c->result != NULL);
    client_free(c);
    c = client_new(standby.conninfo, 2000, 0);
    client_says(client_refused(c), "session is read-only");
    client_free(c);
}

TEST_WITHIN(database_never_shows_a_password, 60)
{
    struct postgres p = postgres_start(NULL);
    char path[300], conninfo[600];
    const char *const malformed[] = {"password=TopSecret host", "postgresql://u:TopSecret@h:x y/d?z=TopSecret",
                                     "host=h password='TopSecret", "TopSecret"};

    snprintf(path, sizeof path, "%s/pg_hba.conf", p.folder);
    FILE *f = fopen(path, "w");
    fputs("local all postgres trust\nlocal all all scram-sha-256\n", f);
    fclose(f);
    postgres_query(p.conninfo, "CREATE ROLE somebody LOGIN PASSWORD 'right'");
    postgres_reload(&p);
    snprintf(conninfo, sizeof conninfo, "host=%s port=%d user=somebody dbname=postgres password=TopSecret", p.socket_folder, p.port);
    struct client *c = client_new(conninfo, 5000, 0);
    WAIT_UNTIL(strstr(client_refused(c), "password authentication failed for user \"somebody\"") != NULL, 10);
    CHECK(strstr(c->reason, "TopSecret") == NULL);
    client_free(c);
    for (unsigned i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        c = client_new(malformed[i], 5000, 0);
        client_says(client_refused(c), "the setting `database` is not a valid connection string");
        CHECK(strstr(c->reason, "TopSecret") == NULL);
        client_free(c);
    }
}

TEST_WITHIN(database_speaks_tls, 60)
{
    struct postgres p = postgres_start(NULL);
    char conninfo[600], settings[700], key[300], certificate[300];

    snprintf(conninfo, sizeof conninfo, "host=localhost port=%d user=postgres dbname=postgres sslmode=require", p.port);
    struct client *c;
    snprintf(key, sizeof key, "%s/key.pem", p.socket_folder);
    snprintf(certificate, sizeof certificate, "%s/certificate.pem", p.socket_folder);
    process_run((const char *[]){"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2",
                                 "-keyout", key, "-out", certificate, NULL},
                NULL, (struct process_options){.user = "postgres"}, 60);
    postgres_stop(&p);
    postgres_settings(&p, "listen_addresses = 'localhost'");
    postgres_restart(&p);
    c = client_new(conninfo, 5000, 0);
    client_says(client_refused(c), "server does not support SSL");
    client_free(c);
    postgres_stop(&p);
    snprintf(settings, sizeof settings, "ssl = on\nssl_key_file = '%s'\nssl_cert_file = '%s'", key, certificate);
    postgres_settings(&p, settings);
    postgres_restart(&p);
    /* The name is verified although we connect to an address. */
    snprintf(conninfo, sizeof conninfo, "host=localhost port=%d user=postgres dbname=postgres sslmode=verify-full sslrootcert=%s", p.port,
             certificate);
    c = client_connected(conninfo);
    client_ask(c, "s", "SELECT ssl, repeat('x', 1000000) FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
    CHECK_EQ(database_result_integer(c->result, 0, 0), 1);
    client_free(c);
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=verify-full sslrootcert=%s", p.port,
             certificate);
    c = client_new(conninfo, 5000, 0);
    client_says(client_refused(c), "127.0.0.1");
    client_free(c);
}
