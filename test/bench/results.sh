# What `make bench` leaves in a directory: results.md and a picture for each figure, drawn by gnuplot.
# Sourced by test/run, as test/bench/common.sh is by the benchmarks, which write what is read here:
# NAME.md (tables), NAME.tsv (figures: five lines of what they are, then columns), headlines.

# draw FILE ABOUT: FILE.tsv becomes FILE.svg; ABOUT says below what was measured on
draw() {
    local lines kind title x y columns i commands plots=()
    mapfile -t lines < <(head -n 6 "$1.tsv")
    kind=${lines[0]#\# } title=${lines[1]#\# } x=${lines[2]#\# } y=${lines[3]#\# }
    IFS=$'\t' read -ra columns <<<"${lines[5]}"
    commands="
set terminal svg noenhanced size 760,420 font 'sans-serif,13' background 'white'
set output '$1.svg'
set datafile separator \"\\t\"
set datafile commentschars '#'
set datafile missing '-'
set title '$title' font ',15'
set xlabel '$x'
set ylabel '$y'
set key outside right top vertical
set label '$2' at screen 0.01,0.02 font ',9' textcolor rgb '#6b7280'
set border 3 lc rgb '#9ca3af'
set tics textcolor rgb '#374151'
set format y '%.0f'
set grid ytics lc rgb '#e5e7eb'
set tics nomirror
set bmargin 5
set style data linespoints
"
    case $kind in
    lines) commands+=$'set logscale xy\nset xtics ('"$(ticks "$1.tsv")"$')\n' ;;
    clients)
        commands+=$'set logscale x 2\nset yrange [0:]\nset xtics ('"$(ticks "$1.tsv")"$')\n'
        # What stands at an end of a logarithmic axis has no tick.
        commands+="set xrange [0.9:$(tail -n 1 "$1.tsv" | cut -f 1)*1.1]"$'\n'
        ;;
    shards) commands+=$'set logscale y\nset xrange [0:]\n' ;;
    bars | log_bars)
        commands+=$'set style data histograms\nset style histogram clustered gap 1\nset style fill solid 0.9 noborder\nset xtics rotate by -18 font ",11"\nset bmargin 6\n'
        if [ "$kind" = bars ]; then commands+=$'set yrange [0:]\n'; else commands+=$'set logscale y\n'; fi
        ;;
    esac
    for ((i = 1; i < ${#columns[@]}; i++)); do
        case $kind in
        *bars) plots+=("'$1.tsv' every ::1 using $((i + 1)):xtic(1) title \"${columns[i]}\" lc rgb '$(colour "${columns[i]}")'") ;;
        *) plots+=("'$1.tsv' every ::1 using 1:$((i + 1)) title \"${columns[i]}\" lw 2.5 pt 7 ps 0.6 lc rgb '$(colour "${columns[i]}")'") ;;
        esac
    done
    printf -v i '%s, ' "${plots[@]}"
    commands+="plot ${i%, }"
    gnuplot <<<"$commands"
}

# ticks FILE: the values on its x axis, with the thousands' commas
ticks() { awk -F '\t' '/^#/ || !n++ { next } { t = $1; while (t ~ /[0-9]{4}/ && sub(/[0-9]{3}($|,)/, ",&", t)) { } printf "%s\"%s\" %s", s, t, $1; s = ", " }' "$1"; }

# colour SERIES: the same in every picture
colour() {
    case $1 in
    native | 'native local index') echo '#b3261e' ;;
    'native, async') echo '#e37400' ;;
    unpartitioned | 'no index table') echo '#6b7280' ;;
    'index table' | normalized | '5 index tables') echo '#0b57d0' ;;
    partial) echo '#4c9be8' ;;
    denormalized) echo '#9334e6' ;;
    *global* | *servers*) echo '#137333' ;;
    *) echo '#e6a23c' ;;
    esac
}

# write_results DIRECTORY ABOUT COMMAND NAME...: draws all figures and writes results.md, the benchmarks in order
write_results() {
    local directory=$1 about=$2 command=$3 name figure
    shift 3
    for figure in "$directory"/*.tsv; do
        [ ! -f "$figure" ] || draw "${figure%.tsv}" "$about"
    done
    {
        printf '# Measured\n\n'
        printf '%s. By `%s`. Most ratios hold elsewhere, those of single-row writes and times do not; expect a tenth or two either way, more for what takes microseconds.\n' \
            "$about" "$command" | fold -s -w 98 | sed 's/ *$//'
        if [ -f "$directory/headlines" ]; then
            printf '\n## Gains and losses\n\nOf the index table against local indexes of the partitions.\n\n'
            echo '| what | unit | native | unpartitioned | index table | against native | where it loses |'
            echo '|---|---|---|---|---|---|---|'
            awk -F '\t' -v OFS=' | ' '{
                native = $3 + 0; ours = $5 + 0 # numbers: what sub() has changed is text, and compared as such
                for (i = 3; i <= 5; i++) sub(/\.00$/, "", $i)
                verdict = "same"
                if (native > 0 && ours > 0 && ours < 50 * native) {
                    if (native / ours >= 1.1) verdict = sprintf(native / ours >= 10 ? "**%d times less**" : "**%.1f times less**", native / ours)
                    else if (ours / native >= 1.1) verdict = sprintf(ours / native >= 10 ? "*%d times more*" : "*%.1f times more*", ours / native)
                } else verdict = ours > 0 ? "*natively next to nothing*" : "nothing"
                print "| " $1, $2, $3, $4, $5, verdict, (verdict ~ /more|natively/ ? $6 : "") " |"
            }' "$directory/headlines"
        fi
        for name in "$@"; do
            [ -f "$directory/$name.md" ] || continue
            printf '\n## %s\n\n`make bench BENCH=%s`\n' "$name" "$name"
            for figure in "$directory"/*.tsv; do
                [ -f "$figure" ] && [ "$(sed -n '5s/^# //p' "$figure")" = "$name" ] || continue
                printf '\n![%s](%s)\n' "$(sed -n '2s/^# //p' "$figure")" "$(basename "${figure%.tsv}").svg"
            done
            cat "$directory/$name.md"
        done
    } >"$directory/results.md"
    rm -f "$directory/headlines"
    for name in "$@"; do rm -f "$directory/$name.md"; done
}
