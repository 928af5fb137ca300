/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/key.h"
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

static const char *read_key(const char *header)
{
    static char key[KEY_MAX + 1];

    return key_read(header, key) ? key : NULL;
}

TEST(demo_key_is_bare_or_quoted)
{
    CHECK_STR(read_key("019b76da-a87b-79cc-b03a-c037fb14d6c1"), "019b76da-a87b-79cc-b03a-c037fb14d6c1");
    CHECK_STR(read_key("\"019b76da\""), "019b76da");
    CHECK_STR(read_key("\"two words\""), "two words");
    CHECK_STR(read_key("\"a \\\"b\\\" \\\\c\""), "a \"b\" \\c");
    CHECK_STR(read_key("a+b/c=="), "a+b/c==");
}

TEST(demo_key_refuses_what_is_neither)
{
    static const char *const wrong[] = {"",       "\"\"",     "\"",    "two words", "a,b",          "a;b",      "a\"b", "\"a",
                                        "\"a\"b", "\"a\\n\"", "\"a\\", "\"a\nb\"",  "\"\xc3\xa4\"", "\xc3\xa4", "a\\b", "\ta"};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (read_key(wrong[i]))
            test_fail(__FILE__, __LINE__, "taken: %s", wrong[i]);
    CHECK(!read_key(NULL));
}

TEST(demo_key_has_255_characters_at_most)
{
    char text[300];

    (void)snprintf(text, sizeof text, "%0255d", 0);
    CHECK_STR(read_key(text), text);
    (void)snprintf(text, sizeof text, "%0256d", 0);
    CHECK(!read_key(text));
    (void)snprintf(text, sizeof text, "\"%0255d\"", 0);
    CHECK(read_key(text));
    (void)snprintf(text, sizeof text, "\"%0256d\"", 0);
    CHECK(!read_key(text));
}

TEST(demo_key_in_a_path_is_decoded)
{
    static const char *const wrong[] = {"", "a%", "a%2", "a%zz", "a%00", "a%0a", "\xc3\xa4"};
    char key[KEY_MAX + 1];

    CHECK(key_read_path("019b76da-a87b", key));
    CHECK_STR(key, "019b76da-a87b");
    CHECK(key_read_path("two%20words%2F%22+", key));
    CHECK_STR(key, "two words/\"+");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (key_read_path(wrong[i], key))
            test_fail(__FILE__, __LINE__, "taken: %s", wrong[i]);
}
