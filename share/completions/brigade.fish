# Completion of `brigade` for fish: commands, options and their choices, read from the program's help. Install this file as
# PREFIX/share/fish/vendor_completions.d/brigade.fish.

function __brigade_commands
    awk '/^(Commands|Models):$/ { on = 1; next } /^$/ { on = 0 } on && /^  [a-z]/ { print $1 }'
end

function __brigade_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l path
    set -l help ($words[1] --help 2>/dev/null)
    for word in $words[2..-1]
        test (count $path) -lt 2; and contains -- $word (printf '%s\n' $help | __brigade_commands); or break
        set -a path $word
        set help ($words[1] $path --help all 2>/dev/null)
    end
    if string match -q -- '-*' $current
        printf '%s\n' $help | awk '/^  --[a-z]/ { print $1 } /^  -h, --help/ { print "--help" }'
        return
    end
    set -l choices (printf '%s\n' $help | awk -v name="$words[-1]" '$1 == name && $2 ~ /^[a-z0-9_.-]+(\|[a-z0-9_.-]+)+$/ { gsub(/\|/, "\n", $2); print $2; exit }')
    if test (count $choices) -gt 0
        printf '%s\n' $choices
    else if test (math (count $words) - 1) -eq (count $path)
        printf '%s\n' $help | __brigade_commands
    end
end

complete -c brigade -a '(__brigade_complete)'
