# Completion of `brigade` for bash: commands, options and their choices. They are read from the help of the installed
# program. Load this file with `source brigade.bash`, or install it as
# PREFIX/share/bash-completion/completions/brigade.

# Prints the names below "Commands:" or "Models:" of a help text.
_brigade_commands() {
    awk '/^(Commands|Models):$/ { on = 1; next } /^$/ { on = 0 } on && /^  [a-z]/ { print $1 }'
}

_brigade_options() {
    awk '/^  --[a-z]/ { print $1 } /^  -h, --help/ { print "--help" }'
}

# Prints the choices of an option, which follow its name as "a|b|c".
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
