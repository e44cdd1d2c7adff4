"""Do temperatures carry over between tasks? A study, and what its results answer.

mirrorax sweep run --store transfer "$(python -m mirrorax.transfer --study)"
python -m mirrorax.transfer transfer
"""
