/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that lie beside the sources of a program (producer-demo/PROGRAM/NAME.sql, .json), embedded by the makefile as PROGRAM_NAME: a program
 * finds them wherever it is run. Texts that end with a zero. */
#ifndef PRODUCER_DEMO_EMBEDDED_H
#define PRODUCER_DEMO_EMBEDDED_H

extern const char card_processor_schema[];
extern const char order_service_schema[];
extern const char order_service_openapi[];
extern const char payment_consumer_schema[];

#endif
