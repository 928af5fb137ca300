/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/services.h"
#include "tests/lib/test.h"

TEST(demo_redis_of_the_tests_forgets_when_it_is_killed)
{
    struct redis r = redis_start();

    redis_number(&r, "SET event %s EX 100", "x");
    CHECK_EQ(redis_number(&r, "EXISTS event"), 1);
    redis_kill(&r);
    redis_restart(&r);
    CHECK_EQ(redis_number(&r, "EXISTS event"), 0);
    redis_stop(&r);
    CHECK(!process_running(&r.server));
}
