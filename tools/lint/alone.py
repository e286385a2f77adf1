#!/usr/bin/env python3
"""Whether each source that a build compiles together with others (tools/cmake/unite.cmake) includes
all that it uses: the compiler checks it alone, as a build with RNNC_UNITE=OFF would compile it. Of
tests those only that mention a name which others' headers declare and their own do not.

usage: alone.py BUILD     a build that is up to date
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

from names import headers_of, missing_of
from tidy import sources_of


def check(entry, source):
    words = shlex.split(entry["command"])
    words = [source if word == entry["file"] else word for word in words]
    del words[words.index("-o") : words.index("-o") + 2]
    # ccache would have nothing to keep.
    words = [word for word in words if not word.endswith("ccache")]
    return subprocess.run(
        [*words, "-fsyntax-only"], cwd=entry["directory"], capture_output=True, text=True
    )


def doubtful(sources):
    """Those of the sources of a unit that may lack an include."""
    paths = {source: os.path.relpath(source) for source in sources}
    beside = set().union(*map(headers_of, paths.values()))
    return [
        source
        for source, path in paths.items()
        if not path.startswith("tests/") or missing_of(path, beside)
    ]


def main():
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    units = [(e, [source for source in sources_of(e) if source != e["file"]]) for e in entries]
    united = [(e, source) for e, sources in units for source in doubtful(sources)]
    good = True
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        for done in workers.map(lambda pair: check(*pair), united):
            sys.stderr.write(done.stderr)
            good = good and done.returncode == 0
    count = sum(len(sources) for _, sources in units)
    said = f"{len(united)} of {count} sources compile alone, the others mention no name they lack"
    print(said if good else "a source needs another's includes")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
