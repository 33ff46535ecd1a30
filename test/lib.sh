# Shared by test/run, test/lint and .ci/run: packages, scratch copies, throw-away servers.
# Sourced by bash scripts that have set -euo pipefail.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$@"; }
complain() { printf '%s\n' "$@" >&2; }
die() { complain "$*"; exit 1; }
have() { command -v "$1" >/dev/null; }

# --- Environment -------------------------------------------------------------
# What is run must depend neither on the caller's PostgreSQL settings and locale
# nor on the flags of the make that called us.

clean_environment() {
    local name
    for name in "${!PG@}"; do
        [[ $name = PG_CONFIG || $name = PG_SOURCE || $name = PG_TEST_* ]] || unset "$name"
    done
    unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES
    export LC_ALL=C.UTF-8 LANG=C.UTF-8
}

# --- Packages ----------------------------------------------------------------

missing=() # Debian packages that require* found to be needed

# require PROGRAM PACKAGE
require() { have "$1" || missing+=("$2"); }

require_perl_modules() {
    have prove || missing+=(perl)
    perl -MIPC::Run -MTest::More -e1 2>/dev/null || missing+=(libipc-run-perl)
}

# Sets PG_CONFIG: the caller's, or that of a server that is complete, or the one
# that the packages added to `missing` will bring.
require_postgresql() {
    local candidate version
    if [ -n "${PG_CONFIG:-}" ]; then
        if is_complete "$PG_CONFIG"; then
            PG_CONFIG=$(command -v "$PG_CONFIG")
            return
        fi
        version=$(version_of "$PG_CONFIG")
        [ -n "$version" ] || die "PG_CONFIG=$PG_CONFIG: not the pg_config of a complete PostgreSQL server"
    else
        for candidate in pg_config /usr/lib/postgresql/15/bin/pg_config \
            $(ls -vr /usr/lib/postgresql/*/bin/pg_config 2>/dev/null); do
            if is_complete "$candidate"; then
                PG_CONFIG=$(command -v "$candidate")
                export PG_CONFIG
                return
            fi
        done
        version=$(version_to_install)
    fi
    PG_CONFIG=/usr/lib/postgresql/$version/bin/pg_config
    export PG_CONFIG
    # A package that is there already must not be named: apt would upgrade it.
    [ -x "${PG_CONFIG%/*}/postgres" ] || missing+=("postgresql-$version")
    [ -f "${PG_CONFIG%/bin/*}/lib/pgxs/src/makefiles/pgxs.mk" ] &&
        [ -f "/usr/include/postgresql/$version/server/postgres.h" ] ||
        missing+=("postgresql-server-dev-$version")
}

# is_complete PG_CONFIG: server, client, headers and test programs are all there
is_complete() {
    local bin pgxs headers
    have "$1" || return 1
    pgxs=$("$1" --pgxs 2>/dev/null) && bin=$("$1" --bindir) &&
        headers=$("$1" --includedir-server) || return 1
    [ -f "$pgxs" ] && [ -x "$bin/postgres" ] && [ -x "$bin/initdb" ] && [ -x "$bin/psql" ] &&
        [ -f "$headers/postgres.h" ] && [ -x "${pgxs%/makefiles/*}/test/regress/pg_regress" ]
}

# want_extension NAME PACKAGE: another extension, VERSION in the name of its package standing for the
# server's, without which some tests are left out. It is installed where that is possible.
want_extension() {
    [ -z "${PG_SOURCE:-}" ] || return 0 # Debian's package is of no use to a server that is not Debian's
    [ -f "$("$PG_CONFIG" --sharedir)/extension/$1.control" ] || want_package "${2/VERSION/$(version_of "$PG_CONFIG")}"
}

# want_neighbours: the extensions that 066_neighbours.pl loads beside this one, as far as Debian has them
# for the server's version.
want_neighbours() {
    local name
    [ -z "${PG_SOURCE:-}" ] || return 0
    for name in hypopg pgaudit cron wal2json pg-qualstats pg-stat-kcache pg-wait-sampling set-user plpgsql-check pgtap rum \
        postgis-3 pglogical powa repmgr pg-hint-plan pgvector timescaledb squeeze; do
        name=postgresql-$(version_of "$PG_CONFIG")-$name
        is_installed "$name" || want_package "$name"
    done
}

# want_program PACKAGE: the same for a program of the package's name.
want_program() { PATH=$PATH:/usr/sbin have "$1" || want_package "$1"; }

# want_clients: the libraries of other languages that 052_clients.pl writes with.
want_clients() {
    local package
    for package in python3-sqlalchemy python3-alembic python3-psycopg2 python3-django ruby-activerecord ruby-pg; do
        is_installed "$package" || want_package "$package"
    done
}

is_installed() { [[ $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) = *" installed" ]]; }

want_package() {
    have apt-get && find_root || return 0
    is_available "$1" || update_package_lists >/dev/null 2>&1 || true
    if is_available "$1"; then
        (missing=("$1"); install_missing) || say "$1 could not be installed: tests go without"
    fi
}

# The major version of a Debian pg_config that exists, or would be there once installed.
version_of() {
    case $1 in
    /usr/lib/postgresql/*/bin/pg_config) basename "${1%/bin/pg_config}" ;;
    *) "$1" --version 2>/dev/null | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p' ;;
    esac
}

# The server that is installed without its headers, else 15, else the newest there is.
version_to_install() {
    local version
    version=$(ls -v /usr/lib/postgresql/*/bin/postgres 2>/dev/null | tail -n 1 | cut -d/ -f5) || true
    if [ -z "$version" ] && have apt-cache; then
        is_available postgresql-15 || update_package_lists >&2
        if is_available postgresql-server-dev-15; then
            version=15
        else
            version=$(apt-cache pkgnames postgresql-server-dev- | grep -o '[0-9]*$' | sort -rn |
                while read -r v; do is_available "postgresql-$v" && echo "$v" && break; done) || true
        fi
    fi
    echo "${version:-15}"
}

is_available() { grep -q '^  Candidate: [^(]' <<<"$(apt-cache policy "$1" 2>/dev/null)"; }

# Sets as_root to the words that run a command with root's rights, or fails.
find_root() {
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || return 1
        if sudo -n true 2>/dev/null; then
            as_root=(sudo -n)
        elif [ -t 0 ]; then
            as_root=(sudo)
        else
            return 1
        fi
    fi
}

update_package_lists() {
    find_root && "${as_root[@]}" apt-get -q update </dev/null
}

# Installs what require* found missing. When first installed, Debian's PostgreSQL
# creates a cluster and starts all there are, and others start as services: all of that is
# prevented, for this installation only, and existing clusters are left as they are. One at a time: what
# prevents it is gone when an installation ends.
install_missing() {
    local package
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! have apt-get || ! find_root; then
        complain "These Debian packages are needed and cannot be installed from here:"
        complain "    ${missing[*]}"
        die "As root: apt-get install ${missing[*]}"
    fi
    for package in "${missing[@]}"; do
        is_available "$package" || { update_package_lists; break; }
    done
    say "Installing ${missing[*]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
        flock /run/index_table_install.lock bash -euc "$install_script" install "${missing[@]}" </dev/null ||
        die "could not install ${missing[*]}"
    missing=()
    [ -z "${PG_CONFIG:-}" ] || is_complete "$PG_CONFIG" ||
        die "PG_CONFIG=$PG_CONFIG: still not a complete PostgreSQL server"
}

install_script='
    conf_dir=/etc/postgresql-common/createcluster.d
    conf=$conf_dir/index_table_install.conf
    policy=/usr/sbin/policy-rc.d
    made_dir= made_policy=
    clean_up() {
        rm -f "$conf"
        [ -z "$made_dir" ] || rmdir --ignore-fail-on-non-empty "$conf_dir" /etc/postgresql-common
        [ -z "$made_policy" ] || rm -f "$policy"
    }
    trap clean_up EXIT
    trap "exit 130" INT TERM HUP
    [ -d "$conf_dir" ] || { made_dir=1; mkdir -p "$conf_dir"; }
    echo "create_main_cluster = false" >"$conf"
    if [ ! -e "$policy" ]; then
        made_policy=1
        printf "#!/bin/sh\nexit 101\n" >"$policy"
        chmod 755 "$policy"
    fi
    install() {
        apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
            install --no-install-recommends --no-upgrade "$@"
    }
    # Lists that are out of date name versions that the archive no longer has.
    install "$@" || { apt-get -q update; install "$@"; }
'

# --- Scratch directories, processes, servers ------------------------------------
# initdb, postgres and pg_regress refuse root: for root, all of it runs as another
# user, in a directory that this user owns.

scratch= # the directory; removed, with every server in it stopped, when the script ends
declare -A children=() # the process groups of what start() has started and nobody has awaited
as_user=()

trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

make_scratch() {
    local base=/tmp user=
    caller_home=$HOME
    # Socket paths are limited to 107 bytes.
    if [ -n "${TMPDIR:-}" ] && [ ${#TMPDIR} -le 30 ] && [ "$(id -u)" -ne 0 ]; then
        base=$TMPDIR
    fi
    scratch=$(mktemp -d "$base/it.XXXXXX")
    mkdir "$scratch/tmp" "$scratch/home"
    if [ "$(id -u)" -eq 0 ]; then
        if id postgres >/dev/null 2>&1; then user=postgres; else user=nobody; fi
        chown -R "$user:" "$scratch"
        as_user=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --init-groups)
    fi
    export HOME="$scratch/home" TMPDIR="$scratch/tmp"
    cd "$scratch" # the caller's directory may be closed to the user
}

# Starts a command as the unprivileged user, such that a signal to this script ends
# the command, and all it started, at once. Sets `started`, its process.
start() {
    setsid "${as_user[@]}" "$@" </dev/null &
    started=$!
    children[$started]=1
}

# await PROCESS: until what start() has started has ended; returns its status
await() {
    local status=0
    wait "$1" || status=$?
    unset "children[$1]"
    return "$status"
}

# await_first PROCESS...: the same for whichever ends first; sets `ended` to it
await_first() {
    while :; do
        for ended in "$@"; do
            kill -0 "$ended" 2>/dev/null || { await "$ended"; return; }
        done
        sleep 0.2 # not "wait -n", which may miss one that has ended by now
    done
}

# Starts a command, and waits for it.
run() {
    start "$@"
    await "$started"
}

clean_up() {
    local status=$? child
    trap - EXIT
    trap '' HUP INT TERM
    for child in "${!children[@]}"; do
        kill -TERM -- "-$child" 2>/dev/null || kill -TERM "$child" 2>/dev/null || true
    done
    for child in "${!children[@]}"; do wait "$child" 2>/dev/null || true; done
    if [ -n "$scratch" ]; then
        stop_servers "$scratch"
        cd /
        rm -rf "$scratch" || { sleep 1; rm -rf "$scratch"; } || true
    fi
    at_end
    exit "$status"
}

at_end() { :; } # a script's own last words

# stop_servers DIRECTORY: all whose data directories are in it
stop_servers() {
    local pid_file
    find "$1" -name postmaster.pid 2>/dev/null | while read -r pid_file; do
        "${as_user[@]}" "$server_bin/pg_ctl" stop -D "${pid_file%/*}" -m immediate -t 60 \
            >/dev/null 2>&1 || true
    done || true
}

# copy_tree DIRECTORY: the files of the project, without what a build leaves behind
copy_tree() {
    local git=(git -c "safe.directory=$top" -C "$top")
    mkdir -p "$1"
    if have git && [ "$("${git[@]}" rev-parse --show-prefix 2>/dev/null && echo top)" = $'\ntop' ]; then
        "${git[@]}" ls-files -z --cached --others --exclude-standard |
            (cd "$top" && while IFS= read -r -d '' f; do
                if [ -e "$f" ] || [ -L "$f" ]; then printf '%s\0' "$f"; fi
            done) |
            tar -C "$top" --null -T - -cf - | tar -C "$1" --no-same-owner -xf -
    else
        tar -C "$top" --exclude=./.git --exclude='*.o' --exclude='*.d' --exclude='*.bc' \
            --exclude='*.so' --exclude=./tmp_check --exclude=./results -cf - . |
            tar -C "$1" --no-same-owner -xf -
    fi
    if [ ${#as_user[@]} -gt 0 ]; then chown -R --reference="$scratch" "$1"; fi
}

# build_kept TREE [make's arguments]: builds what TREE, a copy by copy_tree, has, and sets `built` to where. Objects
# are kept between runs, in a directory for each checkout, version of the server, compiler, and set of flags: a change
# of one file compiles one file. BUILD_DIR is where these are, by default ~/.cache/index_table/build, for root
# /var/cache/index_table/build, because compilers run as another user. Directories that have not been used for a month
# are removed. Nothing is kept where BUILD_DIR is empty or cannot be written.
# The caller installs from it, then calls release_build.
build_kept() {
    local tree=$1 base=${XDG_CACHE_HOME:-$caller_home/.cache}/index_table/build file
    shift
    [ "$(id -u)" -ne 0 ] || base=/var/cache/index_table/build
    base=${BUILD_DIR-$base}
    if [ -z "$base" ] || ! mkdir -p "$base" 2>/dev/null || [ ! -w "$base" ]; then
        built=$tree
        build_in "$tree" "$@"
        return
    fi
    built=$(realpath "$base")/$(build_name "$@")
    mkdir -p "$built"
    exec {build_lock}>"$built.lock"
    flock "$build_lock"
    # What was being written when a run was killed may be half an object, or half of what it was made from.
    [ ! -e "$built/building" ] || find "$built" -newer "$built/building" -name '*.[odg]*' |
        while read -r file; do rm -f "${file%.*}".{o,d,gch}; done
    update_sources "$tree" "$built"
    if [ ${#as_user[@]} -gt 0 ]; then chown -R --reference="$scratch" "$built"; fi
    touch "$built/building" "$built.lock"
    build_in "$built" "$@" || { rm -f "$built/building"; return 1; }
    rm -f "$built/building"
    find "$base" -mindepth 1 -maxdepth 1 -name '*.lock' -mtime +30 2>/dev/null |
        while read -r file; do rm -rf "${file%.lock}" "$file"; done
}

release_build() {
    [ -z "${build_lock:-}" ] || exec {build_lock}>&-
    build_lock=
}

# build_name [make's arguments]: of what the same objects are good for
build_name() {
    local compiler=${CXX:-g++}
    printf '%s-%s-%s' "$(version_of "$PG_CONFIG")" "$(basename "${compiler%% *}")" \
        "$({ "$PG_CONFIG"; stat -c %Y "$("$PG_CONFIG" --includedir-server)/pg_config.h"; ${compiler%% *} --version
             echo "$top $compiler $* ${FAULTS:-} ${VALGRIND:-}"; } | sha1sum | cut -c 1-10)"
}

# update_sources TREE DIRECTORY: gives DIRECTORY what a build reads; a file that is the same keeps its time
update_sources() {
    local file
    (cd "$1" && find Makefile index_table.control src sql/schedule test/specs/schedule -type f | sort) >"$scratch/sources"
    (cd "$2" && find . -type f ! -name '*.[od]' ! -name '*.gch' ! -name building | sed 's|^./||' | sort) |
        comm -13 "$scratch/sources" - | while read -r file; do rm -f "$2/$file"; done
    while read -r file; do
        cmp -s "$1/$file" "$2/$file" || install -D -m 644 "$1/$file" "$2/$file"
    done <"$scratch/sources"
}

# build_in DIRECTORY [make's arguments]
build_in() {
    local dir=$1 debug=-g1 # lines for backtraces are enough, and compile faster
    shift
    [ -z "${VALGRIND:-}" ] || debug=-g
    run make -s -C "$dir" -j "$(nproc)" PG_CONFIG="$PG_CONFIG" FAULTS="${FAULTS:-}" DEBUG="$debug" ${CXX:+CXX="$CXX"} "$@"
}

# A private installation of the server with the extension in it, so that nothing is
# written to the system's. PostgreSQL looks for its files relative to the directory
# its programs are in: the programs are copied, what they read is linked.
# Sets server_bin; puts it first in PATH.
install_privately() {
    local tree=$1 root=$scratch/pg bin lib share
    bin=$("$PG_CONFIG" --bindir) lib=$("$PG_CONFIG" --pkglibdir) share=$("$PG_CONFIG" --sharedir)
    mkdir -p "$root$bin"
    cp -rL "$bin/." "$root$bin"
    link_entries "$root" "$lib"
    link_entries "$root" "$lib/bitcode"
    link_entries "$root" "$share"
    link_entries "$root" "$share/extension"
    rm -rf "$root$lib"/index_table* "$root$lib"/bitcode/index_table* "$root$share"/extension/index_table*
    if [ ${#as_user[@]} -gt 0 ]; then chown -R --reference="$scratch" "$root"; fi
    server_bin=$root$bin
    export PATH="$server_bin:$PATH"
    run make -s -C "$tree" install PG_CONFIG="$PG_CONFIG" with_llvm=no DESTDIR="$root" >"$scratch/install.log" 2>&1 ||
        { cat "$scratch/install.log"; return 1; }
}

# link_entries ROOT DIRECTORY: ROOT/DIRECTORY with links to the entries of DIRECTORY
link_entries() {
    [ -d "$2" ] || return 0
    rm -f "$1$2"
    mkdir -p "$1$2"
    ln -s "$2"/* "$1$2"
}

# start_server CONFIGURATION [NAME PORT]: a server in $scratch/NAME (data) that listens on port PORT (5432)
# of a socket in $scratch/s only; sets PGHOST, PGPORT, PGUSER, PGDATABASE to it.
start_server() {
    local data=$scratch/${2:-data}
    export PGHOST=$scratch/s PGPORT=${3:-5432} PGUSER=postgres PGDATABASE=postgres
    "${as_user[@]}" mkdir -p "$PGHOST"
    run initdb -D "$data" -U postgres -A trust >"$scratch/initdb.log" 2>&1 ||
        { cat "$scratch/initdb.log"; return 1; }
    {
        cat "$1"
        echo "port = $PGPORT"
        echo "listen_addresses = ''"
        echo "unix_socket_directories = '$PGHOST'"
    } >>"$data/postgresql.conf"
    run pg_ctl start -s -w -t 60 -D "$data" -l "$data.log" ||
        { tail -n 30 "$data.log"; return 1; }
}

# --- A server built from source, with assertions ----------------------------------

require_source_build() {
    source_version=$(sed -n "s/^PACKAGE_VERSION='\(.*\)'/\1/p" "$PG_SOURCE/configure" 2>/dev/null) || true
    [ -n "$source_version" ] && [ -f "$PG_SOURCE/src/include/pg_config.h.in" ] ||
        die "PG_SOURCE=$PG_SOURCE: not PostgreSQL's source tree"
    PG_SOURCE=$(realpath "$PG_SOURCE")
    require bison bison
    require flex flex
    require pkg-config pkg-config
    [ -f /usr/include/zlib.h ] || missing+=(zlib1g-dev)
    [ -f /usr/include/unicode/ucol.h ] || missing+=(libicu-dev)
    [ -z "${VALGRIND:-}" ] || require valgrind valgrind
}

# Sets PG_CONFIG to that of a server built from PG_SOURCE with --enable-cassert, with contrib and all that
# tests need. It is kept in CASSERT_DIR/VERSION until PG_SOURCE is another directory or has a newer file.
# Where valgrind is installed the server tells it of its memory, which costs nothing without it.
# The unprivileged user runs it from there, who cannot look into root's home.
use_source_build() {
    local kept base=${XDG_CACHE_HOME:-$caller_home/.cache}/index_table
    [ "$(id -u)" -ne 0 ] || base=/var/cache/index_table
    base=$(realpath -m "${CASSERT_DIR:-$base/cassert}")
    kept=$base/$source_version
    mkdir -p "$base"
    exec {source_lock}>"$kept.lock"
    flock -s "$source_lock" # until this run ends: nobody else may make it anew meanwhile
    if ! is_built_from_source "$kept"; then
        flock "$source_lock"
        is_built_from_source "$kept" || keep_source_build "$kept"
        flock -s "$source_lock"
    fi
    export PG_CONFIG=$kept/bin/pg_config
    run test -x "$PG_CONFIG" ||
        die "$kept: out of reach of the user that runs servers. Give CASSERT_DIR=another directory"
}

# is_built_from_source DIRECTORY: the server that is wanted is there, and nothing in PG_SOURCE is newer
is_built_from_source() {
    local sources=(-name '*.[chyl]' -o -name '*.p[lm]' -o -name '*.in' -o -name '*.dat' -o -name '*.sql' -o -name configure)
    [ -f "$1/ready" ] && [ "$(head -n 1 "$1/ready")" = "$PG_SOURCE" ] && is_complete "$1/bin/pg_config" &&
        { [ -z "${VALGRIND:-}" ] || grep -qx valgrind "$1/ready"; } &&
        grep -qxF "without $unfounded" "$1/ready" &&
        [ -z "$(find "$PG_SOURCE" -newer "$1/ready" '(' "${sources[@]}" ')' -print -quit)" ]
}

keep_source_build() {
    say "Building PostgreSQL $source_version with assertions, in $1"
    touch "$scratch/started"
    rm -rf "$1"
    mkdir "$1"
    if [ ${#as_user[@]} -gt 0 ]; then chown --reference="$scratch" "$1"; fi
    build_source "$1" >"$1.log" 2>&1 ||
        { tail -n 30 "$1.log"; die "PG_SOURCE=$PG_SOURCE: could not be built, see $1.log"; }
    { echo "$PG_SOURCE"; echo "without $unfounded"; if knows_valgrind; then echo valgrind; fi; } >"$1/ready"
    touch -r "$scratch/started" "$1/ready"
}

knows_valgrind() { [ -f /usr/include/valgrind/memcheck.h ]; }

# An assertion of heap_update that fails without any extension, see docs/operations.md.
unfounded='Assert(HEAP_XMAX_IS_LOCKED_ONLY(infomask_lock_old_tuple));'

# build_source DIRECTORY: from a copy, because somebody may have built in PG_SOURCE, which forbids to
# build out of it elsewhere. That assertion is left out.
build_source() {
    local copy=$scratch/source define=
    if knows_valgrind; then define=-DUSE_VALGRIND; fi
    mkdir "$copy" &&
        tar -C "$PG_SOURCE" --exclude=./.git --exclude=tmp_check --exclude='*.o' --exclude='*.bc' -cf - . |
        tar -C "$copy" --no-same-owner -xf - &&
        if [ ${#as_user[@]} -gt 0 ]; then chown -R --reference="$scratch" "$copy"; fi &&
        sed -i "/$unfounded/d" "$copy/src/backend/access/heap/heapam.c" &&
        if [ -f "$copy/config.status" ]; then run make -s -C "$copy" distclean; fi &&
        mkdir "$copy/build" &&
        if [ ${#as_user[@]} -gt 0 ]; then chown --reference="$scratch" "$copy/build"; fi &&
        cd "$copy/build" &&
        run ../configure -q --prefix="$1" --enable-cassert --enable-debug --enable-tap-tests --with-icu \
            --without-readline CFLAGS='-O1 -g' CPPFLAGS="$define" &&
        run make -s -j "$(nproc)" &&
        run make -s -j "$(nproc)" -C contrib &&
        run make -s install &&
        run make -s -C contrib install &&
        cd "$scratch" &&
        rm -rf "$copy"
}

# show_traps LOG...: shows the assertions that failed, and is true if there are any
show_traps() { grep -ahs -A 12 '^TRAP: ' "$@"; }

# --- Valgrind -----------------------------------------------------------------------

# use_valgrind: from now on the servers of the private installation run under memcheck. What it finds is in a
# file a process in $scratch/valgrind. initdb's own processes do not: they have nothing of the extension.
use_valgrind() {
    local log=$scratch/valgrind
    mkdir "$log"
    if [ ${#as_user[@]} -gt 0 ]; then chown --reference="$scratch" "$log"; fi
    cp "$PG_SOURCE/src/tools/valgrind.supp" "$scratch/postgresql.supp" # the user may not reach the original
    chmod 644 "$scratch/postgresql.supp"
    mv "$server_bin/postgres" "$server_bin/postgres.checked"
    cat >"$server_bin/postgres" <<EOF
#!/bin/sh
case "\${1:-}" in
--boot | --single | --check | --describe-config | -V | --version | -C) exec "$server_bin/postgres.checked" "\$@" ;;
esac
exec valgrind --quiet --leak-check=no --num-callers=30 --gen-suppressions=all --error-markers=VALGRINDERROR-BEGIN,VALGRINDERROR-END \\
    --suppressions="$scratch/postgresql.supp" --log-file="$log/%p" "$server_bin/postgres.checked" "\$@"
EOF
    chmod 755 "$server_bin/postgres"
}

# show_valgrind: shows what memcheck has found since it was asked last, and is true if it found anything
show_valgrind() {
    local found=
    [ -d "$scratch/valgrind" ] || return 1
    if grep -lsr VALGRINDERROR-BEGIN "$scratch/valgrind" >"$scratch/found"; then
        found=1
        xargs cat <"$scratch/found" | head -n 400
    fi
    rm -f "$scratch"/valgrind/*
    [ -n "$found" ]
}
