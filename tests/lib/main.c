/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

/* In a file of its own, so that programs with a main of their own can use the rest. */
int main(int argc, char **argv)
{
    return test_main(argc, argv);
}
