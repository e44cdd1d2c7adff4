"""The command line: one module per command, imported only when its command is called.

A command module imports nothing heavy at its top and has

- `EXAMPLES`, the end of its help,
- `FLAGS`, a table of flags (see `flags.Parser.add_flags`), or `ACTIONS`: name -> (sentence, flags),
- `run(args)`, which does the work and returns the exit code; plugins are loaded by then.

A mistake in the input is a `mirrorax.errors.UserError`: one line on standard error, exit code 2.
An error of the operating system, such as a full disk, is one line too, with exit code 1. After
Ctrl-C the exit code is 130; `Stop` hears it while jax works.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mirrorax import plugins
from mirrorax._version import __version__
from mirrorax.cli.flags import Parser, naming
from mirrorax.errors import Failure, UserError, plain, unknown

#: a published paper -> the module of its command, which also has its `studies()` and `reference()`.
#: The paper's room is above this one, so its module is imported by name, when it is used.
PAPERS = {"paper": "mirrorax.paper.command"}
#: command -> (module, one line for `mirrorax --help`)
COMMANDS = {
    "train": ("mirrorax.cli.train", "train MDPO(h, D) on one environment, over seeds and grids"),
    "play": ("mirrorax.cli.play", "evaluate trained policies again, record an episode as a GIF"),
    "sweep": ("mirrorax.cli.sweep", "run studies of many runs; watch, check and export them"),
    "report": ("mirrorax.cli.report", "write one HTML page to explore results"),
    "robustness": ("mirrorax.cli.robustness", "print how robust each pair is to its temperatures"),
    "suggest": ("mirrorax.cli.suggest", "recommend regularisers and temperatures from results"),
    "tune": ("mirrorax.cli.tune", "search temperatures with a budget of runs"),
    "solve": ("mirrorax.cli.solve", "solve a finite MDP by exact Policy Mirror Descent"),
    "paper": (PAPERS["paper"], "reproduce the paper: list, run and compare its studies"),
    "list": ("mirrorax.cli.listing", "list environments, potentials, drifts, schedules, ..."),
    "doctor": ("mirrorax.cli.doctor", "check the installation: versions, device, learning, speed"),
    "completion": ("mirrorax.cli.completion", "print the completion script for bash or zsh"),
}
#: how long the first Ctrl-C waits for the end of a segment, or of a compilation
PATIENCE_SECONDS = 1.5


def _overview() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {line}" for name, (_, line) in COMMANDS.items())
    return (
        "usage: mirrorax COMMAND [options]\n\n"
        "Policy Mirror Descent with any pair of regularisers (h, D).\n\n"
        f"commands:\n{rows}\n\n"
        "  mirrorax COMMAND --help   the options of one command, with examples\n"
        "  mirrorax --version        the version\n\n"
        "start here:\n"
        "  mirrorax train --env Catch --alpha 0.05 --lam 1 --steps 150000\n"
    )


def parser_of(name: str) -> Parser:
    """Return the parser of a command, with all its flags."""
    path, line = COMMANDS[name]
    module = importlib.import_module(path)
    description = f"{line[0].upper()}{line[1:].removesuffix(', ...')}."
    table = getattr(module, "FLAGS", "")
    # A flag for each setting would fill the usage.
    usage = f"mirrorax {name} --env NAME [options]" if "@settings" in table else None
    parser = Parser(
        prog=f"mirrorax {name}", usage=usage, description=description, epilog=module.EXAMPLES
    )
    parser.add_flags(table)
    if hasattr(module, "ACTIONS"):
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        for action, (text, table) in module.ACTIONS.items():
            actions.add_parser(action, help=text, description=text).add_flags(table)
    return parser


def _dispatch(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_overview(), end="")
        return 0 if argv else 2
    if argv[0] in ("-V", "--version"):
        print(f"mirrorax {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        raise unknown("command", argv[0], COMMANDS)
    args = parser_of(argv[0]).parse_args(argv[1:])
    with naming(args):
        if getattr(args, "plugin", []):
            plugins.load_all(args.plugin)
        return int(importlib.import_module(COMMANDS[argv[0]][0]).run(args))


def _discard_output() -> None:
    """Drop unwritten output: the interpreter would report it as an error when it ends."""
    if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    try:
        code = _dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()  # a full disk is reported below
        return code
    except UserError as error:
        print(f"mirrorax: error: {error}", file=sys.stderr)
        return 2
    except Failure as error:
        text = "\n".join(map(plain, str(error).splitlines()))  # it may end with lines of a log
        print(f"mirrorax: error: {text}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("mirrorax: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output ended: `mirrorax ... | head`
        _discard_output()
        sys.stderr.close()
        return 141
    except OSError as error:
        where = error.filename if error.filename is not None else "cannot write the output"
        reason = error.strerror or str(error) or type(error).__name__
        print(f"mirrorax: error: {plain(where)}: {plain(reason)}", file=sys.stderr)
        _discard_output()
        return 1


def leave(advice: str = "") -> NoReturn:
    """End the process after Ctrl-C, without Python's teardown, which XLA's threads can crash."""
    # The bar may have hidden the cursor, and a print may be what is interrupted.
    cursor = "\x1b[?25h\n" if sys.stderr.isatty() else ""
    advice = f"mirrorax: {advice}\n" if advice else ""
    os.write(2, f"{cursor}{advice}mirrorax: interrupted\n".encode())
    os._exit(130)


class Stop:
    """Ctrl-C while jax works: an exception would be lost in its callbacks, so a flag is set.

    The first Ctrl-C takes effect at the next `check`. If none comes in time, because jax compiles,
    or at the second Ctrl-C, a thread ends the process: a signal handler in Python has to wait until
    jax returns.
    """

    def __init__(self) -> None:
        #: what to do before the thread ends the process
        self.cleanup: list[Callable[[], None]] = []
        self._requested = False
        self._ending = threading.Lock()
        self._previous: Any = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Stop:
        """Listen, unless the signal is ignored, as in background jobs of a shell."""
        ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
        if threading.current_thread() is threading.main_thread() and not ignored:
            self._previous = signal.signal(signal.SIGINT, self._request)
            reading, self._writing = os.pipe()
            os.set_blocking(self._writing, False)
            self._previous_fd = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
            self._thread = threading.Thread(target=self._watch, args=(reading,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Restore what was there before; end the process if it was interrupted."""
        if self._thread is not None:
            signal.set_wakeup_fd(self._previous_fd)
            os.close(self._writing)
            self._thread.join()
            self._thread = None
            signal.signal(signal.SIGINT, self._previous)
        if kind is KeyboardInterrupt:
            sys.stdout.flush()
            leave()

    def _request(self, *_: object) -> None:
        self._requested = True

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if Ctrl-C was pressed."""
        if self._requested:
            raise KeyboardInterrupt

    def held(self) -> contextlib.AbstractContextManager[Any]:
        """Keep the process alive until the end of the block, for work that must not be cut."""
        return self._ending

    def _watch(self, reading: int) -> None:
        """Read the numbers of the signals, until the other end of the pipe is closed."""
        times, wait = 0, None
        while select.select([reading], [], [], wait)[0]:
            numbers = os.read(reading, 64)
            times += numbers.count(signal.SIGINT)
            if not numbers:
                os.close(reading)
                return
            if times > 1:
                break
            wait = PATIENCE_SECONDS if times else None
        self._ending.acquire()
        for action in self.cleanup:
            action()
        leave()
