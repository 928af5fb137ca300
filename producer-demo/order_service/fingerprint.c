/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_service/fingerprint.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void part_hash(EVP_MD_CTX *sha, const char *text)
{
    if (!EVP_DigestUpdate(sha, text, strlen(text) + 1))
        abort();
}

void fingerprint_make(const char *method, const char *path, const json_t *body, char ret_hex[65])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    char *canonical = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
    EVP_MD_CTX *sha = EVP_MD_CTX_new();

    if (!canonical || !sha || !EVP_DigestInit_ex(sha, EVP_sha256(), NULL))
        abort();
    part_hash(sha, method);
    part_hash(sha, path);
    part_hash(sha, canonical);
    if (!EVP_DigestFinal_ex(sha, hash, NULL))
        abort();
    for (int i = 0; i < 32; i++)
        (void)snprintf(ret_hex + 2 * i, 3, "%02x", hash[i]);
    EVP_MD_CTX_free(sha);
    free(canonical);
}
