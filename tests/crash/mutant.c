/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/crash/mutant.h"

#include <signal.h>

#include "tests/crash/evidence.h"
#include "tests/lib/test.h"

struct oracle_verdict mutant_verdict(struct line *l)
{
    struct oracle_question question = {.database = l->e.db.conninfo, .bootstrap = l->e.kafka, .topics = l->topics};
    struct oracle_verdict v;
    char error[512];

    CHECK(l->faults > 0);
    process_signal(&l->e.load, SIGTERM);
    e2e_load_end(&l->e, 30);
    for (uint64_t end_ms = test_now_ms() + 6000; e2e_unmarked(&l->e) > 0 && test_now_ms() < end_ms;)
        test_pause();
    for (unsigned i = 0; i < l->relays_n; i++)
        process_signal(&l->relay[i], SIGKILL);
    if (!oracle_judge(&question, &v, error, sizeof error))
        test_fail(__FILE__, __LINE__, "%s", error);
    evidence_tell(l->faults, "mutant of %s: %lld lost, %lld phantoms, %lld misordered, %lld false marks, %lld duplicates of %lld events",
                  l->name, (long long)v.lost, (long long)v.phantoms, (long long)v.misordered, (long long)v.false_marks,
                  (long long)v.duplicates, (long long)v.committed);
    int64_t duplicates = v.duplicates;
    oracle_forget(&v);
    v.duplicates = duplicates;
    return v;
}
