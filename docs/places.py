"""Fill in the places of a page that scripts write.

A place is what stands between `<!-- NAME -->` and `<!-- end of NAME -->`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping


def fill(text: str, contents: Mapping[str, str]) -> str:
    """Return a page with the content of each of these places replaced."""
    for name, content in contents.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        place = re.compile(re.escape(start) + ".*?" + re.escape(end), re.DOTALL)
        if not place.search(text):
            raise ValueError(f"no place for {name!r}")
        text = place.sub(lambda _, new=f"{start}{content}\n{end}": new, text)
    return text
