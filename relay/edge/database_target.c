/* SPDX-License-Identifier: BSD-2-Clause */
/* libpq would resolve names by itself, and block. So its own parsers give us the parameters (conninfo or URI over the environment and
 * the service file), we resolve the hosts, and libpq is called with one numeric `hostaddr` at a time; `host` stays beside it for TLS
 * and for the password file. One address at a time also gives each its own deadline: a host that swallows packets must not use
 * up the time of the next. */
#include <uv.h>

#include <libpq-fe.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/database.h"
#include "relay/edge/database_target.h"

#define PARAMS_MAX 64

/* A name being resolved. It cannot be stopped, so it may outlive the target. */
struct lookup {
    uv_getaddrinfo_t request; /* first: freed as it */
    struct target *target;    /* NULL: nobody waits any more */
    unsigned host;
};

struct host {
    char *name, *address, *port; /* name or address may be NULL */
    struct lookup *lookup;       /* running */
    char (*found)[NI_MAXHOST];   /* numeric addresses of the name */
    unsigned found_n;
};

struct target {
    uv_loop_t *loop;
    void (*on_resolved)(void *data);
    void *data;
    PQconninfoOption *defaults, *given; /* own the strings below */
    const char *names[PARAMS_MAX], *values[PARAMS_MAX];
    unsigned params_n;
    unsigned host_param, address_param, port_param;
    struct host *hosts;
    unsigned hosts_n;
    unsigned at; /* the host whose turn it is */
    unsigned tried;
    bool waiting; /* for the lookup of `at` */
    enum target_wish wish;
    char *application;
    char label[400];
    char error[400];
};

static const char *option_value(const PQconninfoOption *options, const char *name)
{
    for (; options && options->keyword; options++)
        if (strcmp(options->keyword, name) == 0)
            return options->val && options->val[0] ? options->val : NULL;
    return NULL;
}

/* libpq reads the service file only for the service that the environment names. */
static PQconninfoOption *read_defaults(const PQconninfoOption *given)
{
    const char *service = option_value(given, "service");
    char *before = getenv("PGSERVICE") ? strdup(getenv("PGSERVICE")) : NULL;
    PQconninfoOption *defaults;

    if (service)
        (void)setenv("PGSERVICE", service, 1);
    defaults = PQconndefaults();
    if (service && before)
        (void)setenv("PGSERVICE", before, 1);
    else if (service)
        (void)unsetenv("PGSERVICE");
    free(before);
    return defaults;
}

static void param_set(struct target *t, const char *name, const char *value)
{
    unsigned i = 0;

    while (i < t->params_n && strcmp(t->names[i], name) != 0)
        i++;
    assert(i < PARAMS_MAX - 1);
    t->names[i] = name;
    t->values[i] = value;
    if (i == t->params_n)
        t->params_n++;
}

static const char *param_value(const struct target *t, const char *name)
{
    for (unsigned i = 0; i < t->params_n; i++)
        if (strcmp(t->names[i], name) == 0)
            return t->values[i];
    return NULL;
}

static unsigned param_place(struct target *t, const char *name)
{
    param_set(t, name, NULL);
    for (unsigned i = 0; i < t->params_n; i++)
        if (strcmp(t->names[i], name) == 0)
            return i;
    abort();
}

static void params_read(struct target *t, const PQconninfoOption *options)
{
    for (; options && options->keyword; options++)
        if (options->val && options->val[0])
            param_set(t, options->keyword, options->val);
}

static void params_force(struct target *t)
{
    /* Kerberos may ask name servers while it blocks us: only on demand. */
    if (!option_value(t->given, "gssencmode") && !getenv("PGGSSENCMODE"))
        param_set(t, "gssencmode", "disable");
    if (!option_value(t->given, "target_session_attrs") && !getenv("PGTARGETSESSIONATTRS"))
        param_set(t, "target_session_attrs", "read-write");
    param_set(t, "client_encoding", "UTF8");
    if (!param_value(t, "application_name"))
        param_set(t, "application_name", t->application);
    t->host_param = param_place(t, "host");
    t->address_param = param_place(t, "hostaddr");
    t->port_param = param_place(t, "port");
}

/* The i-th part of a list with commas, or NULL where it is empty or missing; malloc'ed. */
static char *list_part(const char *list, unsigned i)
{
    size_t n;

    for (; list && i > 0; i--) {
        list = strchr(list, ',');
        list = list ? list + 1 : NULL;
    }
    n = list ? strcspn(list, ",") : 0;
    return n ? strndup(list, n) : NULL;
}

static unsigned list_parts(const char *list)
{
    unsigned n = list ? 1 : 0;

    for (; list && *list; list++)
        n += *list == ',';
    return n;
}

static bool hosts_fill(struct target *t, const char *hosts, const char *addresses, const char *ports)
{
    unsigned n = list_parts(hosts);
    unsigned addresses_n = list_parts(addresses), ports_n = list_parts(ports);

    n = n > addresses_n ? n : addresses_n;
    n = n ? n : 1;
    t->hosts = calloc(n, sizeof(*t->hosts));
    if (!t->hosts)
        return false;
    t->hosts_n = n;
    for (unsigned i = 0; i < n; i++) {
        t->hosts[i].name = list_part(hosts, i);
        t->hosts[i].address = list_part(addresses, i);
        t->hosts[i].port = list_part(ports, ports_n == 1 ? 0 : i);
    }
    return true;
}

bool database_accepts(const char *conninfo)
{
    char *message = NULL;
    PQconninfoOption *options = PQconninfoParse(conninfo, &message);

    PQfreemem(message);
    PQconninfoFree(options);
    return options != NULL;
}

bool database_pools(const char *conninfo)
{
    char *message = NULL;
    PQconninfoOption *given = PQconninfoParse(conninfo, &message), *defaults = read_defaults(given);
    bool has_options = option_value(given, "options") || option_value(defaults, "options");

    PQfreemem(message);
    PQconninfoFree(given);
    PQconninfoFree(defaults);
    return !has_options;
}

static bool parse(struct target *t, const char *conninfo)
{
    char *message = NULL;

    t->given = PQconninfoParse(conninfo, &message);
    PQfreemem(message);
    /* libpq's own message may quote the password. */
    if (!t->given)
        (void)snprintf(t->error, sizeof(t->error),
                       "the setting `database` is not a valid connection string: write name=value pairs or a postgresql:// URI");
    t->defaults = read_defaults(t->given);
    if (!t->defaults)
        return false;
    params_read(t, t->defaults);
    params_read(t, t->given);
    if (!hosts_fill(t, param_value(t, "host"), param_value(t, "hostaddr"), param_value(t, "port")))
        return false;
    params_force(t);
    return true;
}

struct target *target_new(uv_loop_t *loop, const char *conninfo, const char *application, void (*on_resolved)(void *data), void *data)
{
    struct target *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->loop = loop;
    t->on_resolved = on_resolved;
    t->data = data;
    t->application = strdup(application);
    if (!t->application || !parse(t, conninfo)) {
        target_free(t);
        return NULL;
    }
    return t;
}

void target_free(struct target *t)
{
    if (!t)
        return;
    for (unsigned i = 0; i < t->hosts_n; i++) {
        if (t->hosts[i].lookup)
            t->hosts[i].lookup->target = NULL;
        free(t->hosts[i].name);
        free(t->hosts[i].address);
        free(t->hosts[i].port);
        free(t->hosts[i].found);
    }
    free(t->hosts);
    PQconninfoFree(t->given);
    PQconninfoFree(t->defaults);
    free(t->application);
    free(t);
}

void target_pool(struct target *t)
{
    const char *wish = param_value(t, "target_session_attrs");

    if (!wish || (strcmp(wish, "read-write") != 0 && strcmp(wish, "primary") != 0))
        return;
    t->wish = strcmp(wish, "primary") == 0 ? TARGET_PRIMARY : TARGET_READ_WRITE;
    param_set(t, "target_session_attrs", "any");
}

enum target_wish target_wish(const struct target *t)
{
    return t->wish;
}

void target_rewind(struct target *t)
{
    t->at = 0;
    t->tried = 0;
    t->waiting = false;
    if (t->given)
        t->error[0] = 0;
    for (unsigned i = 0; i < t->hosts_n; i++) {
        free(t->hosts[i].found);
        t->hosts[i].found = NULL;
        t->hosts[i].found_n = 0;
    }
}

static bool name_needs_lookup(const struct host *h)
{
    unsigned char numeric[sizeof(struct in6_addr)];

    if (h->address || !h->name || h->name[0] == '/' || h->name[0] == '@')
        return false;
    return uv_inet_pton(AF_INET, h->name, numeric) != 0 && uv_inet_pton(AF_INET6, h->name, numeric) != 0;
}

static void found_keep(struct host *h, const struct addrinfo *list)
{
    unsigned n = 0;

    for (const struct addrinfo *a = list; a; a = a->ai_next)
        n++;
    h->found = calloc(n ? n : 1, sizeof(*h->found));
    for (const struct addrinfo *a = list; h->found && a; a = a->ai_next)
        if (getnameinfo(a->ai_addr, a->ai_addrlen, h->found[h->found_n], NI_MAXHOST, NULL, 0, NI_NUMERICHOST) == 0)
            h->found_n++;
}

static void on_lookup(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct lookup *l = (struct lookup *)request;
    struct target *t = l->target;

    if (t) {
        struct host *h = &t->hosts[l->host];
        h->lookup = NULL;
        if (t->waiting && t->at == l->host) {
            t->waiting = false;
            if (status == 0)
                found_keep(h, list);
            if (h->found_n == 0) {
                (void)snprintf(t->error, sizeof(t->error), "cannot resolve the host \"%.200s\" of the setting `database`: %s", h->name,
                               status ? uv_strerror(status) : "it has no address");
                t->at++;
            }
            t->on_resolved(t->data);
        }
    }
    uv_freeaddrinfo(list);
    free(l);
}

/* A lookup that an earlier attempt started is waited for again, so that a silent name server never holds more than one thread a host. */
static bool lookup_start(struct target *t, unsigned host)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct host *h = &t->hosts[host];
    struct lookup *l;

    if (h->lookup)
        return true;
    l = calloc(1, sizeof(*l));
    if (!l)
        return false;
    l->target = t;
    l->host = host;
    if (uv_getaddrinfo(t->loop, &l->request, on_lookup, h->name, NULL, &hints) != 0) {
        free(l);
        return false;
    }
    h->lookup = l;
    return true;
}

static enum target_step address_use(struct target *t, const char *address)
{
    struct host *h = &t->hosts[t->at];

    t->values[t->host_param] = h->name;
    t->values[t->address_param] = address;
    t->values[t->port_param] = h->port;
    (void)snprintf(t->label, sizeof(t->label), "%.200s port %.20s",
                   address   ? address
                   : h->name ? h->name
                             : "the local socket",
                   h->port ? h->port : "5432");
    t->tried++;
    return TARGET_ADDRESS;
}

enum target_step target_next(struct target *t)
{
    for (; t->given && t->at < t->hosts_n; t->at++, t->tried = 0) {
        struct host *h = &t->hosts[t->at];
        if (!name_needs_lookup(h)) {
            if (t->tried == 0)
                return address_use(t, h->address);
        } else if (t->tried < h->found_n) {
            return address_use(t, h->found[t->tried]);
        } else if (!h->found && lookup_start(t, t->at)) {
            t->waiting = true;
            (void)snprintf(t->label, sizeof(t->label), "%.200s", h->name);
            return TARGET_RESOLVING;
        }
    }
    return TARGET_END;
}

void target_give_up(struct target *t)
{
    assert(t->waiting);
    t->waiting = false;
    (void)snprintf(t->error, sizeof(t->error),
                   "cannot resolve the host \"%.200s\" of the setting `database`: no answer from the name server", t->hosts[t->at].name);
    t->at++;
    t->tried = 0;
}

void target_params(struct target *t, const char *const **ret_names, const char *const **ret_values)
{
    *ret_names = t->names;
    *ret_values = t->values;
}

const char *target_name(struct target *t)
{
    return t->label;
}

const char *target_error(const struct target *t)
{
    return t->error[0] ? t->error : NULL;
}
