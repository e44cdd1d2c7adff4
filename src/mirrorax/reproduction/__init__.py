"""The paper beside what was run here: its figures drawn again, its claims with a verdict each."""
