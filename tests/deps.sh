#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Install what building, testing and the demo need and this Debian 12 does not have: packages (with sudo unless root), and the jars of a
# Kafka broker in the user's cache folder. When nothing is missing it asks nobody and takes no time. No service is left running.
set -eu
cd "$(dirname "$0")/.."

packages='build-essential pkg-config libpq-dev librdkafka-dev libuv1-dev libmicrohttpd-dev libjansson-dev libsystemd-dev
    libcurl4-openssl-dev libhiredis-dev libssl-dev redis-server python3-venv
    postgresql-15 pgbouncer clang clang-format libclang-rt-14-dev cppcheck valgrind libc6-dbg prometheus openjdk-17-jre-headless maven procps faketime curl
    libjs-chart.js chromium chromium-driver python3-selenium'

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

is_installed() {
    [ "$(dpkg-query -W -f '${Status}' "$1" 2>/dev/null)" = 'install ok installed' ]
}

policy=/usr/sbin/policy-rc.d
clusters=/etc/postgresql-common/createcluster.conf
undo=''

# The packages' own services must not start: no PostgreSQL cluster is made, and invoke-rc.d is told so by its policy file.
services_forbid() {
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
        as_root chmod 755 $policy
        undo="$undo policy"
    fi
    if ! is_installed postgresql-15; then
        is_installed postgresql-common || apt install --no-install-recommends postgresql-common
        if ! grep -q '^create_main_cluster *= *false' $clusters; then
            as_root sed -i.before-outbox-relay '$a create_main_cluster = false' $clusters
            undo="$undo clusters"
        fi
    fi
    is_installed prometheus || undo="$undo prometheus"
    is_installed pgbouncer || undo="$undo pgbouncer"
    is_installed redis-server || undo="$undo redis"
}

services_undo() {
    for what in $undo; do
        case $what in
        policy) as_root rm -f $policy ;;
        clusters) as_root mv $clusters.before-outbox-relay $clusters ;;
        prometheus) [ ! -d /run/systemd/system ] || as_root systemctl disable -q prometheus || true ;; # only its promtool is used
        pgbouncer) [ ! -d /run/systemd/system ] || as_root systemctl disable -q pgbouncer || true ;; # tests start their own
        redis) [ ! -d /run/systemd/system ] || as_root systemctl disable -q redis-server || true ;;
        esac
    done
    undo=''
}

packages_install() {
    missing=''
    for package in $packages; do
        is_installed "$package" || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    echo "deps: installing$missing"
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        echo "deps: there is no sudo; as root, run: apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    apt update
    trap services_undo EXIT
    trap 'exit 130' INT TERM
    services_forbid
    # shellcheck disable=SC2086
    apt install --no-install-recommends $missing
    services_undo
}

kafka_install() {
    version=$(sed -n '/kafka_2.13/,/version/s/ *<version>\(.*\)<\/version>/\1/p' tests/lib/kafka/pom.xml)
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/outbox-relay
    jars=${TEST_KAFKA_JARS:-$cache/kafka-$version}
    [ ! -d "$jars" ] || return 0
    echo "deps: fetching Kafka $version into $jars"
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/new-XXXXXX")
    mvn -q -B -ntp -Dstyle.color=never -f tests/lib/kafka/pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
        -DoutputDirectory="$new" </dev/null
    chmod 755 "$new"
    # Whole or not there; whoever else fetched it meanwhile was first.
    mv -T "$new" "$jars" 2>/dev/null || rm -rf "$new"
}

packages_install
kafka_install
echo 'deps: everything is there'
