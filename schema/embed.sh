#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Print a C file that holds the given files as bytes, in the given order; see relay/edge/schema.h.
set -eu
echo '#include "relay/edge/schema.h"'
i=0
for file; do
    printf 'static const unsigned char bytes_%d[] = {' $i
    od -An -v -tu1 "$file" | sed 's/  */,/g; s/^,//; s/$/,/'
    echo '0};'
    i=$((i + 1))
done
# A last, empty entry, which is not counted: an array may not be empty.
echo 'const struct schema_file schema_files[] = {'
i=0
for file; do
    printf '{"%s", (const char *)bytes_%d, sizeof(bytes_%d) - 1},\n' "$(basename "$file")" $i $i
    i=$((i + 1))
done
echo '{0, 0, 0}};'
echo "const size_t schema_files_n = $i;"
