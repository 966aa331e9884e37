#!/bin/sh
# All output about options comes from the tables of options: the help of every command, the list, explanations, the
# manual page and the tables of the documents.
. "$(dirname "$0")/support.sh"
cd "$folder" || exit 1

# commands: prints all commands that --help of the program and of its commands lists.
commands() {
    "$program" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' | while read -r command; do
        echo "$command"
    done
    "$program" gpt --help | sed -n 's/^  \([a-z][a-z]*\) .*/gpt \1/p'
    printf 'data bench\ndata tokenize\ndata digits\n'
}

begin_case help
commands >commands.txt
check "commands are found" test "$(wc -l <commands.txt)" -ge 14
"$program" --help >top.out
check "the first help fits 80 columns" test "$(wc -L <top.out)" -le 80
while read -r command; do
    place=$(echo "$command" | tr ' ' '-')
    for form in '' all; do
        # shellcheck disable=SC2086
        "$program" $command --help $form >"$place.help$form" 2>help.err </dev/null
        check "$command --help $form ends well" test $? -eq 0
        check "$command --help $form is quiet" test ! -s help.err
    done
    # Counts lines, options, repeated options, the options in the line about --help, and lines that are too wide.
    for form in '' all; do
        awk 'length($0) > 80 { wide = wide $0 } /^  --/ { count++; twice += seen[$1]++ }
            /-h, --help \[all\] .* all [0-9]* options/ { sub(/.* all /, ""); all = $1 + 0 }
            END { printf "%d %d %d %d %s\n", NR, count, twice, all, wide }' "$place.help$form"
    done >facts
    { read -r lines shown twice told wide && read -r all_lines all all_twice all_told all_wide; } <facts
    check "$command --help fits 80 columns: $wide $all_wide" test -z "$wide$all_wide"
    check "$command --help has words" test "$lines" -ge 4 -a "$all_lines" -ge 4
    check "no option is there twice in $command --help" test "$twice$all_twice" = 00
    check "$command --help shows ten options at most, or all: $shown of $all" test "$shown" -le 10 -o "$shown" -eq "$all"
    check "$command --help tells of the others" test "$shown" -eq "$all" -o "$told" -eq "$all" -a "$all_told" -eq "$all"
done <commands.txt
for command in mnist train 'plan mnist' 'gpt pretrain' 'gpt bench' 'gpt generate' schedule 'data bench'; do
    # shellcheck disable=SC2086
    check "$command --help has ten options" test "$("$program" $command --help | grep -c '^  --')" -eq 10
done
"$program" mnist --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | head -n 5 | tr '\n' ' ' >first.txt
check "what is wanted most is first: $(cat first.txt)" grep -q -- '^--epochs --batch-size ' first.txt
for command in 'mnist --resume' 'train --resume' 'gpt pretrain --load'; do
    # shellcheck disable=SC2086
    check "the short help shows how to resume: $command" sh -c '"$1" $2 --help | grep -q -e "^  $3 "' \
        sh "$program" "${command% *}" "${command##* }"
done
check "--help=all is --help all" test "$("$program" mnist --help=all | cksum)" = "$("$program" mnist --help all | cksum)"
check "tables for programs have five fields" awk -F'\t' 'NF != 5 { exit 1 } END { exit NR < 20 }' <<END
$("$program" mnist --help table)
END
end_case

# On a terminal, lines use the terminal's width.
begin_case widths
cat >terminal.py <<'END'
import fcntl, os, pty, struct, sys, termios

columns, command = int(sys.argv[1]), sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.execv(command[0], command)
text = b""
while True:
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        break
    if not piece:
        break
    text += piece
os.waitpid(pid, 0)
widest = max(map(len, text.decode().splitlines()))
print(widest)
END
if command -v python3 >/dev/null 2>&1; then
    for columns in 56 70 100; do
        for command in mnist schedule; do
            # shellcheck disable=SC2086
            widest=$(python3 terminal.py $columns "$program" $command --help all)
            check "$command --help in $columns columns: $widest" test "$widest" -le $columns -a "$widest" -gt $((columns - 12))
        done
    done
    check "and no wider than 100" test "$(python3 terminal.py 200 "$program" mnist --help all)" -le 100
else
    skipped=$((skipped + 1))
fi
end_case

# The examples at the end of each help run in the order of the commands; those of mnist make files that others read.
begin_case examples
mkdir run
cd run || exit 1
"$program" data digits --dir digits --count 4000 --test-count 400 >/dev/null
for line in 1 2 3 4 5 6 7 8; do
    echo 'Once upon a time there was a device that could not hold the whole network, and it asked three others.'
done >story.txt
while read -r command; do
    # shellcheck disable=SC2086
    "$program" $command --help </dev/null | sed -n '/^Examples:$/,$p' | sed 1d
    [ "$command" != plan ] || for model in mnist gpt train; do
        "$program" plan $model --help </dev/null | sed -n '/^Examples:$/,$p' | sed 1d
    done
done <../commands.txt | sed 's/^ *//' >examples.sh
check "there are examples" test "$(grep -c '^brigade ' examples.sh)" -ge 30
check "and nothing else" test -z "$(grep -v '^brigade \|^--' examples.sh)"
mkdir bin
ln -s "$program" bin/brigade
export PATH="$PWD/bin:$PATH" BRIGADE_DATA=digits OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
awk '{ text = text $0 } /\\$/ { sub(/\\$/, "", text); next } { print text; text = "" }' examples.sh >joined.sh
while IFS= read -r line; do
    case $line in
    *'brigade launch '*)
        if [ -n "${BRIGADE_TEST_QUICK:-}" ] || ! command -v mpirun >/dev/null 2>&1; then
            skipped=$((skipped + 1))
            continue
        fi
        ;;
    esac
    { eval "$line"; } >example.out 2>&1 </dev/null
    check "$line: $(tail -n 3 example.out)" test $? -eq 0
done <joined.sh
cd .. || exit 1
unset BRIGADE_DATA
end_case

# The help of an option's flag has the option's sentence.
begin_case sentences
"$program" options --command mnist >list.out
check "it lists those with a flag" grep -q '^  recompute_order (--recompute-order) *$\|^  recompute_order (--recompute-order)  ' list.out
check "and no others" sh -c '! grep -q no_memory_check list.out'
# Every flag that the table lists for a command is a flag of that command, once.
for command in mnist gpt; do
    "$program" options --command $command | grep -o -e '(--[a-z-]*)' | tr -d '()' | sort -u >flags.txt
    check "$command has flags" test "$(wc -l <flags.txt)" -ge 20
    "$program" $([ $command = gpt ] && echo gpt pretrain || echo mnist) --help all | sed -n 's/^  \(--[a-z-]*\).*/\1/p' >help.txt
    while read -r flag; do
        check "$command --help has $flag" test "$(grep -c -x -e "$flag" help.txt)" -eq 1
    done <flags.txt
done
for flag in recompute-order strict cores clip-norm clip-value; do
    "$program" options $flag | sed -n 's/^  decides    *//p' | cut -c1-30 >sentence.txt
    "$program" mnist --help all | tr '\n' ' ' | tr -s ' ' >help.txt
    check "--$flag is explained" test -s sentence.txt
    check "the help of --$flag says it: $(cat sentence.txt)" grep -q -F -f sentence.txt help.txt
done
end_case

begin_case explain
"$program" options recompute_order >one.out
check "values" grep -q '^  values  *interleaved, then$' one.out
check "the default" grep -q '^  default  *interleaved$' one.out
check "the member" grep -q '^  in C  *options\.memory\.recompute_order$' one.out
check "the constants" grep -q '^  constants  *BG_RECOMPUTE_INTERLEAVED, BG_RECOMPUTE_THEN$' one.out
check "the flag" grep -q '^  flag  *--recompute-order of brigade mnist, train and plan' one.out
for name in gradient_accumulation Training.gradientAccumulation gradient_accumulation_steps gradient-accumulation; do
    "$program" options $name >other.out 2>&1
    check "$name names it" grep -q '^gradient_accumulation$' other.out
done
"$program" options device_iterations >bounds.out
check "the least" grep -q '^  values  *a whole number from 1$' bounds.out
"$program" options offload >offload.out
check "a flag for several explains all" test "$(grep -c '^place_' offload.out)" -eq 4
error 2 'there is no option `recompute_oder`; did you mean `recompute_order`?' options recompute_oder
error 2 '--command is `schedule`; it must be one of mnist|train|plan|gpt' options --command schedule
end_case

begin_case optimizers
"$program" options optimizers >optimizers.out
for name in sgd adam adamw adamax rmsprop lamb adagrad adadelta; do
    check "$name is listed" grep -q "^  $name " optimizers.out
    "$program" options $name >optimizer.out
    check "$name is explained" grep -q '^  weight_decay ' optimizer.out
done
"$program" options adamw | tr '\n' ' ' | tr -s ' ' >adamw.out
check "with its defaults" grep -q 'weight_decay .*; a number from 0 (default: 0.01) beta1' adamw.out
check "and ranges" grep -q 'beta2 [^)]*a number from 0 to below 1 (default: 0.999)' adamw.out
check "and without what it does not have" sh -c '! grep -q momentum adamw.out'
end_case

# The tables in the documents equal those that the program prints.
begin_case documents
mkdir docs
for document in "$root"/docs/*.md; do
    grep -q '^<!-- table: ' "$document" || continue
    cp "$document" docs/
    "$root/tools/update_tables.sh" "$program" "docs/$(basename "$document")"
    check "$(basename "$document") is current; make tables writes it anew" cmp -s "$document" "docs/$(basename "$document")"
done
check "there is one" test -n "$(ls docs)"
# The table of flags has every flag of every help with its command, and no others.
while read -r command; do
    [ "$command" = plan ] || sed -n "s/^  \(--[a-z0-9-]*\).*/$command \1/p" "$(echo "$command" | tr ' ' '-').helpall"
done <commands.txt | sort >helps.flags
awk -F' [|] ' '/^[|] `--/ { split($1, flag, "[` ]"); count = split($2, names, ", ")
    for (i = 1; i <= count; i++) print names[i], flag[3] }' docs/options.md | sort >document.flags
check "its flags are those of the helps: $(diff helps.flags document.flags | head -n 5)" cmp -s helps.flags document.flags
check "they are many" test "$(wc -l <document.flags)" -ge 300
check "every option is in it" test "$(grep -c '^| `' docs/options.md)" -ge 95
end_case

# Names, values and defaults of options and flags in the explaining tables are those of the program.
begin_case tables
explained="$root/docs/strategies.md $root/docs/migrating.md $root/docs/configuration.md"
for command in mnist 'gpt pretrain' 'gpt generate' 'gpt eval' schedule config 'data bench' 'data tokenize' 'data digits'; do
    "$program" $command --help all
done >help.all 2>&1
for name in $("$program" options | sed -n 's/^  \([a-z][a-z0-9_.]*\)  *.*/\1/p'); do
    "$program" options "$name" | awk -v name="$name" '
        /^  default / { $1 = ""; standard = substr($0, 2) }
        /^  in C / { path = $3 }
        END { print name, path, standard }'
done >options.all
check "options are listed" test "$(wc -l <options.all)" -ge 95

# rows DOCUMENT...: prints the rows of the tables; of migrating.md only the column about this program.
rows() {
    for document; do
        case $document in
        *migrating.md) sed 's/\\|//g' "$document" | awk -F'|' '/^\| / { print "|" $3 }' ;;
        *) grep -h '^|' "$document" ;;
        esac
    done
}
# unknown DOCUMENT...: prints names in the tables that do not exist.
unknown() {
    rows "$@" | grep -oE '`--[a-z][a-z0-9-]*[ `=,\\]' | tr -d '` =,\\' | sort -u | while read -r flag; do
        grep -q -e "^  $flag\( \|\$\)" help.all || echo "$flag"
    done
    grep -hoE '`options\.[a-z_]+\.[a-z_0-9.]+' "$@" | tr -d '`' | sed 's/\.$//' | sort -u | while read -r path; do
        grep -q -F " $path " options.all || grep -q -w "${path##*.}" "$root/include/brigade/options.h" || echo "$path"
    done
    # In the second column of migrating.md options have no group.
    for document; do
        case $document in *migrating.md) sed 's/\\|//g' "$document" | awk -F'|' '/^\| / && $3 !~ /^ here/ { print $3 }' ;; esac
    done | grep -oE '`[a-z][a-z_0-9]*[` =[]' | tr -d '` =[' | grep -v -x -E 'bg_.*|mpirun|srun|gpt|simulate|verify' |
        sort -u | while read -r name; do
        grep -q "^$name " options.all || grep -q -w "$name" "$root"/include/brigade/*.h || echo "$name"
    done
}
# wrong DOCUMENT...: prints values that a flag does not accept, and rows that wrongly claim to be the default.
wrong() {
    grep -h '^|' "$@" | sed 's/\\|/|/g' | grep -oE '`--[a-z-]+ [a-z0-9_-]+([|][a-z0-9_-]+)+`' | tr -d '`' | while read -r words; do
        grep -q -x -e "  $words\( .*\)\?" help.all || echo "$words"
    done
    awk -F'|' '/^\|[-:|]*$/ { for (i = 2; i < NF; i++) head[i] = last[i] }
        { split($0, last) }
        /^\|/ { for (i = 2; i < NF; i++) if ($i ~ /` \(default\)/) print head[i] " " $i }' "$@" | tr -d '`' | tr -s ' ' |
        while read -r option word rest; do
            case $option in
            --*) tr '\n' ' ' <help.all | tr -s ' ' | grep -q -e " $option [^()]*([^()]*default: $word" || echo "$option $word" ;;
            *) grep -q -x "[^ ]* $option $word" options.all || echo "$option $word" ;;
            esac
        done
}
check "names: $(unknown $explained)" test -z "$(unknown $explained)"
check "words and defaults: $(wrong $explained)" test -z "$(wrong $explained)"
sed 's/^| `--pinning none/| `--pining none/; s/options.files.memmap_mode/options.files.memmap_modus/; s/`continue` (default)/`renew` (default)/' \
    "$root/docs/strategies.md" >other.md
sed 's/`accumulator_type`/`accumulators_type`/' "$root/docs/migrating.md" >migrating.md
check "others are told" test "$(unknown other.md migrating.md | tr '\n' ' ')" = '--pining options.files.memmap_modus accumulators_type '
sed 's/`continue` (default)/`renew` (default)/; s/`--pinning none\\|compact/`--pinning none\\|compakt/' "$root/docs/strategies.md" >other.md
check "other words and defaults too: $(wrong other.md)" test "$(wrong other.md | wc -l)" -eq 2
end_case

begin_case manual
"$root/tools/make_man.sh" "$program" man1
check "it begins as a manual page" grep -q '^\.TH BRIGADE 1' man1/brigade.1
check "it has the exit codes" grep -q 'EXIT STATUS' man1/brigade.1
while read -r command; do
    page=man1/brigade-$(echo "$command" | tr ' ' '-').1
    check "$command has a page" test -s "$page"
    sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p' "$(echo "$command" | tr ' ' '-').helpall" | sort >listed.txt
    sed -n 's/^\\fB\(.*\)\\fR$/\1/p' "$page" | tr -d '\\' | sed -n 's/^\(--[a-z0-9-]*\).*/\1/p' | sort >printed.txt
    check "$page has the options of $command" cmp -s listed.txt printed.txt
done <commands.txt
check "and there are no others" test "$(ls man1 | wc -l)" -eq $(($(wc -l <commands.txt) + 1))
check "no line of help is lost" grep -q '^number of passes over the training images' man1/brigade-mnist.1
check "examples are in it" grep -q '^brigade mnist \\-\\-epochs 1' man1/brigade-mnist.1
if command -v man >/dev/null && man --version >/dev/null 2>&1; then
    for page in man1/brigade.1 man1/brigade-mnist.1 man1/brigade-schedule.1 man1/brigade-data.1; do
        check "man formats $page" test -z "$(man --warnings -l $page 2>&1 >/dev/null)"
    done
fi
end_case
finish
