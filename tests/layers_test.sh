#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The check of the layers, checked: on a copy of relay/ it finds nothing, and it finds each violation that is planted there.
set -u
cd "$(dirname "$0")/.." || exit 1
here=$PWD
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

verdict() { # NAME, and what the last command said
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        echo "ok layers_$1"
    else
        failed=$((failed + 1))
        echo "FAILED layers_$1"
    fi
}

check() {
    rm -rf "$work/relay"
    cp -r relay "$work/relay"
    [ -z "$1" ] || printf '%s\n' "$2" >>"$work/$1"
    (cd "$work" && awk -f "$here/tests/layers.awk" "$here/relay/layers" $(find relay -name '*.[ch]')) >"$work/said"
}

finds() { # NAME FILE LINE: planted in that file, it is found and named
    check "$2" "$3"
    [ $? = 1 ] && grep -q "^$2:" "$work/said"
    verdict "$1" $?
}

check '' ''
verdict finds_nothing_in_what_is_there $?
finds finds_an_edge_in_core relay/core/relay.h '#include "relay/edge/outbox.h"'
finds finds_the_app_in_core relay/core/relay.h '#include "relay/app/log.h"'
finds finds_the_clock_in_core relay/core/relay.h '#include <time.h>'
finds finds_stdio_in_core relay/core/relay.h '  #  include <stdio.h> // why'
finds finds_unistd_in_core relay/core/relay.h '#include <unistd.h>'
finds finds_the_app_in_an_edge relay/edge/producer.h '#include "relay/app/config.h"'
finds finds_libpq_in_the_app relay/app/log.h '#include <libpq-fe.h>'
finds finds_libpq_in_a_public_header relay/edge/outbox.h '#include <libpq-fe.h>'
finds finds_kafka_in_the_outbox relay/edge/outbox.h '#include <librdkafka/rdkafka.h>'
finds finds_another_edge_in_an_edge relay/edge/http.h '#include "relay/edge/outbox.h"'
finds finds_a_file_of_no_layer relay/helper.h '#include <stdio.h>'

symbols() { # SOURCE
    printf '%s\n' "$1" >"$work/core.c"
    ${CC:-cc} -O2 -c "$work/core.c" -o "$work/core.o" || return 2
    tests/symbols.sh "$work/core.o" >"$work/said"
}
symbols 'void *malloc(unsigned long); void *f(void); void *f(void) { return malloc(8); }'
verdict symbols_allow_memory $?
symbols 'long time(long *); long f(void); long f(void) { return time(0); }'
[ $? = 1 ] && grep -q ' time$' "$work/said"
verdict symbols_find_the_clock $?
symbols 'int getpid(void); int f(void); int f(void) { return getpid(); }'
[ $? = 1 ] && grep -q ' getpid$' "$work/said"
verdict symbols_find_a_system_call $?

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
