"""The programs in docs/python.md, as they stand there, from the repository's root."""

import contextlib
import io
import os
import re
import runpy
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Documents(unittest.TestCase):
    def test_programs_run(self):
        programs = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.S)
        self.assertGreaterEqual(len(programs), 2)
        before = os.getcwd()
        os.chdir(ROOT)
        try:
            for program in programs:
                if "torch" in program:
                    try:
                        import torch  # noqa: F401
                    except ImportError:
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
