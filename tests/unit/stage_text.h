/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the words of a test and what the relay takes: for stage.c and stage_text.c only. */
#ifndef TESTS_UNIT_STAGE_TEXT_H
#define TESTS_UNIT_STAGE_TEXT_H

#include "tests/unit/stage.h"

#define STAGE_RECORDS 16
#define STAGE_TEXT    1000 /* bytes of any text, the zero included */

/* The next row of `*text`, which moves on. Returns false at its end. */
bool stage_row_read(const char **text, struct row *ret_row);
/* All of them, at most STAGE_ROWS; returns how many. */
uint32_t stage_rows_read(const char *text, struct row *ret_rows);
/* Records "0/2:7 1/all:3", at most STAGE_RECORDS; returns how many. */
uint32_t stage_records_read(const char *text, struct relay_behind *ret_records);

/* Add a word to `text` of STAGE_TEXT bytes. */
void stage_append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void stage_append_row(char *text, const struct row *row);

#endif
