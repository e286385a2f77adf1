"""rnnc beside others that bring an LLVM of their own: each is loaded first, and next after each."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCRIPT = Path(__file__).with_name("load_in_order.py")
PACKAGES = {"numba": "numba", "triton": "triton", "inductor": "torch"}


def run(words, folder):
    """What went wrong in a process of its own, or nothing."""
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "TRITON_CACHE_DIR": f"{folder}/triton",
        "TRITON_ALWAYS_COMPILE": "1",
    }
    ran = subprocess.run([sys.executable, SCRIPT, *words], env=environment, capture_output=True, text=True)
    return f"{' '.join(words)}: exit code {ran.returncode}\n{ran.stderr}" if ran.returncode else ""


def orders(names):
    """Some in which each name is the first, and the next after each other one."""
    count = len(names)
    zigzag = [(step + 1) // 2 * (-1) ** (step + 1) for step in range(count)]  # 0, 1, -1, 2, ...
    forth = [[names[(first + step) % count] for step in zigzag] for first in range(count)]
    return forth if count % 2 == 0 else forth + [order[::-1] for order in forth]


class Loading(unittest.TestCase):
    def test_orders(self):
        missing = [p for p in PACKAGES.values() if importlib.util.find_spec(p) is None]
        names = [name for name, package in PACKAGES.items() if package not in missing]
        names.append("rnnc")
        # Shown to all, symbols get into others' way sooner; so it is done in each order.
        runs = [(*shown, *order) for order in orders(names) for shown in [("--global",), ()]]
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
            # The first leaves what the others need not compile again: Inductor's C++.
            problems = [run(runs[0], folder)]
            problems += pool.map(lambda words: run(words, folder), runs[1:])
        self.assertEqual("".join(problems), "")
        if missing:
            self.skipTest(f"without {', '.join(missing)}, which is not installed")


if __name__ == "__main__":
    unittest.main()
