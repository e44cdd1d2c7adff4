"""`mirrorax completion`: shell completion for bash and zsh, generated from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

EXAMPLES = """examples:
  mirrorax completion bash > ~/.local/share/bash-completion/completions/mirrorax
  mirrorax completion zsh > ~/.zfunc/_mirrorax     (a folder in your fpath)

Open a new shell afterwards. To try it in this one: source <(mirrorax completion bash)
"""

# What may come next, from the words before it: the flags of an action, else those of a command.
_WORDS = """\
_mirrorax_words() {
    local command="$1"
    case "$1" in
        sweep|paper) [[ -n $2 && $2 != -* ]] && command="$1 $2" ;;
    esac
    case "$command" in
@CASES@
    esac
}
"""

_BASH = f"""\
# bash completion for mirrorax, written by 'mirrorax completion bash'
{_WORDS}
_mirrorax() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}"
    local words="$(_mirrorax_words "${{COMP_WORDS[@]:1:COMP_CWORD-1}}")"
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    [[ $current != -* && $COMP_CWORD -gt 1 ]] && COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -o filenames -F _mirrorax mirrorax
"""

# When zsh loads the file from its fpath, at the first Tab, the file itself has to answer.
_ZSH = f"""\
#compdef mirrorax
# zsh completion for mirrorax, written by 'mirrorax completion zsh'
{_WORDS}
_mirrorax() {{
    compadd -- $(_mirrorax_words "${{(@)words[2,CURRENT-1]}}")
    [[ ${{words[CURRENT]}} != -* && $CURRENT -gt 2 ]] && _files
}}
if [[ $funcstack[1] == _mirrorax ]]; then _mirrorax; else compdef _mirrorax mirrorax; fi
"""


FLAGS = """
SHELL bash|zsh      the shell to write the script for
"""


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    rows = [f'        "{key}") echo "{" ".join(words)}" ;;' for key, words in candidates()]
    script = {"bash": _BASH, "zsh": _ZSH}[args.shell]
    print(script.replace("@CASES@", "\n".join(rows)), end="")
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
