"""Write the pages of docs/reference: `python -m docs.generate`."""

from docs.generate import write

write()
