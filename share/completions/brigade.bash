# Completion of `brigade` for bash: commands, options and their choices, read from the program's own help, so that they
# are those of the program that is there. Load it with `source brigade.bash`, or install it as
# PREFIX/share/bash-completion/completions/brigade.

# Names below "Commands:" or "Models:" of a help text.
_brigade_commands() {
    awk '/^(Commands|Models):$/ { on = 1; next } /^$/ { on = 0 } on && /^  [a-z]/ { print $1 }'
}

_brigade_options() {
    awk '/^  --[a-z]/ { print $1 } /^  -h, --help/ { print "--help" }'
}

# Choices of an option: "a|b|c" behind its name.
_brigade_choices() { # --option
    awk -v name="$1" '$1 == name && $2 ~ /^[a-z0-9_.-]+(\|[a-z0-9_.-]+)+$/ { gsub(/\|/, "\n", $2); print $2; exit }'
}

_brigade() {
    local current=${COMP_WORDS[COMP_CWORD]} help path=() word found choices
    COMPREPLY=()
    help=$("${COMP_WORDS[0]}" --help 2>/dev/null)
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        found=
        [[ ${#path[@]} -lt 2 ]] && found=$(_brigade_commands <<<"$help" | grep -Fx -e "$word")
        [[ -n $found ]] || break
        path+=("$word")
        help=$("${COMP_WORDS[0]}" "${path[@]}" --help all 2>/dev/null)
    done
    if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$(_brigade_options <<<"$help")" -- "$current"))
    elif choices=$(_brigade_choices "${COMP_WORDS[COMP_CWORD-1]}" <<<"$help") && [[ -n $choices ]]; then
        COMPREPLY=($(compgen -W "$choices" -- "$current"))
    elif [[ $((COMP_CWORD - 1)) -eq ${#path[@]} ]]; then
        COMPREPLY=($(compgen -W "$(_brigade_commands <<<"$help")" -- "$current"))
    fi
    # Without a match, bash completes names of files (-o default).
}

complete -o default -F _brigade brigade
