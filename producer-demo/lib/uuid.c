/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/uuid.h"

#include <ctype.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static void moment_put(struct uuid *id, int64_t created_ms)
{
    for (int i = 0; i < 6; i++)
        id->bytes[i] = (unsigned char)((uint64_t)created_ms >> (40 - 8 * i));
    id->bytes[6] = (unsigned char)((id->bytes[6] & 0x0f) | 0x70);
    id->bytes[8] = (unsigned char)((id->bytes[8] & 0x3f) | 0x80);
}

struct uuid uuid_make(void)
{
    struct uuid id;
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || getrandom(id.bytes, sizeof id.bytes, 0) != sizeof id.bytes)
        abort();
    moment_put(&id, (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    return id;
}

struct uuid uuid_derive(int64_t created_ms, const char *scope, const char *key, int64_t number)
{
    struct uuid id;
    unsigned char hash[EVP_MAX_MD_SIZE];
    char digits[24];
    int digits_n = snprintf(digits, sizeof digits, "%" PRId64, number);
    EVP_MD_CTX *sha = EVP_MD_CTX_new();

    /* The zero that ends each word is hashed too. */
    if (!sha || !EVP_DigestInit_ex(sha, EVP_sha256(), NULL) || !EVP_DigestUpdate(sha, scope, strlen(scope) + 1) ||
        !EVP_DigestUpdate(sha, key, strlen(key) + 1) || !EVP_DigestUpdate(sha, digits, (size_t)digits_n + 1) ||
        !EVP_DigestFinal_ex(sha, hash, NULL))
        abort();
    EVP_MD_CTX_free(sha);
    memcpy(id.bytes, hash, sizeof id.bytes);
    moment_put(&id, created_ms);
    return id;
}

int64_t uuid_created_ms(struct uuid id)
{
    uint64_t ms = 0;

    for (int i = 0; i < 6; i++)
        ms = ms << 8 | id.bytes[i];
    return (int64_t)ms;
}

static bool dash_precedes(int byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

void uuid_print(struct uuid id, char ret_text[37])
{
    static const char digits[] = "0123456789abcdef";
    char *to = ret_text;

    for (int i = 0; i < 16; i++) {
        if (dash_precedes(i))
            *to++ = '-';
        *to++ = digits[id.bytes[i] >> 4];
        *to++ = digits[id.bytes[i] & 15];
    }
    *to = 0;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool uuid_read(const char *text, struct uuid *ret_id)
{
    struct uuid id;

    for (int i = 0; i < 16; i++) {
        int high, low;

        if (dash_precedes(i) && *text++ != '-')
            return false;
        if ((high = digit_value(text[0])) < 0 || (low = digit_value(text[1])) < 0)
            return false;
        id.bytes[i] = (unsigned char)(high << 4 | low);
        text += 2;
    }
    if (*text)
        return false;
    *ret_id = id;
    return true;
}
