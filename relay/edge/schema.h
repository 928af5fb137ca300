/* SPDX-License-Identifier: BSD-2-Clause */
/* The migrations of schema/, embedded into the program by the makefile, in the order of their names. */
#ifndef RELAY_EDGE_SCHEMA_H
#define RELAY_EDGE_SCHEMA_H

#include <stddef.h>

struct schema_file {
    const char *name; /* "001_outbox.sql" */
    const char *sql;  /* ends with a zero, which is not counted */
    size_t sql_n;
};

extern const struct schema_file schema_files[];
extern const size_t schema_files_n;

#endif
