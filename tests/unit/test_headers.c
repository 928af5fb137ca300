/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/headers.h"
#include "tests/lib/test.h"

static bool decode(struct headers *h, const char *json, char *error, size_t error_size)
{
    /* Without a zero byte behind it: it lies in the middle of a database's answer. */
    size_t n = strlen(json);
    char *bytes = malloc(n + 1);
    bool decoded;

    CHECK(bytes != NULL);
    memcpy(bytes, json, n);
    bytes[n] = 'x';
    decoded = headers_decode(h, bytes, n, error, error_size);
    free(bytes); /* the list must not point into it */
    return decoded;
}

static void check_refused(const char *json, const char *with)
{
    struct headers h = {0};
    char error[200] = "";

    if (decode(&h, json, error, sizeof error))
        test_fail(__FILE__, __LINE__, "accepted: %s", json);
    if (strstr(error, with) == NULL)
        test_fail(__FILE__, __LINE__, "%s is refused with: %s", json, error);
    headers_reset(&h);
}

static void check_header(const struct headers *h, size_t i, const char *name, const char *value)
{
    CHECK(i < h->list_n);
    CHECK_STR(h->list[i].name, name);
    CHECK_EQ(h->list[i].value_n, strlen(value));
    CHECK(memcmp(h->list[i].value, value, strlen(value)) == 0);
}

TEST(headers_decodes_strings_in_their_order)
{
    struct headers h = {0};
    char error[200] = "";

    CHECK(decode(&h, "{\"b\": \"1\", \"a\": \"\", \"\": \"x\", \"\\u00e9\": \"gr\\u00fc\\n\\ud83d\\ude00\"}", error, sizeof error));
    CHECK_EQ(h.list_n, 4);
    check_header(&h, 0, "b", "1");
    check_header(&h, 1, "a", "");
    CHECK(h.list[1].value != NULL); /* empty, not null */
    check_header(&h, 2, "", "x");
    check_header(&h, 3, "\xc3\xa9", "gr\xc3\xbc\n\xf0\x9f\x98\x80");
    headers_reset(&h);
    CHECK(h.list == NULL && h.list_n == 0);
}

TEST(headers_may_be_none)
{
    struct headers h = {0};
    char error[200] = "";

    CHECK(decode(&h, "{}", error, sizeof error));
    CHECK_EQ(h.list_n, 0);
    headers_reset(&h);
    headers_reset(&h);
}

TEST(headers_room_is_used_again)
{
    struct headers h = {0};
    char error[200], json[40000] = "{";
    size_t n = 1;

    for (int i = 0; i < 1000; i++)
        n += (size_t)snprintf(json + n, sizeof json - n, "%s\"n%d\": \"v%d\"", i > 0 ? ", " : "", i, i);
    snprintf(json + n, sizeof json - n, "}");
    for (int round = 0; round < 3; round++) {
        CHECK(decode(&h, "{\"one\": \"1\"}", error, sizeof error));
        CHECK_EQ(h.list_n, 1);
        check_header(&h, 0, "one", "1");
        CHECK(!decode(&h, "{\"one\": 1}", error, sizeof error));
        CHECK_EQ(h.list_n, 0);
        CHECK(decode(&h, json, error, sizeof error));
        CHECK_EQ(h.list_n, 1000);
        check_header(&h, 999, "n999", "v999");
    }
    headers_reset(&h);
}

TEST(headers_refuses_what_is_not_an_object_of_strings)
{
    check_refused("", "not JSON");
    check_refused("{\"a\": \"b\"", "not JSON");
    check_refused("{\"a\": \"b\"} {}", "not JSON");
    check_refused("{\"a\": \"b\\u0000c\"}", "not JSON");
    check_refused("{\"a\": \"\xff\"}", "not JSON");
    check_refused("{\"a\": \"1\", \"a\": \"2\"}", "not JSON");
    check_refused("[]", "not a JSON object");
    check_refused("[\"a\"]", "not a JSON object");
    check_refused("null", "not a JSON object");
    check_refused("\"a\"", "not a JSON object");
    check_refused("1", "not a JSON object");
    check_refused("{\"a\": 1}", "\"a\" is not a string");
    check_refused("{\"x\": \"y\", \"a\": [\"b\"]}", "\"a\" is not a string");
    check_refused("{\"a\": {}}", "\"a\" is not a string");
    check_refused("{\"a\": null}", "\"a\" is not a string");
}

TEST(headers_refuses_the_events_own_name)
{
    struct headers h = {0};
    char error[200];

    check_refused("{\"id\": \"1\"}", "called \"id\"");
    check_refused("{\"x\": \"y\", \"id\": \"\"}", "called \"id\"");
    CHECK(decode(&h, "{\"ID\": \"1\", \"id2\": \"2\"}", error, sizeof error));
    headers_reset(&h);
}

/* What a service wrote there may be secret. */
TEST(headers_are_not_quoted_in_errors)
{
    static const char *const texts[] = {"\"xyzzy\"", "{\"a\": xyzzy}", "{\"a\": \"xyzzy\"", "{\"a\": \"xyzzy\"} xyzzy",
                                        "{\"a\": [\"xyzzy\"]}"};
    struct headers h = {0};
    char error[200];

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CHECK(!decode(&h, texts[i], error, sizeof error));
        CHECK(strstr(error, "xyzzy") == NULL);
    }
    headers_reset(&h);
}

TEST(headers_survives_deep_nesting)
{
    char json[20001];

    memset(json, '[', 20000);
    json[20000] = '\0';
    check_refused(json, "not JSON");
}
