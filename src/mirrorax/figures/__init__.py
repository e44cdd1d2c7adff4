"""One function per kind of picture: `f(data, ax) -> ax`, and the robustness table as text.

No function touches matplotlib's global state; wrap calls in `style()` for the house style and
write files with `save`. Functions are in the module named for the picture.
"""
