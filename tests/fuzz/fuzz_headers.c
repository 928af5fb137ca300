/* SPDX-License-Identifier: BSD-2-Clause */
/* Whatever a row's headers hold: decoded or refused with a sentence, and the list lies within the document. */
#include <assert.h>
#include <string.h>

#include "relay/edge/headers.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t bytes_n);

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t bytes_n)
{
    static struct headers headers; /* used again, as the relay does */
    char error[200] = "";
    bool decoded = headers_decode(&headers, (const char *)bytes, bytes_n, error, sizeof error);
    unsigned sum = 0;

    assert(decoded == (error[0] == '\0'));
    for (size_t i = 0; decoded && i < headers.list_n; i++) {
        const unsigned char *value = headers.list[i].value;

        assert(strcmp(headers.list[i].name, "id") != 0);
        for (size_t j = 0; j < headers.list[i].value_n; j++)
            sum += value[j];
        assert(memchr(value, 0, headers.list[i].value_n) == NULL);
    }
    if (sum % 7 == 0)
        headers_reset(&headers);
    return 0;
}
