"""What the fuzz tests share: hostile names, a trap, and commands run in this process.

Everything is drawn from seeded generators: the same inputs every time. The long form
(`MIRRORAX_FAULTS=long`, `make test-faults`) has many more of them.
"""

import io
import random
import sys
from contextlib import redirect_stderr, redirect_stdout

from harness import long_form

from mirrorax.cli import main

#: the longest line of an error, with what is around it
_LONGEST = 1300


def amount(long: int, short: int) -> int:
    return long if long_form() else short


class Trap:
    """A module and commands that would leave a file behind, were one of them imported or run."""

    module = "trap_of_the_fuzz_tests"

    def __init__(self, folder, monkeypatch):
        self.mark = folder / "executed"
        (folder / f"{self.module}.py").write_text(
            f"open({str(self.mark)!r}, 'w').close()\n"
            f"def run(*_, **__):\n    open({str(self.mark)!r}, 'w').close()\n"
        )
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.chdir(folder)
        touch = f"touch {self.mark}"
        self.names = [
            f"{self.module}:run",
            f"{self.module}:run()",
            f"{self.module}:run(a=1)",
            f"os:system(command='{touch}')",
            f'subprocess:getoutput(cmd="{touch}")',
            f"builtins:exec(source='import {self.module}')",
            f"gymnasium:{self.module}:Thing-v0",
            f"gymnasium:GymV26Environment-v0(env_id='{self.module}:Thing-v0')",
            f"gymnasium:CartPole-v1(render_mode='{self.module}:run')",
            f"gymnasium:CartPole-v1(render_mode=__import__('{self.module}'))",
            f"Catch(size=__import__('{self.module}'))",
            f"DeepSea(__import__('{self.module}').run())",
            f"{self.module}",
            f"{self.module}.run",
            f"__import__('{self.module}')",
            f"entropy(__import__('{self.module}'))",
            f"bregman({self.module}:run)",
            f"!!python/object/apply:os.system ['{touch}']",
            f"../{self.module}.py",
        ]
        self.plugins = [
            [self.module],
            [f"{self.module}==1.0"],
            ["os", self.module],
            [f"{self.module}.run"],
            [f"./{self.module}.py"],
            f"{self.module}",
            [[self.module]],
            [{"module": self.module}],
            [3],
        ]

    def check(self):
        assert not self.mark.exists()
        assert self.module not in sys.modules


def commanded(argv):
    """Run a command here; return its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(argv)
        except SystemExit as error:  # argparse, for --help
            code = error.code
    return code, out.getvalue(), err.getvalue()


def check_clean(out, err, what):
    """Nothing that a terminal would obey, nothing endless, no traceback."""
    for line in (*out.split("\n"), *err.split("\n")):
        assert line.replace("\t", " ").isprintable(), what
        assert "Traceback" not in line, what
    for line in err.split("\n"):
        assert len(line) <= _LONGEST, what


def check_refused(argv, lines=1):
    """A command is refused: one line, no output, an exit code of 1 or 2."""
    code, out, err = commanded(argv)
    check_clean(out, err, argv)
    assert code in (1, 2), (argv, code, out, err)
    assert err.startswith("mirrorax: "), (argv, err)
    assert err.count("\n") <= lines, (argv, err)
    return err


NASTY_TEXTS = [
    "",
    " ",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "a\nb",
    "a\rb",
    "\u202egnirts",
    "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
    "x" * 40_000,
    "(" * 3_000,
    "tsallis(0.5",
    "lp(2",
    "bregman(max",
    "bregman(" * 500 + "max" + ")" * 500,
    "tsallis(" + "9" * 400 + ")",
    "1e400",
    "-1e400",
    "nan",
    "-0",
    "9" * 400,
    "9" * 5_000,
    "-" + "9" * 30,
    "0x10",
    "١٢٣",
    "1_000",
    "1,,2",
    ",",
    "None",
    "true",
    "[]",
    "{}",
    "Catch(" + "9" * 50 + "x2)",
    "DeepSea(3.5)",
    "CartPole(",
    "%s%n",
    "../../etc/passwd",
    "a:b(c=1)",
    "--",
    "-h=1",
]


def broken(text: str, rng: random.Random) -> str:
    """Change a few characters of a text."""
    letters = list(text)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(letters) + 1)
        match rng.randrange(4):
            case 0:
                del letters[at : at + rng.randint(1, 12)]
            case 1:
                letters.insert(at, rng.choice("[]{}()\"'=.,#\n\\\x1b\x000-eé"))
            case 2:
                letters[at:at] = letters[at - rng.randint(0, 30) : at] if at else []
            case _:
                rng.shuffle(letters[at : at + 8])
                letters[at : at + 1] = [chr(rng.choice([0, 7, 27, 0x7F, 0x85, 0x202E, 0x1F600]))]
    return "".join(letters)
