# bash completion of p2pml and p2pml-node. Commands, options, keys and choices come from the help of the program itself, so they fit
# its version; its output is cached until the program's file changes.

_p2pml_help() { # _p2pml_help PROGRAM ARGUMENT...: its help, asked once
    local program
    program=$(type -P "${1/#\~/$HOME}") || return
    local stamp
    stamp="$* $(stat -c %Y "$program" 2>/dev/null)"
    if [ "${_p2pml_asked:-}" != "$stamp" ]; then
        _p2pml_asked=$stamp _p2pml_told=$("$program" "${@:2}" 2>/dev/null)
    fi
    echo "$_p2pml_told"
}

_p2pml_options() { # of the help on stdin, before its keys
    sed '/^[a-z][a-z_.]* = /,$d' | grep -oE '(^|[[:space:][,|])--?[a-z][a-z-]*' | grep -oE -- '--?[a-z][a-z-]*' | sort -u
}

# From the help on stdin: keys that begin with $1; or the values of the key $1, if it is a choice.
_p2pml_keys() {
    awk -v begin="$1" '/^[a-z][a-z_.]* = / && index($1, begin) == 1 { print $1 "=" }'
}
_p2pml_values() {
    awk -v key="$1" '
        /^[a-z]/ { inside = $1 == key; text = ""; next }
        inside && !done {
            text = text " " $0
            if (text !~ /\)/) next
            done = 1
            if (match(text, /\(one of [^)]*\)/)) { text = substr(text, RSTART + 8, RLENGTH - 9); gsub(/,/, "", text); print text }
            else if (text ~ /\(true or false\)/) print "true false"
        }'
}

# The argument of --set: KEY=VALUE, which bash has split at the "=".
_p2pml_set() { # _p2pml_set WORD-BEFORE WORD PROGRAM ARGUMENT...
    local before=$1 word=$2 value=
    shift 2
    if [ "$word" = = ] || [ "$before" = = ]; then
        local key=${COMP_WORDS[COMP_CWORD - 1]}
        [ "$word" = = ] && word='' || key=${COMP_WORDS[COMP_CWORD - 2]}
        value=$(_p2pml_help "$@" | _p2pml_values "$key")
        if [ -n "$value" ]; then
            mapfile -t COMPREPLY < <(compgen -W "$value" -- "$word")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$word") # a file, or a number, which cannot be completed
        fi
    else
        mapfile -t COMPREPLY < <(_p2pml_help "$@" | _p2pml_keys "$word")
        compopt -o nospace 2>/dev/null || true
    fi
}
_p2pml_is_set() { # does the word that is being typed belong to --set?
    local at=$((COMP_CWORD - 1))
    [ "${COMP_WORDS[at]}" = --set ] && return
    [ "${COMP_WORDS[COMP_CWORD]}" = = ] && [ "${COMP_WORDS[at - 1]:-}" = --set ] && return
    [ "${COMP_WORDS[at]}" = = ] && [ "${COMP_WORDS[at - 2]:-}" = --set ]
}

_p2pml_files() {
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
    compopt -o filenames 2>/dev/null || true
}

_p2pml_node() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]}
    COMPREPLY=()
    if _p2pml_is_set; then
        _p2pml_set "$before" "$word" "$program" --help
    elif [ "$before" = --config ]; then
        _p2pml_files "$word"
    elif [ "$before" != --peers ] && [ "$before" != --trainer ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_p2pml_help "$program" --help | _p2pml_options)" -- "$word")
    fi
}

_p2pml() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]} command=${COMP_WORDS[1]:-}
    COMPREPLY=()
    local commands
    commands=$(_p2pml_help "$program" help | awk '/^  p2pml [a-z]/ { print $2 }')
    if [ "$COMP_CWORD" = 1 ] || { [ "$command" = help ] && [ "$COMP_CWORD" = 2 ]; }; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
    elif _p2pml_is_set; then
        local topic=$command
        case $command in data | eval) topic=run ;; esac # their keys are those of an experiment
        _p2pml_set "$before" "$word" "$program" help "$topic"
    elif [ "$before" = --format ]; then
        local formats
        formats=$(_p2pml_help "$program" help "$command" | grep -oE -- '--format [a-z|]+|^  --format +[a-z]+' | head -n 1)
        mapfile -t COMPREPLY < <(compgen -W "$(tr '|' ' ' <<<"${formats##* }")" -- "$word")
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_p2pml_help "$program" help "$command" | _p2pml_options)" -- "$word")
    elif [ "$command" = data ] && [ "$COMP_CWORD" = 2 ]; then
        mapfile -t COMPREPLY < <(compgen -W 'info fetch' -- "$word")
    elif [ "$command" = data ] && [ "$COMP_CWORD" = 3 ] && [ "$before" = fetch ]; then
        mapfile -t COMPREPLY < <(compgen -W 'mnist fashion-mnist cifar10 tiny-shakespeare a9a' -- "$word")
    elif [ "$command" = topology ] && [ "$COMP_CWORD" = 2 ]; then
        mapfile -t COMPREPLY < <(compgen -W show -- "$word")
    elif [ "$command" = topology ] && [ "$COMP_CWORD" = 3 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_p2pml_help "$program" help run | _p2pml_values topology.kind)" -- "$word")
    else
        _p2pml_files "$word"
    fi
}

complete -F _p2pml_node p2pml-node
complete -F _p2pml p2pml
