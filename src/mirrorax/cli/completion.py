"""`mirrorax completion`: shell completion for bash and zsh, generated from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

EXAMPLES = """examples:
  mirrorax completion bash > ~/.local/share/bash-completion/completions/mirrorax
  mirrorax completion zsh > ~/.zfunc/_mirrorax     (a folder in your fpath)

Open a new shell afterwards. To try it in this one: source <(mirrorax completion bash)
"""

_BASH = """\
# bash completion for mirrorax, written by 'mirrorax completion bash'
_mirrorax() {
    local words current="${COMP_WORDS[COMP_CWORD]}"
    # Flags of an action if there is one, else of the command, else the commands.
    local command="${COMP_WORDS[1]}" action="${COMP_WORDS[2]}"
    (( COMP_CWORD == 1 )) && command=""
    (( COMP_CWORD <= 2 )) && action=""
    case "$command" in
        sweep|paper) [[ -n $action && $action != -* ]] && command="$command $action" ;;
    esac
    case "$command" in
@CASES@
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    [[ $current != -* && $COMP_CWORD -gt 1 ]] && COMPREPLY+=($(compgen -f -- "$current"))
}
complete -o filenames -F _mirrorax mirrorax
"""

_ZSH = """\
#compdef mirrorax
# zsh completion for mirrorax, written by 'mirrorax completion zsh'
_mirrorax() {
    local candidates command="${words[2]}" action="${words[3]}"
    (( CURRENT == 2 )) && command=""
    (( CURRENT <= 3 )) && action=""
    case "$command" in
        sweep|paper) [[ -n $action && $action != -* ]] && command="$command $action" ;;
    esac
    case "$command" in
@CASES@
    esac
    compadd -- ${=candidates}
    [[ ${words[CURRENT]} != -* && $CURRENT -gt 2 ]] && _files
}
compdef _mirrorax mirrorax
"""


FLAGS = """
SHELL bash|zsh      the shell to write the script for
"""


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    script = {"bash": _BASH, "zsh": _ZSH}[args.shell]
    name = {"bash": "words", "zsh": "candidates"}[args.shell]
    rows = (f'        "{key}") {name}="{" ".join(words)}" ;;' for key, words in candidates())
    cases = "\n".join(rows)
    print(script.replace("@CASES@", cases), end="")
    return 0


def candidates() -> Iterator[tuple[str, list[str]]]:
    """Return what may follow `mirrorax`, each command, and each action of a command."""
    from mirrorax.cli import COMMANDS, parser_of

    yield "", [*COMMANDS, "--help", "--version"]
    for name in COMMANDS:
        parser = parser_of(name)
        actions = {}
        words: list[str] = []
        for action in parser._actions:
            words += action.option_strings
            if isinstance(action, argparse._SubParsersAction):
                actions = action.choices
            if action.choices and not action.option_strings:
                words += map(str, action.choices)
        yield name, words
        for below, inner in actions.items():
            yield f"{name} {below}", [s for a in inner._actions for s in a.option_strings]
