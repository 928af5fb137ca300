/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/event_set.h"
#include "tests/lib/test.h"

#include <string.h>

static struct uuid id_of(uint64_t n)
{
    struct uuid id = {{0}};

    memcpy(id.bytes + 8, &n, sizeof n);
    return id;
}

/* Numbers in a row are the worst that a hash can be given; 0 is the id of all zeros. */
TEST(demo_event_set_has_what_was_added_and_nothing_else)
{
    struct event_set set = {0};

    CHECK(!event_set_has(&set, id_of(0)));
    for (uint64_t i = 0; i < 20000; i += 2)
        CHECK(event_set_add(&set, id_of(i)));
    for (uint64_t i = 0; i < 20000; i++)
        CHECK_EQ(event_set_has(&set, id_of(i)), i % 2 == 0);
    CHECK(!event_set_add(&set, id_of(0)));
    CHECK(!event_set_add(&set, id_of(19998)));
    CHECK_EQ(event_set_size(&set), 10000);
    event_set_clear(&set);
    CHECK(!event_set_has(&set, id_of(2)));
}
