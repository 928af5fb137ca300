/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/idset.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS   (1u << 22) /* of 8 bytes; pages that nobody touched take no room */
#define FULL    3000000
#define EMPTY   0u
#define REMOVED 1u

struct slots {
    uint64_t taken; /* that are not EMPTY */
    uint64_t ids[SLOTS];
};

struct idset {
    struct slots *slots;
};

static uint64_t fingerprint(struct uuid id)
{
    uint64_t high, low;

    memcpy(&high, id.bytes, sizeof high);
    memcpy(&low, id.bytes + 8, sizeof low);
    low ^= high * 0x9e3779b97f4a7c15u;
    low = (low ^ low >> 31) * 0xd6e8feb86659fd93u;
    low ^= low >> 32;
    return low > REMOVED ? low : low + 2;
}

struct idset *idset_open(const char *file, char *ret_reason, size_t reason_size)
{
    struct idset *set = malloc(sizeof *set);
    void *memory = MAP_FAILED;
    int fd = -1;

    if (!set)
        abort();
    if (!file || ((fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0644)) >= 0 && ftruncate(fd, sizeof *set->slots) == 0))
        memory = mmap(NULL, sizeof *set->slots, PROT_READ | PROT_WRITE, (file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_NORESERVE,
                      fd, 0);
    if (memory == MAP_FAILED) {
        (void)snprintf(ret_reason, reason_size, "%s cannot keep a set of ids: %s", file ? file : "memory", strerror(errno));
        free(set);
        set = NULL;
    } else {
        set->slots = memory;
    }
    if (fd >= 0)
        (void)close(fd);
    return set;
}

void idset_close(struct idset *set)
{
    (void)munmap(set->slots, sizeof *set->slots);
    free(set);
}

bool idset_add(struct idset *set, struct uuid id)
{
    uint64_t wanted = fingerprint(id), found;
    uint32_t slot = (uint32_t)(wanted >> 20) % SLOTS;

    for (;;) {
        found = __atomic_load_n(&set->slots->ids[slot], __ATOMIC_ACQUIRE);
        if (found == EMPTY) {
            if (__atomic_load_n(&set->slots->taken, __ATOMIC_RELAXED) >= FULL)
                return true;
            if (__atomic_compare_exchange_n(&set->slots->ids[slot], &found, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
                (void)__atomic_fetch_add(&set->slots->taken, 1, __ATOMIC_RELAXED);
                return true;
            }
        }
        if (found == wanted)
            return false;
        slot = (slot + 1) % SLOTS;
    }
}

void idset_remove(struct idset *set, struct uuid id)
{
    uint64_t wanted = fingerprint(id), found;

    for (uint32_t slot = (uint32_t)(wanted >> 20) % SLOTS; (found = __atomic_load_n(&set->slots->ids[slot], __ATOMIC_ACQUIRE)) != EMPTY;
         slot = (slot + 1) % SLOTS)
        if (found == wanted)
            __atomic_store_n(&set->slots->ids[slot], REMOVED, __ATOMIC_RELEASE);
}
