"""Note which files of mirrorax a command passes through, in this process and in its workers.

On the path of a Python process, this module writes the name of each file of the package in which a
function runs to the file that WALK names. What runs while a module is imported does not count.
"""

import importlib.util
import os
import sys
import threading

_FUNCTION = 0x1  # CO_OPTIMIZED: the code of a function, not of a class or a module


def _start(target: str) -> None:
    spec = importlib.util.find_spec("mirrorax")
    root = os.path.dirname(spec.origin) + os.sep
    noted: set[str] = set()

    def note(frame, event, argument):
        code = frame.f_code
        name = code.co_filename
        if name in noted or not name.startswith(root):
            return
        if not code.co_flags & _FUNCTION:
            return
        caller = frame.f_back
        while caller is not None:
            inside = caller.f_code.co_filename.startswith(root)
            if inside and caller.f_code.co_name == "<module>":
                return
            caller = caller.f_back
        noted.add(name)
        with open(target, "a") as file:
            file.write(name.removeprefix(root) + "\n")

    sys.settrace(note)
    threading.settrace(note)


if os.environ.get("WALK"):
    _start(os.environ["WALK"])
