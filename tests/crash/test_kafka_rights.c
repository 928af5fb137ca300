/* SPDX-License-Identifier: BSD-2-Clause */
/* What a broker lets the relay do: rights taken back, a password that is wrong, a certificate that has expired. The relay uses the broker's
 * second listener; oracle and administrator use the first, where everything is allowed. */
#include <stdio.h>
#include <string.h>

#include "tests/crash/kafka_line.h"
#include "tests/lib/test.h"

#define SASL "--kafka.security.protocol", "SASL_PLAINTEXT", "--kafka.sasl.mechanism", "PLAIN", "--kafka.sasl.username", "relay"
#define PASS "--kafka.sasl.password", "open-sesame"

/* Lines of server.properties: the user `relay` has this password, and rights are asked for. */
static const char *sasl_settings(const char *password)
{
    static char text[800];

    (void)snprintf(text, sizeof text,
                   "listener.name.relay.sasl.enabled.mechanisms=PLAIN\n"
                   "listener.name.relay.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
                   "user_relay=\"%s\";\n"
                   "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
                   "super.users=User:ANONYMOUS\n",
                   password);
    return text;
}

static void grant(const struct kafka *k, const char *topic, const char *operation)
{
    kafka_acl_add(k->bootstrap, (struct kafka_acl){.user = "relay", .topic = topic, .operation = operation});
}

static void deprive(const struct kafka *k, const char *topic, const char *operation)
{
    kafka_acl_remove(k->bootstrap, (struct kafka_acl){.user = "relay", .topic = topic, .operation = operation});
}

/* A line whose relays come by the broker's second listener. */
static struct line *begin(const char *name, const struct kafka *k, const char *topics)
{
    struct line *l = kafka_line_begin(name, k->bootstrap, topics);

    (void)snprintf(l->e.brokers, sizeof l->e.brokers, "%s", k->secure);
    return l;
}

/* Of the main one: whatever was in flight for any topic is in doubt then. */
static int sessions_ended(const struct process *relay)
{
    return kafka_line_told_both(relay, "event=\"session ends", "session=main");
}

/* --- rights ------------------------------------------------------------------------------------------------------- */

/* WRITE on one of two topics is taken back under load; DESCRIBE stays. That topic waits, the other goes on; the main session may end for it
 * once, and not again and again, however often it is tried: the topic may be described, so asking about it tells nothing. */
TEST_WITHIN(crash_kafka_write_revoked, 90)
{
    struct kafka k = kafka_start_secure("SASL_PLAINTEXT", sasl_settings("open-sesame"));
    struct line *l = begin("rights-kept", &k, "rights-kept,rights-lost");
    int64_t ended;

    grant(&k, "*", "DESCRIBE");
    grant(&k, "*", "DESCRIBE_CONFIGS");
    grant(&k, "rights-kept", "WRITE");
    grant(&k, "rights-lost", "WRITE");
    struct process *relay = LINE_RELAY(l, SASL, PASS, KAFKA_LINE_QUICK);
    kafka_line_publishing(l, "rights-lost");
    line_strike(l);
    deprive(&k, "rights-lost", "WRITE");
    WAIT_UNTIL((line_burst(l, 600), kafka_line_told_both(relay, "event=\"topic closed, its rows wait\"", "rights-lost") > 0), 20);
    line_look(l);
    ended = sessions_ended(relay);
    kafka_line_publishing(l, "rights-kept");
    kafka_line_pass(l, 4000);
    kafka_line_publishing(l, "rights-kept");
    CHECK(sessions_ended(relay) <= ended + 1);
    CHECK(kafka_line_told_both(relay, "event=\"topic open\"", "rights-lost") <= 2);
    line_hit(l, "WRITE on a topic revoked for 5 s", "topic closed, %lld rows of it wait, %d ends of the main session",
             (long long)kafka_line_unmarked(l, "rights-lost"), sessions_ended(relay));
    kafka_line_check_no_attempts(l);
    grant(&k, "rights-lost", "WRITE");
    kafka_line_publishing(l, "rights-lost");
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(3)});
}

/* All rights on one topic are missing from the start, and come later. */
TEST_WITHIN(crash_kafka_no_rights, 60)
{
    struct kafka k = kafka_start_secure("SASL_PLAINTEXT", sasl_settings("open-sesame"));
    struct line *l = begin("rights", &k, "rights,no-rights");

    grant(&k, "rights", "DESCRIBE");
    grant(&k, "rights", "WRITE");
    struct process *relay = LINE_RELAY(l, SASL, PASS, KAFKA_LINE_QUICK);
    WAIT_UNTIL(kafka_line_told_both(relay, "event=\"topic closed, its rows wait\"", "topic=no-rights") > 0, 20);
    line_strike(l);
    kafka_line_publishing(l, "rights");
    CHECK(kafka_line_told(relay, "is not ours to write; grant WRITE and DESCRIBE on it") > 0);
    line_hit(l, "no right to a topic", "topic closed, %lld rows of it wait", (long long)kafka_line_unmarked(l, "no-rights"));
    grant(&k, "no-rights", "WRITE"); /* first: described, it would be tried */
    grant(&k, "no-rights", "DESCRIBE");
    kafka_line_publishing(l, "no-rights");
    CHECK_EQ(sessions_ended(relay), 0);
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){0});
}

/* --- a row that is refused again and again ------------------------------------------------------------------------ */

static int64_t attempts(const struct line *l)
{
    return e2e_number(&l->e, "SELECT coalesce(max(attempts), 0) FROM outbox.behind WHERE key_hash <> 0");
}

/* Finding 14, where the relay may not ask for the topic's limit of 100 000 and so hands over a row of 150 000 each time: among 20 000 on 12
 * warm partitions the main session ends for it once. The tries that follow are the probe session's and cost nobody else anything. */
TEST_WITHIN(crash_kafka_poison, 90)
{
    struct kafka k = kafka_start_secure("SASL_PLAINTEXT", sasl_settings("open-sesame"));
    struct line *l = begin("poison", &k, NULL);
    int64_t refused;

    kafka_topic_extend(k.bootstrap, "poison", 12);
    kafka_topic_configure(k.bootstrap, "poison", "message.timestamp.type=LogAppendTime,max.message.bytes=100000");
    grant(&k, "*", "DESCRIBE");
    grant(&k, "*", "WRITE");
    struct process *relay = LINE_RELAY(l, SASL, PASS, KAFKA_LINE_QUICK, "--kafka.batch.size", "50000");
    line_publishing(l);
    kafka_line_pass(l, 800);
    line_burst(l, 10000);
    e2e_commit(&l->e, "poison", "large", 1, kafka_line_large_text(150000), "NULL");
    e2e_commit(&l->e, "poison", "large", 2, "{}", "NULL");
    line_burst(l, 10000);
    line_look(l);
    WAIT_UNTIL(attempts(l) >= 3, 30);
    CHECK_EQ(sessions_ended(relay), 1);
    line_publishing(l);
    WAIT_UNTIL((line_burst(l, 2000), attempts(l) >= 6), 30);
    CHECK_EQ(sessions_ended(relay), 1);
    CHECK_EQ(postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE sent_at IS NULL AND key = 'large'"), 2);
    refused = kafka_line_told(relay, "Message size too large");
    CHECK(refused >= 6);
    line_hit(l, "a row of 150000 bytes above a limit of 100000 that is not known, among 20000 on 12 partitions",
             "refused %lld times, the main session ended once", (long long)refused);
    kafka_topic_configure(k.bootstrap, "poison", "message.timestamp.type=LogAppendTime,max.message.bytes=1000000");
    WAIT_UNTIL(postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE sent_at IS NULL AND key = 'large'") == 0, 30);
    line_end(l, &(struct line_expected){.windows = LINE_D(3)});
    CHECK_EQ(e2e_number(&l->e, "SELECT count(*) FROM outbox.behind"), 0);
}

/* --- password ----------------------------------------------------------------------------------------------------- */

/* The broker restarts with another password; later again with the one that the relay has. */
TEST_WITHIN(crash_kafka_wrong_password, 90)
{
    struct kafka k = kafka_start_secure("SASL_PLAINTEXT", sasl_settings("open-sesame"));
    struct line *l = begin("password", &k, NULL);

    grant(&k, "*", "DESCRIBE");
    grant(&k, "*", "WRITE");
    struct process *relay = LINE_RELAY(l, SASL, PASS, KAFKA_LINE_QUICK);
    line_publishing(l);
    line_strike(l);
    kafka_kill(&k);
    kafka_settings(&k, sasl_settings("xyzzy-plugh"));
    kafka_restart(&k);
    WAIT_UNTIL(kafka_line_told_both(relay, "event=\"kafka still lost\"", "Kafka refuses the login") > 0, 30);
    line_look(l);
    line_hit(l, "the password is wrong after a restart of the broker", "kafka still lost: Kafka refuses the login");
    kafka_line_pass(l, 1600);
    CHECK(process_running(relay));
    CHECK_EQ(kafka_line_told(relay, "open-sesame"), 0);
    kafka_line_check_no_attempts(l);
    kafka_kill(&k);
    kafka_settings(&k, sasl_settings("open-sesame"));
    kafka_restart(&k);
    line_publishing(l);
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(3)});
}

/* --- certificate -------------------------------------------------------------------------------------------------- */

static void run(const char *const *argv)
{
    process_run(argv, NULL, (struct process_options){0}, 30);
}

/* A certificate for 127.0.0.1 that is good until `until` (of `openssl ca`: YYYYMMDDHHMMSSZ), signed with its own key, and a key store of
 * both: the files `name`.crt and `name`.pem in the test's folder. */
static void certificate_make(const char *name, const char *until)
{
    char script[1600];

    (void)snprintf(script, sizeof script,
                   "set -e; cd '%s'; : > %s.index; echo 01 > %s.serial\n"
                   "printf '[ca]\\ndefault_ca=a\\n[a]\\ndatabase=%s.index\\nserial=%s.serial\\nnew_certs_dir=.\\ndefault_md=sha256\\n"
                   "policy=p\\nx509_extensions=x\\n[p]\\ncommonName=supplied\\n[x]\\nsubjectAltName=IP:127.0.0.1\\n"
                   "basicConstraints=critical,CA:TRUE\\n' > %s.conf\n"
                   "openssl genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out %s.key 2>/dev/null || "
                   "openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out %s.key\n"
                   "openssl req -new -key %s.key -subj /CN=broker -out %s.csr\n"
                   "openssl ca -batch -notext -config %s.conf -selfsign -keyfile %s.key -in %s.csr -startdate 20200101000000Z "
                   "-enddate %s -out %s.crt\n"
                   "cat %s.key %s.crt > %s.pem\n",
                   temp_folder(), name, name, name, name, name, name, name, name, name, name, name, name, until, name, name, name, name);
    run((const char *[]){"sh", "-c", script, NULL});
}

static const char *tls_settings(const char *name)
{
    static char text[800];

    (void)snprintf(text, sizeof text,
                   "listener.name.relay.ssl.keystore.type=PEM\n"
                   "listener.name.relay.ssl.keystore.location=%s/%s.pem\n"
                   "listener.name.relay.ssl.client.auth=none\n",
                   temp_folder(), name);
    return text;
}

/* The broker restarts with a certificate that has expired; later with a good one. */
TEST_WITHIN(crash_kafka_certificate_expired, 90)
{
    char authority[300];

    certificate_make("good", "20990101000000Z");
    certificate_make("expired", "20210101000000Z");
    run((const char *[]){"sh", "-c", "cd \"$0\" && cat good.crt expired.crt > authority.crt", temp_folder(), NULL});
    (void)snprintf(authority, sizeof authority, "%s/authority.crt", temp_folder());
    struct kafka k = kafka_start_secure("SSL", tls_settings("good"));
    struct line *l = begin("certificate", &k, NULL);
    struct process *relay = LINE_RELAY(l, "--kafka.security.protocol", "SSL", "--kafka.ssl.ca.location", authority, KAFKA_LINE_QUICK);

    line_publishing(l);
    line_strike(l);
    kafka_kill(&k);
    kafka_settings(&k, tls_settings("expired"));
    kafka_restart(&k);
    WAIT_UNTIL(kafka_line_told_both(relay, "event=\"kafka still lost\"", "the certificate of a Kafka broker is not good") > 0, 30);
    CHECK(kafka_line_told(relay, "it may have expired") > 0);
    line_look(l);
    line_hit(l, "the certificate has expired after a restart of the broker",
             "kafka still lost: the certificate of a Kafka broker is not good");
    kafka_line_pass(l, 1600);
    CHECK(process_running(relay));
    kafka_kill(&k);
    kafka_settings(&k, tls_settings("good"));
    kafka_restart(&k);
    line_publishing(l);
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(3)});
}
