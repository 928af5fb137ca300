#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Print a C file that holds the given files of the demo's programs as texts; see producer-demo/lib/embedded.h.
set -eu
echo '#include "producer-demo/lib/embedded.h"'
for file; do
    folder=$(basename "$(dirname "$file")") name=$(basename "$file")
    printf 'const char %s_%s[] = {' "$folder" "${name%.*}"
    od -An -v -tu1 "$file" | sed 's/  */,/g; s/^,//; s/$/,/'
    echo '0};'
done
