# Debian's packages and the image of the Dockerfile, made and tried in the chroots of test/matrix, which sources
# this: SUITE=package and SUITE=image. Nothing of it changes a chroot: everything happens in layers over it.

steps_passed=0
steps_failed=0

# step TITLE COMMAND: shows the end of what the command printed if it fails
step() {
    local title=$1 status=0
    shift
    ("$@") </dev/null >>"$log" 2>&1 || status=$?
    if [ "$status" -eq 0 ]; then
        say "ok - $title"
        steps_passed=$((steps_passed + 1))
    else
        say "not ok - $title" "--- the end of $log ---"
        tail -n 40 "$log"
        steps_failed=$((steps_failed + 1))
    fi
    return "$status"
}

# conclude_steps VERSION
conclude_steps() {
    note="${releases[$1]}${note:+; $note}"
    [ "$steps_failed" -gt 0 ] || { conclude "$1" "$steps_passed passed, 0 failed" ok; return; }
    conclude "$1" "$steps_passed passed, $steps_failed failed, see $log"
}

# --- Layers --------------------------------------------------------------------
# What is written to a layer is in its directory; mounts end with the namespace that test/matrix runs in.

# add_layer NAME LOWER[:LOWER...]: sets `root` to what the layer looks like
add_layer() {
    local layer=$layers/$1
    mkdir -p "$layer/upper" "$layer/work" "$layer/root"
    mount -t overlay overlay -o "lowerdir=$2,upperdir=$layer/upper,workdir=$layer/work" "$layer/root" || return 1
    root=$layer/root
    mount_in "$root"
}

# remove_layer NAME
remove_layer() {
    local layer=$layers/$1 mounted
    for mounted in "$layer/root/dev/shm" "$layer/root/proc" "$layer/root"; do
        ! mountpoint -q "$mounted" || umount "$mounted" || return 1
    done
    rm -rf --one-file-system "$layer"
}

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

as_builder() { inside setpriv --reuid=builder --regid=builder --init-groups env HOME=/build "$@"; }

as_postgres() { inside setpriv --reuid=postgres --regid=postgres --init-groups env HOME=/tmp "$@"; }

# --- SUITE=package -----------------------------------------------------------------

run_package() {
    local version=$1 base=$root layers=$directory/$1-layers log=$directory/$1-package.log package=postgresql-$1-index-table
    local results=$directory/$1-packages
    steps_passed=0 steps_failed=0
    : >"$log"
    if make_tools && add_layer build "$layers/tools/upper:$base"; then
        { build_package "$version" && try_package "$version"; } || true # what failed is counted
    else
        steps_failed=$((steps_failed + 1))
    fi
    remove_layer trial
    remove_layer build
    conclude_steps "$version"
}

# A layer with what Debian builds packages with, which is kept as long as the chroot is.
make_tools() {
    if [ ! -e "$layers/tools.ready" ] || [ "$base/ready" -nt "$layers/tools.ready" ]; then
        rm -f "$layers/tools.ready"
        remove_layer tools
        remove_layer build
        remove_layer trial
        add_layer tools "$base" || { problem="no layer can be mounted over $base"; say "$problem"; return 1; }
        step 'tools are installed' install_tools || return 1
        touch "$layers/tools.ready"
        umount "$root/dev/shm" "$root/proc" "$root"
    fi
    remove_layer build
    remove_layer trial
}

install_tools() {
    copy_tree "$root/build/source" && inside apt-get -q update &&
        inside apt-get -q -y install --no-install-recommends build-essential fakeroot lintian debhelper libpq-dev postgresql-server-dev-all &&
        inside useradd --home /build builder && inside rm -rf /build && inside apt-get clean
}

build_package() {
    local version=$1 source=$layers/build/root$tree
    step 'source is unpacked' unpack_source || return 1
    step 'pg_buildext updatecontrol' pg_buildext updatecontrol || return 1
    step "debian/control has $package" grep -qx "Package: $package" "$source/debian/control" || return 1
    step 'nothing is missing that it is built with' as_builder sh -c "cd $tree && dpkg-checkbuilddeps" || return 1
    step 'dpkg-buildpackage' as_builder sh -c "cd $tree && dpkg-buildpackage -j$(nproc) -us -uc" || return 1
    step 'lintian has no errors' as_builder sh -c "cd /build && lintian --fail-on error --info *.changes" || true
    say "$(grep -aE '^[EW]: ' "$log" || true)"
    rm -rf "$results"
    mkdir -p "$results"
    step "$package is made" cp "$root/build/$package"_*.deb "$results"
}

# The source package is a tarball of upstream's, as `make dist` makes it, and debian/.
unpack_source() {
    local upstream
    copy_tree "$root/build/index-table"
    upstream=$(inside dpkg-parsechangelog -l $tree/debian/changelog -S Version) && upstream=${upstream%-*} &&
        mv "$root/build/index-table" "$root/build/index_table-$upstream" &&
        tar -C "$root/build" -czf "$root/build/index-table_$upstream.orig.tar.gz" "index_table-$upstream" &&
        mv "$root/build/index_table-$upstream" "$root/build/index-table" &&
        inside chown -R builder: /build
}
tree=/build/index-table # as in the layer

pg_buildext() { as_builder sh -c "cd $tree && pg_buildext $1"; }

# In a clean chroot, without the server, which the package must bring.
try_package() {
    local version=$1 before=$layers/before after=$layers/after
    add_layer trial "$base" || return 1
    cp "$results/$package"_*.deb "$root/tmp/" # dbgsym has a name that is longer
    step 'the server is not there' inside apt-get -q -y purge "postgresql-$version" || return 1
    list_files >"$before"
    inside apt-get -q update >>"$log" 2>&1
    step 'the package is installed, and brings the server' inside sh -c "apt-get -q -y install --no-install-recommends /tmp/${package}_*.deb && test -x /usr/lib/postgresql/$version/bin/postgres" || return 1
    step 'it has the library, SQL and documents' has_files "$version"
    step 'a cluster of the system starts' inside sh -c "pg_createcluster $version main -p $((6300 + version)) -o shared_preload_libraries=index_table && pg_ctlcluster $version main start"
    step 'index tables work in it' as_postgres psql -X -v ON_ERROR_STOP=1 -c "$package_sql"
    step 'installcheck' installcheck "$version"
    say "$(grep -aE 'All [0-9]+ tests passed|[0-9]+ of [0-9]+ tests failed' "$log" | tail -n 1 || true)"
    step 'an upgrade of the package, while the server runs' upgrade_package "$version"
    step 'sessions go on, and find what they wrote' as_postgres psql -X -v ON_ERROR_STOP=1 -c "$upgraded_sql"
    step 'and after a restart' inside sh -c "pg_ctlcluster $version main restart"
    step 'all is there' as_postgres psql -X -v ON_ERROR_STOP=1 -c "$upgraded_sql"
    step 'the cluster is dropped' inside pg_dropcluster --stop "$version" main
    step 'the package is purged' inside apt-get -q -y purge "$package"
    inside apt-get -q -y purge "postgresql-$version" >>"$log" 2>&1
    list_files >"$after"
    step 'nothing is left of it' diff "$before" "$after"
}

package_sql="CREATE EXTENSION index_table;
CREATE TABLE t (id int PRIMARY KEY, v int) PARTITION BY HASH (id);
CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO t SELECT i, i FROM generate_series(1, 1000) AS i;
SELECT index_table.create('t', 'v', is_unique => true);
CREATE INDEX t_v ON t USING global (v)"

upgraded_sql="DO \$\$ BEGIN
INSERT INTO t SELECT max(id) + 1, max(v) + 1 FROM t;
IF EXISTS (SELECT FROM index_table.verify('t_by_v') UNION ALL SELECT FROM index_table.verify('t_v')) OR (SELECT count(*) FROM t_by_v) <> (SELECT count(*) FROM t) THEN
    RAISE 'not in step';
END IF; END \$\$"

# Of the packages, and of what they leave; not what the package manager and logs keep.
list_files() {
    inside find / -xdev \( -path /proc -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log -o -path /tmp \
        -o -path /run -o -path /root -o -path /var/lib/postgresql -o -path /etc/postgresql -o -path /build \) -prune -o -name '*index[_-]table*' -print | sort
}

has_files() {
    local version=$1 file
    for file in "lib/postgresql/$version/lib/index_table.so" "share/postgresql/$version/extension/index_table.control" \
        "share/postgresql/$version/extension/index_table--$(default_version).sql" "share/doc/$package/README.md.gz" "share/doc/$package/copyright"; do
        [ -s "$root/usr/$file" ] || { echo "no $file"; inside dpkg -L "$package"; return 1; }
    done
    inside dpkg --verify "$package"
}

default_version() { sed -n "s/^default_version = '\(.*\)'/\1/p" "$top/index_table.control"; }

# What autopkgtest would run. A port of its own: other versions may be tried at the same time.
installcheck() {
    local status=0
    copy_tree "$root/build/index-table"
    inside env PGPORT=$((6400 + $1)) sh -c "cd $tree && debian/tests/installcheck" || status=$?
    rm -rf "$root/build"
    return "$status"
}

# The same package with a later version.
upgrade_package() {
    inside sh -euc "
        mkdir /tmp/later && dpkg-deb -R /tmp/${package}_*.deb /tmp/later/contents
        sed -i 's/^Version: .*/&+later/' /tmp/later/contents/DEBIAN/control
        dpkg-deb -b /tmp/later/contents /tmp/later/package.deb
        apt-get -q -y install /tmp/later/package.deb
        dpkg-query -W -f '\${Version}' $package | grep later
        rm -rf /tmp/later"
}

# --- SUITE=image -------------------------------------------------------------------

# The steps of the Dockerfile, over the chroot in place of the image that it starts from.
run_image() {
    local version=$1 base=$root layers=$directory/$1-image log=$directory/$1-image.log command
    steps_passed=0 steps_failed=0
    : >"$log"
    remove_layer build
    remove_layer final
    if step 'the Dockerfile is followed' follow_dockerfile "$version"; then
        add_layer final "$base" # mounted in a subshell before, but in this namespace
        command=$(sed -n 's/^CMD \[\(.*\)\]$/\1/p' "$top/Dockerfile" | tr -d '",')
        step 'its server starts, and index tables work' try_image "$version" "$command" || true
    fi
    remove_layer build
    remove_layer final
    conclude_steps "$version"
}

follow_dockerfile() {
    local version=$1 instruction words directory_in=/ stage=final from
    while IFS= read -r instruction; do
        read -ra words <<<"$instruction"
        echo "--- $instruction"
        case ${words[0]} in
        ARG) ;;
        FROM)
            [ "${words[1]}" = 'postgres:${PG_MAJOR}' ] || { echo "starts from ${words[1]}"; return 1; }
            stage=${words[3]:-final} directory_in=/
            add_layer "$stage" "$base" || return 1
            ;;
        RUN) inside env PG_MAJOR="$version" bash -euc "cd $directory_in && ${instruction#RUN }" || return 1 ;;
        WORKDIR) directory_in=${words[1]} ;;
        COPY)
            if [[ ${words[1]} = --from=* ]]; then
                from=$layers/${words[1]#--from=}/root
                cp -a "$from${words[2]}." "$root${words[3]}" || return 1
            else
                copy_tree "$root${words[2]}" || return 1
            fi
            ;;
        CMD) ;;
        *) echo "does not know ${words[0]}"; return 1 ;;
        esac
    done < <(sed -e '/^#/d' -e '/^$/d' "$top/Dockerfile" | sed -e ':a' -e '/\\$/{N;s/\\\n *//;ba' -e '}')
    for stage in build final; do
        umount "$layers/$stage/root/dev/shm" "$layers/$stage/root/proc" "$layers/$stage/root" || return 1
    done
}

# try_image VERSION COMMAND: the command is that of the image, which runs as postgres
try_image() {
    local version=$1 command=$2 bin=/usr/lib/postgresql/$1/bin pid tries
    as_postgres "$bin/initdb" -D /tmp/data -A trust --no-sync >/dev/null || return 1
    # shellcheck disable=SC2086 # words
    as_postgres "$bin/"$command -D /tmp/data -c unix_socket_directories=/tmp &
    pid=$!
    for ((tries = 0; tries < 300; tries++)); do
        if as_postgres "$bin/pg_isready" -q -h /tmp; then break; fi
        sleep 0.2
    done
    as_postgres psql -X -h /tmp -v ON_ERROR_STOP=1 -c "$package_sql" -c "$upgraded_sql" -c 'SHOW shared_preload_libraries' | tee /dev/stderr | grep -qw index_table
    tries=$?
    as_postgres "$bin/pg_ctl" stop -s -D /tmp/data -m fast
    wait "$pid" || true
    return "$tries"
}
