"""The paper: its studies, its printed numbers, its figures drawn again, a verdict on each claim."""
