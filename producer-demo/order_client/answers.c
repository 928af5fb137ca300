/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_client/answers.h"

#include <assert.h>
#include <stddef.h>

const struct answer_rule *answer_rule_find(int status, bool retry_after)
{
    const struct answer_rule *rule = answer_rules;

    assert(status >= 0 && status <= 999);
    while (status < rule->first || status > rule->last || (rule->asked && !retry_after))
        rule++;
    return rule;
}
