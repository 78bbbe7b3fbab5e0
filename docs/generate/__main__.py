"""Write the pages of docs/reference: `python -m docs.generate`."""

from docs.generate import REFERENCE, pages

REFERENCE.mkdir(exist_ok=True)
for name, text in pages().items():
    (REFERENCE / name).write_text(text, encoding="utf-8")
