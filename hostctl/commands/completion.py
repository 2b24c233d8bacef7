"""`hostctl completion`: what can be typed next, for bash, zsh and fish.

The scripts know nothing of the commands: they pass the words typed so far to `completion words`.
These are the words of the command at the cursor, as each shell tells them. argcomplete (3.7) hands
over the whole line in zsh, and the whole `|` in fish: behind `sudo` or a pipe nothing is completed.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from gitmoat.paths import Paths
from hostctl.help.candidates import candidates
from hostctl.output import Output

ABOUT = """\
Prints a completion script for a shell.

  bash:  hostctl completion bash > /etc/bash_completion.d/hostctl
  zsh:   hostctl completion zsh > "${fpath[1]}/_hostctl"
  fish:  hostctl completion fish > /etc/fish/completions/hostctl.fish

`words` is for these scripts: it reads the words typed so far, one per line, and prints what can
complete the last one."""
_LIMIT = 64 * 1024

_BASH = r"""# bash completion of hostctl
_hostctl() {
    local line files= current=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            files=1
        else
            COMPREPLY+=("${line%%$'\t'*}")
        fi
    done < <(printf '%s\n' "${COMP_WORDS[@]:0:COMP_CWORD+1}" | hostctl completion words 2>/dev/null)
    if [[ -n $files ]]; then
        compopt -o filenames
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
    fi
}
complete -F _hostctl hostctl
"""
_ZSH = r"""#compdef hostctl
_hostctl() {
    local line files=
    local -a found
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            files=1
        else
            found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        fi
    done < <(printf '%s\n' "${words[@]:0:$CURRENT}" | hostctl completion words 2>/dev/null)
    (( ${#found} )) && _describe hostctl found
    [[ -z $files ]] || _files
}
if [[ $funcstack[1] == _hostctl ]]; then _hostctl "$@"; else compdef _hostctl hostctl; fi
"""
_FISH = r"""# fish completion of hostctl
function __hostctl_words
    begin
        commandline -opc
        commandline -ct
    end | hostctl completion words 2>/dev/null
end
complete -c hostctl -f -a '(__hostctl_words | string match -v :files)'
complete -c hostctl -n '__hostctl_words | string match -q :files' -F
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=(*SCRIPTS, "words"), help="which shell")


def main(args: Namespace, paths: Paths, out: Output) -> int:
    if args.shell in SCRIPTS:
        out.line(SCRIPTS[args.shell].rstrip("\n"))
        return 0

    words = sys.stdin.read(_LIMIT).removesuffix("\n").split("\n")
    for word in candidates(words[1:], args.root):
        out.line(word)
    return 0
