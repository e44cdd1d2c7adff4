"""One self-contained HTML page to explore a store: no network, works from a file.

- `payload`: what the page knows, as plain data; run scores packed as 32-bit floats.
- `facts`: which study, how much is done, what failed, on what machine.
- `build`: the page from its parts in `page/` (HTML, CSS and JavaScript written for it).

The page computes scores, frequencies, Rbst and intervals itself, by the formulas of
`mirrorax.analysis`, so that every choice a reader makes is answered at once.
"""

from __future__ import annotations

from mirrorax.report.build import build, fill, write
from mirrorax.report.facts import Facts, facts
from mirrorax.report.payload import payload

__all__ = ["Facts", "build", "facts", "fill", "payload", "write"]
