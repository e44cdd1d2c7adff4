"""Pictures of few dots: what is drawn is the same, and files are written in a tenth of the time."""

from __future__ import annotations

import pytest

from mirrorax.figures import style


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(style._SETTINGS, "savefig.dpi", 30)
