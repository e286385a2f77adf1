"""What a program makes of a shape, to be read."""

import html
import json
from pathlib import Path


class Explanation:
    """How calls of a shape run, and what each launch costs (docs/explain.md).

    Printed, it is a text; at the end of a notebook's cell a page to look around in. `json` is all of it
    as data, `html` the page.
    """

    def __init__(self, explain):
        self._explain = explain  # takes the format

    def __str__(self):
        return self._explain("text")

    __repr__ = __str__

    @property
    def json(self):
        return json.loads(self._explain("json"))

    @property
    def html(self):
        return self._explain("html")

    def save(self, path):
        """The page as a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self):
        # In a frame of its own, so that neither the notebook's style nor the page's meets the other.
        page = html.escape(self.html)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 45em; border: 0"></iframe>'
