/* SPDX-License-Identifier: BSD-2-Clause */
/* Whatever a row's headers hold: decoded or refused with a sentence, and the list lies within the document. */
#include <assert.h>
#include <string.h>

#include "relay/edge/headers.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t bytes_n);

static struct headers headers; /* used again, as the relay does */

static void decode(const char *json, size_t json_n)
{
    char error[200] = "";
    bool decoded = headers_decode(&headers, json, json_n, error, sizeof error);

    assert(decoded == (error[0] == '\0'));
    for (size_t i = 0; decoded && i < headers.list_n; i++) {
        assert(strcmp(headers.list[i].name, "id") != 0);
        assert(memchr(headers.list[i].value, 0, headers.list[i].value_n) == NULL);
    }
}

/* As they are, and as the inside of an object: a fuzzer that cannot see into the parser would seldom come so far. */
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t bytes_n)
{
    char object[1000];

    decode((const char *)bytes, bytes_n);
    if (bytes_n + 9 > sizeof object)
        return 0;
    memcpy(object, "{\"a\": \"", 7);
    memcpy(object + 7, bytes, bytes_n);
    memcpy(object + 7 + bytes_n, "\"}", 2);
    decode(object, bytes_n + 9);
    if (bytes_n % 7 == 0)
        headers_reset(&headers);
    return 0;
}
