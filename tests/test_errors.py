"""Errors are safe to print, whatever they repeat."""

from mirrorax.errors import UserError, nearest, shown, unknown


def test_what_comes_from_a_file_is_cut_and_escaped():
    for hostile in ("x" * 36_000, "\x1b[2J\x07", "a\nb\r", "\u202e", ["y" * 36_000], {"k": "\x00"}):
        for error in (UserError(f"field: {hostile}"), unknown("field", hostile, ["a", "b"])):
            assert len(str(error)) <= 1_200
            assert str(error).isprintable()
        assert len(shown(hostile)) <= 200
    assert str(unknown("field", "x" * 36_000, ["kl"])).endswith("allowed: kl")
    assert str(UserError("s.toml: 2 mistakes:", "one\n", "two")).split("\n") == [
        "s.toml: 2 mistakes:",
        "  one\\n",
        "  two",
    ]


def test_values_that_cannot_be_written_are_named():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert "too large to show" in shown(deep)
    assert "too large to show" in shown(10**5_000)
    assert nearest("x" * 10**6, ["x"]) is None
