#!/bin/sh
# make.sh P2PML_NODE P2PML VERSION OUT: writes p2pml-node.1, p2pml.1 and p2pml-node.yaml.5 to OUT. The text comes from the programs'
# --help and help COMMAND, so that the pages contain every option, command and key. $EMULATOR runs programs that were built for
# another machine.
set -eu
node=$1 lab=$2 version=$3 out=$4
here=$(dirname "$0")
date=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%F)
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

${EMULATOR:-} "$node" --help >"$work/node"
${EMULATOR:-} "$lab" help >"$work/lab"
commands=$(awk '/^  p2pml [a-z]/ && $2 != "help" && $2 != "version" && !seen[$2]++ { print $2 }' "$work/lab")
for command in $commands; do
    ${EMULATOR:-} "$lab" help "$command" >"$work/lab-$command"
done

# Keys: turns each "name = default" with its indented meaning into a tagged paragraph, with a heading for each section.
keys() { # keys FILE [FILE whose keys are left out]
    awk -f "$here/roff.awk" -f "$here/keys.awk" "${2:-/dev/null}" "$1"
}
# A command's help: usage, options with their meaning, paragraphs.
about() {
    awk -f "$here/roff.awk" -f "$here/about.awk" "$1"
}

keys "$work/node" >"$work/keys"
about "$work/node" >"$work/options"
for command in $commands; do
    echo ".SS $command"
    about "$work/lab-$command"
done >"$work/commands"
keys "$work/lab-run" "$work/node" >"$work/experiment"

for page in p2pml-node.1 p2pml.1 p2pml-node.yaml.5; do
    awk -v version="$version" -v date="$date" -v work="$work" '
        match($0, /^@[A-Z]+@$/) {
            file = work "/" tolower(substr($0, 2, length($0) - 2))
            while ((getline line < file) > 0) print line
            close(file)
            next
        }
        { gsub(/@VERSION@/, version); gsub(/@DATE@/, date); print }' "$here/$page.in" >"$out/$page"
done
