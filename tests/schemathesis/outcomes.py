# SPDX-License-Identifier: BSD-2-Clause
"""outcomes.py OPENAPI HAR: how often each operation was answered with 2xx and 4xx; fails unless each had at least one of both."""
import collections
import json
import re
import sys
import urllib.parse

with open(sys.argv[1]) as f:
    paths = json.load(f)["paths"]
with open(sys.argv[2]) as f:
    entries = json.load(f)["log"]["entries"]

operations = {}
for path, methods in paths.items():
    pattern = re.compile(re.sub(r"\{[^}]*\}", "[^/]*", path) + "$")
    for method in methods:
        if method != "parameters":
            operations[method.upper(), path] = pattern

seen = collections.Counter()
for entry in entries:
    at = urllib.parse.urlsplit(entry["request"]["url"]).path
    for (method, path), pattern in operations.items():
        if method == entry["request"]["method"] and pattern.match(at):
            seen[method, path, entry["response"]["status"] // 100] += 1

failed = 0
for method, path in operations:
    good, bad = seen[method, path, 2], seen[method, path, 4]
    failed += not (good and bad)
    print(f"{'ok' if good and bad else 'FAILED'} {method} {path}: {good} x 2xx, {bad} x 4xx")
print(f"{len(operations) - failed} passed, {failed} failed")
sys.exit(failed > 0 or not operations)
