"""Texts and names of regularisers as LaTeX."""

from __future__ import annotations

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def latex_text(text: str) -> str:
    """Escape a text for LaTeX."""
    return "".join(_LATEX.get(character, character) for character in text)


_SYMBOLS = {"entropy": r"-\mathcal{H}", "max": r"\max", "kl": r"D_\mathrm{KL}"}
_SYMBOLS |= {"forward_kl": r"D_\mathrm{fKL}", "zero": "0", "squared_tv": r"D_\mathrm{TV}^2"}


def symbol(name: str) -> str:
    """Return a regulariser's symbol as LaTeX mathematics."""
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    inner = name[name.find("(") + 1 : -1]
    if name.startswith("bregman("):
        return f"B_{{{symbol(inner)}}}"
    if name.startswith("tsallis("):
        return rf"-\mathcal{{H}}_{{{inner}}}"
    if name.startswith("lp("):
        return rf"\Vert\cdot\Vert_{{{inner}}}^{{{inner}}}"
    return rf"\text{{{latex_text(name)}}}"
