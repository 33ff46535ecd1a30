# Shared by the benchmarks: a database of their own, rounds of measurements, and what is written of
# them. Sourced by bash scripts that have set -euo pipefail. They run on the server that PGHOST,
# PGPORT, PGUSER and PGDATABASE name. Where BENCH_OUT names a directory, tables and figures are
# written there as well, for test/bench/results.sh.

export PGOPTIONS="-c client_min_messages=warning ${PGOPTIONS:-}"
export PGAPPNAME=index_table_bench
work_dir=$(mktemp -d)
database=index_table_bench_$$
home= # the database to come from
variants='none native plpgsql normalized'

sql() { psql -X -q -v ON_ERROR_STOP=1 -P pager=off -P footer=off "$@"; }
value() { sql -At -c "$1"; }

# begin_bench: a database, dropped when the script ends, with a table for results
begin_bench() {
    home=${PGDATABASE:-}
    trap clean_up EXIT
    trap 'exit 130' HUP INT TERM
    sql -c "CREATE DATABASE $database" </dev/null
    export PGDATABASE=$database
    sql <<'SQL'
CREATE EXTENSION index_table;
CREATE SCHEMA bench;
CREATE TABLE bench.measure (what text, variant text, round int, rows bigint, ms float8, cpu_ms float8);

-- Time that this backend has spent on a processor, where the server can tell: what else the
-- machine does disturbs it less than it does the clock.
CREATE FUNCTION bench.cpu_ms() RETURNS float8 LANGUAGE plpgsql AS $$
BEGIN
    RETURN split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e6;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;
SQL
    value "SELECT format('%s', split_part(version(), ' on ', 1))"
    value "SELECT string_agg(name || ' = ' || current_setting(name), ', ') FROM unnest(ARRAY[
        'shared_buffers', 'work_mem', 'maintenance_work_mem', 'max_parallel_maintenance_workers',
        'max_wal_size', 'fsync', 'autovacuum']) AS name"
}

clean_up() {
    local status=$?
    trap - EXIT
    rm -rf "$work_dir"
    PGDATABASE=$home sql -c "DROP DATABASE IF EXISTS $database WITH (FORCE)" || status=1
    exit "$status"
}

# progress TEXT: what is being done, where somebody watches
progress() { if [ -t 2 ]; then printf '\r\033[K%s' "$1" >&2; fi; }

# What stands before and after a measured command: takes the time, and writes it down as
# that of :what, :variant, :round, :rows.
start_clock='SELECT clock_timestamp() AS begun, bench.cpu_ms() AS cpu_begun
\gset'
stop_clock="INSERT INTO bench.measure VALUES (:'what', :'variant', :round, :rows,
    extract(epoch FROM clock_timestamp() - :'begun'::timestamptz) * 1000,
    bench.cpu_ms() - nullif(:'cpu_begun', '')::float8);"

# in_order ROUND: the variants, starting with another one each round
in_order() {
    local names=($variants) i
    for ((i = 0; i < ${#names[@]}; i++)); do echo "${names[($1 + i) % ${#names[@]}]}"; done
}

# pgbench_median SCAN PROTOCOL CLIENTS SECONDS [ARGUMENT...]: what the client sees a transaction of
# $work_dir/script.sql take, in microseconds, with index_table.enable_scan = SCAN; ARGUMENTs of pgbench
pgbench_median() {
    local median
    rm -f "$work_dir"/log.*
    PGOPTIONS="$PGOPTIONS -c session_preload_libraries=index_table -c index_table.enable_scan=$1" \
        pgbench -n -M "$2" -c "$3" -j "$3" -T "$4" "${@:5}" -f "$work_dir/script.sql" \
        -l --log-prefix="$work_dir/log" >"$work_dir/out" 2>&1 || { cat "$work_dir/out" >&2; return 1; }
    # The first transactions of a client fill its caches.
    median=$(awk '$2 > 4 { print $3 }' "$work_dir"/log.* | sort -n | awk '{ a[NR] = $1 } END { print NR ? a[int((NR + 1) / 2)] : "" }')
    [ -n "$median" ] || median=$(awk '{ print $3 }' "$work_dir"/log.* | sort -n | head -1)
    echo "$median"
}

# --- Results -----------------------------------------------------------------

bench_name=${BENCH_NAME:-${0##*/}}

# show_table [ARGUMENT...]: prints the results of the SQL on standard input, and writes them as Markdown
show_table() {
    sql "$@" -P border=2 >"$work_dir/table"
    cat "$work_dir/table"
    [ -n "${BENCH_OUT:-}" ] || return 0
    awk '/^\+-/ { if (++n % 3 == 1) print ""; else if (n % 3 == 2) { gsub(/\+/, "|"); print } next } { print }' \
        "$work_dir/table" >>"$BENCH_OUT/$bench_name.md"
}

# note TEXT...: what is said of the table above
note() {
    echo "$*"
    [ -z "${BENCH_OUT:-}" ] || fold -s -w 98 <<<$'\n'"$*" | sed 's/ *$//' >>"$BENCH_OUT/$bench_name.md"
}

# figure NAME KIND TITLE X Y: a picture of the rows that the query on standard input returns, for
# gnuplot: what is on the x axis, then a column a series, which its name tells. KIND: lines (both axes
# logarithmic), clients (x logarithmic), bars, or log_bars. X and Y say what the axes are, and the unit.
figure() {
    [ -n "${BENCH_OUT:-}" ] || { cat >/dev/null; return 0; }
    {
        printf '# %s\n' "$2" "$3" "$4" "$5" "$bench_name"
        sql -P format=unaligned -P fieldsep=$'\t' -P null=-
    } >"$BENCH_OUT/$1.tsv"
}

# headlines: lines of the table that comes before all others. The query on standard input returns: what;
# the unit; natively; in one table without partitions (or NULL); here; what to do where that is a loss.
# All figures are times, or sizes: less is better.
headlines() {
    [ -n "${BENCH_OUT:-}" ] || { cat >/dev/null; return 0; }
    sql -At -F $'\t' >>"$BENCH_OUT/headlines"
}
