"""The programs in README.md and documents, as they stand there, from the repository's root."""

import contextlib
import importlib.util
import io
import os
import re
import runpy
import socket
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def free_port():
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


DOCUMENTS = (
    "README.md",
    "docs/python.md",
    "docs/convert.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs/how_to").glob("*.md")),
)
OPTIONAL = ("torch", "onnx")


def is_missing(program):
    """Whether it needs a package that is not installed."""
    return any(f"import {name}" in program and importlib.util.find_spec(name) is None for name in OPTIONAL)


class Documents(unittest.TestCase):
    def test_programs_run(self):
        texts = [(ROOT / document).read_text() for document in DOCUMENTS]
        programs = re.findall(r"```python\n(.*?)```", "".join(texts), re.S)
        self.assertGreaterEqual(len(programs), 3)
        before = os.getcwd()
        os.chdir(ROOT)
        os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}  # as torchrun has them
        os.environ["MASTER_PORT"] = str(free_port())
        try:
            for program in programs:
                if is_missing(program):
                    continue
                printed = io.StringIO()
                with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
                    file = Path(folder) / "documented.py"
                    file.write_text(program)
                    runpy.run_path(str(file))
                self.assertNotEqual(printed.getvalue(), "")
        finally:
            os.chdir(before)


if __name__ == "__main__":
    unittest.main()
