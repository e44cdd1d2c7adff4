"""Interactive shells at a terminal of their own, in which the key for completion is pressed."""

import os
import pty
import select
import subprocess
import time

_TIMEOUT = 60
# Ctrl-O puts all the words that are offered into the line; the command prints its words.
_SHOW = "mirrorax() { printf '[%s]' \"$@\"; echo; }\n"
_BASH = "bind 'set enable-bracketed-paste off' '\"\\C-o\": insert-completions'\n" + _SHOW
_ZSH = (
    "unset zle_bracketed_paste; autoload -U compinit; fpath=($PWD $fpath); compinit -D -u\n"
    "zstyle ':completion:every:*' insert yes\n"
    "zstyle ':completion:every::::' completer _all_matches _complete\n"
    "zle -C every complete-word _generic; bindkey '^O' every\n" + _SHOW
)
#: How the script in `_mirrorax` is installed.
INSTALLED = {
    "bash": _BASH + "source ./_mirrorax\n",
    "zsh": _ZSH,
    "zsh by eval": _ZSH.replace("fpath=($PWD $fpath)", ":") + 'eval "$(cat _mirrorax)"\n',
}


def offered(shell, setup, lines, folder):
    """Return the words that a shell offers for the last word of each line."""
    (folder / "setup").write_text(setup)
    main, side = pty.openpty()
    command = {"bash": ["bash", "--norc", "--noprofile"], "zsh": ["zsh", "-f"]}[shell]
    environment = {**os.environ, "TERM": "dumb", "PS1": ""}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), side)
    with subprocess.Popen(
        [*command, "-i"], cwd=folder, env=environment, start_new_session=True, **streams
    ) as process:
        os.close(side)
        try:
            _answer(main, "source ./setup", "0")
            found = {}
            for number, line in enumerate(lines, 1):
                text = _answer(main, f"{line}\x0f", str(number))
                printed = [row for row in text.splitlines() if row.startswith("[")][-1]
                before = len(line.split()) - 1 - (not line.endswith(" "))
                found[line] = sorted(printed.strip("[]").split("][")[before:])
            return found
        finally:
            process.kill()
            os.close(main)


def _answer(terminal, line, mark):
    """Type a line; return what appears until a mark that is printed after it."""
    os.write(terminal, f"{line}\n".encode())
    os.write(terminal, f"echo end''of {mark}\n".encode())  # not in the echo of what is typed
    seen, end = b"", time.monotonic() + _TIMEOUT
    while f"endof {mark}\r\n".encode() not in seen:
        assert select.select([terminal], [], [], max(0, end - time.monotonic()))[0], seen.decode()
        seen += os.read(terminal, 65536)
    return seen.decode()
