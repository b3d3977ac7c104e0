#compdef p2pml p2pml-node
# zsh completion of p2pml and p2pml-node. Commands, options, keys and choices come from the help of the program itself.

_p2pml_options() {
    local -a options
    options=(${(fu)"$(sed '/^[a-z][a-z_.]* = /,$d' <<<$1 | grep -oE '(^|[[:space:][,|])--?[a-z][a-z-]*' | grep -oE -- '--?[a-z][a-z-]*')"})
    compadd -- $options
}

# KEY=VALUE after --set; $1 is the help that lists the keys.
_p2pml_set() {
    local key choices
    if compset -P '*='; then
        key=${IPREFIX%=}
        choices=$(awk -v key="$key" '
            /^[a-z]/ { inside = $1 == key; text = ""; next }
            inside && !done {
                text = text " " $0
                if (text !~ /\)/) next
                done = 1
                if (match(text, /\(one of [^)]*\)/)) { text = substr(text, RSTART + 8, RLENGTH - 9); gsub(/,/, "", text); print text }
                else if (text ~ /\(true or false\)/) print "true false"
            }' <<<$1)
        if [[ -n $choices ]]; then compadd -- ${=choices}; else _files; fi
    else
        compadd -S '' -- ${(f)"$(awk '/^[a-z][a-z_.]* = / { print $1 "=" }' <<<$1)"}
    fi
}

_p2pml_main() {
    local program=$words[1] command=$words[2] before=$words[CURRENT-1] topic=$words[2]
    if (( CURRENT == 2 )) || { [[ $command == help ]] && (( CURRENT == 3 )) }; then
        compadd -- ${(fu)"$($program help 2>/dev/null | awk '/^  p2pml [a-z]/ { print $2 }')"}
    elif [[ $before == --set ]]; then
        [[ $command == (data|eval) ]] && topic=run
        _p2pml_set "$($program help $topic 2>/dev/null)"
    elif [[ $PREFIX == -* ]]; then
        _p2pml_options "$($program help $command 2>/dev/null)"
    elif [[ $command == data ]] && (( CURRENT == 3 )); then
        compadd info fetch
    elif [[ $command == data && $before == fetch ]]; then
        compadd mnist fashion-mnist cifar10 tiny-shakespeare a9a
    elif [[ $command == topology ]] && (( CURRENT == 3 )); then
        compadd show
    else
        _files
    fi
}

_p2pml_node() {
    local before=$words[CURRENT-1]
    case $before in
    --set) _p2pml_set "$($words[1] --help 2>/dev/null)" ;;
    --config) _files ;;
    --peers | --trainer) ;;
    *) _p2pml_options "$($words[1] --help 2>/dev/null)" ;;
    esac
}

case $service in
p2pml-node) _p2pml_node ;;
*) _p2pml_main ;;
esac
