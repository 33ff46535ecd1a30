# Shared by the tours: how they run SQL and talk. Sourced by bash scripts.

[[ $rows =~ ^[0-9]+$ ]] && [ "$rows" -ge 1000 ] || { echo "ROWS=$rows: must be a number from 1000" >&2; exit 1; }

sql() {
    psql -X -q -v ON_ERROR_STOP=1 -P pager=off -P footer=off \
        -v rows="$rows" -v partitions="$partitions" "$@"
}
# One value, from one statement.
value() { sql -At -c "$1"; }

# --- Telling ---------------------------------------------------------------------

number() { value "SELECT to_char($1::bigint, 'FM999,999,999,999')"; }

chapter() { printf '\n\n==== %s %s\n\n' "$1" "$(printf '%*s' $((70 - ${#1})) '' | tr ' ' =)"; }

tell() { printf '%s\n' "$@"; }

# progress TEXT: on a terminal one line that changes, elsewhere a line every few seconds
exec 3>&1
last_progress=0
progress() {
    if [ -t 3 ]; then
        printf '\r\033[K  %s' "$1" >&3
    elif [ $((SECONDS - last_progress)) -ge 4 ]; then
        last_progress=$SECONDS
        printf '  %s\n' "$1" >&3
    fi
}
progress_done() { if [ -t 3 ]; then printf '\r\033[K' >&3; fi; }

# with_progress TITLE COMMAND...: shows what a long command is at. Looking seldom keeps
# the looking out of what is measured.
with_progress() {
    local title=$1 pid begun=$SECONDS looked=$SECONDS status=0
    shift
    "$@" &
    pid=$!
    last_progress=$SECONDS
    while sleep 0.1 && kill -0 "$pid" 2>/dev/null; do
        if [ $((SECONDS - looked)) -ge 2 ]; then
            looked=$SECONDS
            progress "$title: $((SECONDS - begun)) s$(building)"
        fi
    done
    wait "$pid" || status=$?
    progress_done
    return "$status"
}
