#!/bin/sh
# Shell completion offers exactly the commands and options that the program's help lists.
. "$(dirname "$0")/support.sh"

# offers SHELL-FUNCTION WORD...: prints what bash offers for the last word.
cat >"$folder/bash.sh" <<'END'
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_brigade
printf '%s\n' "${COMPREPLY[@]}"
END
offers() {
    bash "$folder/bash.sh" "$root/share/completions/brigade.bash" "$program" "$@"
}
# has TEXT LINE: succeeds if the text has this line.
has() {
    printf '%s\n' "$1" | grep -q -x -F -e "$2"
}

begin_case bash
check "commands" has "$(offers '')" mnist
check "the rest of a command" test "$(offers sched)" = schedule
check "commands of commands" has "$(offers gpt '')" pretrain
check "models of plan" has "$(offers plan '')" mnist
check "options" has "$(offers mnist --)" --gradient-accumulation
check "options of a command of a command" has "$(offers gpt pretrain --)" --config-file
check "the rest of an option" test "$(offers mnist --gradient-acc)" = --gradient-accumulation
check "choices" test "$(offers mnist --strategy s | tr '\n' ' ')" = 'single sharded '
check "options after options" has "$(offers mnist --epochs 3 --ep)" --epochs
check "an option of the model of a plan" has "$(offers plan mnist --)" --stages
check "files where no word fits" test -z "$(offers mnist --save '')"
check "a command that there is not" test -z "$(offers nothing --)"

begin_case every_option
# Completion offers each option of the help, and no others.
for command in mnist train infer inspect 'gpt pretrain' 'gpt generate' 'schedule' 'config' 'data digits' options; do
    # shellcheck disable=SC2086
    "$program" $command --help all | grep -oE '^  (-h, )?--[a-z0-9-]+' | sed 's/.*--/--/' | sort >"$folder/listed"
    # shellcheck disable=SC2086
    offers $command -- | sort >"$folder/offered"
    check "options of $command" cmp -s "$folder/listed" "$folder/offered"
done

begin_case other_shells
if command -v zsh >/dev/null 2>&1; then
    check "zsh reads its completion" zsh -n "$root/share/completions/_brigade"
else
    skipped=$((skipped + 1))
fi
if command -v fish >/dev/null 2>&1; then
    ln -s "$program" "$folder/brigade"
    offered=$(PATH="$folder:$PATH" fish -N -c "source '$root/share/completions/brigade.fish'; complete -C 'brigade mnist --strategy s'")
    check "fish offers choices" has "$offered" sharded
    check "fish offers those that fit" sh -c '! echo "$1" | grep -q -x phased' sh "$offered"
else
    skipped=$((skipped + 1))
fi
finish
