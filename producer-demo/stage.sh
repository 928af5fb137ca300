# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# The page of the demo, to be sourced after chain.sh. The script goes on owning the processes; the page (program panel) knows them by files in
# $folder/run: NAME.pid, NAME.port, and NAME.down, which says: keep it stopped. Whatever is dead and has no NAME.down is started again.
declare -A stage_down=()

# What the page calls a process.
stage_name() {
    case $1 in
    card) echo card-processor ;;
    service) echo order-service ;;
    kafka) echo broker ;;
    postgres | broker | redis | relay | relay-2 | client) echo "$1" ;;
    *) echo "consumer-$1" ;;
    esac
}

# Which process is which now. A file is there whole or not at all.
stage_tell() {
    local name shown
    for name in "${!pids[@]}"; do
        [ "$name" = panel ] && continue
        shown=$folder/run/$(stage_name "$name")
        [ "${pids[$name]}" = "${stage_pids[$name]:-}" ] && continue
        stage_pids[$name]=${pids[$name]}
        [ -z "${ports[$name]:-}" ] || echo "${ports[$name]}" >"$shown.port"
        echo "${pids[$name]}" >"$shown.new" && mv "$shown.new" "$shown.pid"
    done
}

# Starts the page for the processes that are there; sets page, its address.
stage_begin() {
    declare -gA stage_pids=()
    mkdir -p "$folder/run"
    echo "${redeliver:-3}" >"$folder/run/redeliver"
    stage_tell
    start panel "$build/panel" --folder "$folder/run" --database "$database" --kafka "$kafka" --topic "$topic" --port "${PAGE_PORT:-0}" \
        --absent "$(printf '%s\n' ${skipped[@]+"${skipped[@]}"})"
    wait_for 20 grep -q 'listening on' "$folder/panel.log" || die 'the page cannot be served' panel
    page=$(sed -n 's/^panel: listening on //p' "$folder/panel.log" | head -n 1)
    say "the page: $page/ in a browser on this machine"
}

# Orders only: a refund that is lost would be too much in a ledger that loses. Started anew, a client has new intents.
stage_client() {
    client_number=$((${client_number:-0} + 1))
    start client "$build/order-client" --url "http://127.0.0.1:${ports[service]}" --orders 100000000 --rate "$rate" --flaky 5 \
        --give-up-ms 600000 --journal "$folder/journal-$client_number" --seed "$client_number"
}

stage_up() { # NAME: it is dead, or was kept down
    case $1 in
    broker) [ -n "${stage_down[broker]:-}" ] && echo up >&3 ;;
    client) stage_client ;;
    postgres | kafka | card | service | relay | relay-2 | redis) start_again "$1" ;;
    *) redeliver=$(cat "$folder/run/redeliver") way_start "$1" ;;
    esac
}

stage_stop() { # NAME: its file says so
    case $1 in
    broker) [ -n "${stage_down[broker]:-}" ] || echo down >&3 ;;
    postgres) stop INT 15 postgres ;;
    *) stop KILL 1 "$1" ;;
    esac
}

# One look at every process.
stage_look() {
    local name
    for name in "${stage_names[@]}"; do
        if [ -e "$folder/run/$(stage_name "$name").down" ]; then
            { [ "$name" = broker ] || running "$name"; } && stage_stop "$name"
            stage_down[$name]=yes
        elif [ -n "${stage_down[$name]:-}" ] || ! running "$name"; then
            stage_up "$name"
            unset "stage_down[$name]"
        fi
    done
    stage_tell
}

# Until Ctrl-C. Bash would report each child that died of a signal, and here they do on purpose.
stage_keep() {
    mapfile -t stage_names < <(for name in "${!pids[@]}"; do [ "$name" = panel ] || echo "$name"; done)
    while running panel; do
        stage_look
        sleep 0.2
    done
    die 'the page ended by itself' panel
} 2>/dev/null
