/* SPDX-License-Identifier: BSD-2-Clause */
/* The version, in one place. */
#ifndef RELAY_APP_VERSION_H
#define RELAY_APP_VERSION_H

#define RELAY_VERSION "0.1.0"

#endif
