#!/usr/bin/env python3
"""Whether each source that a build compiles together with others (tools/cmake/unite.cmake) includes
all that it uses. Those that mention a name which others' headers declare and their own do not the
compiler checks alone, as a build with RNNC_UNITE=OFF would compile them. Of needed includes that
were taken away this found nine in ten; `--all` has the compiler check all sources.

usage: alone.py BUILD [--all]     a build that is up to date
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

from names import missing_of
from tidy import headers_of, sources_of


def check(entry, source):
    words = shlex.split(entry["command"])
    words = [source if word == entry["file"] else word for word in words]
    del words[words.index("-o") : words.index("-o") + 2]
    # ccache would have nothing to keep.
    words = [word for word in words if not word.endswith("ccache")]
    return subprocess.run(
        [*words, "-fsyntax-only"], cwd=entry["directory"], capture_output=True, text=True
    )


def preprocessor(entries):
    """The compiler with all flags of the build that say where headers lie."""
    flags = {}
    for entry in entries:
        words = shlex.split(entry["command"])
        for i, word in enumerate(words):
            if word == "-isystem":
                flags[word, words[i + 1]] = None
            elif word.startswith("-I"):
                flags[(word,)] = None
    words = shlex.split(entries[0]["command"])
    compiler = words[1] if words[0].endswith("ccache") else words[0]
    return (compiler, "-std=c++20", *(word for flag in flags for word in flag))


def doubtful(sources, compiler):
    """Those of the sources of a unit that may lack an include."""
    paths = {source: os.path.relpath(source) for source in sources}
    beside = set().union(*map(headers_of, paths.values()))
    return [source for source, path in paths.items() if missing_of(path, beside, compiler)]


def main():
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    units = [(e, [source for source in sources_of(e) if source != e["file"]]) for e in entries]
    compiler = preprocessor(entries)
    chosen = (lambda sources: sources) if "--all" in sys.argv else (lambda s: doubtful(s, compiler))
    united = [(e, source) for e, sources in units for source in chosen(sources)]
    good = True
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        for done in workers.map(lambda pair: check(*pair), united):
            sys.stderr.write(done.stderr)
            good = good and done.returncode == 0
    count = sum(len(sources) for _, sources in units)
    said = f"{len(united)} of {count} sources compile alone"
    if len(united) < count:
        said += ", the others mention no name they lack"
    print(said if good else "a source needs another's includes")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
