#!/usr/bin/env python3
"""clang-tidy for many sources at once. Most of its time goes into headers, which it parses and
walks through for every source anew; so sources that are compiled alike are checked together:

1. Sources with the same flags, in the order of their folders, make a unit: their headers, then they
   themselves. A source that has a name of its own is not with those to which the name means
   something else.
2. A name that several of them have in an unnamed namespace is a macro for another one meanwhile.
3. Where a unit is not good its halves are checked, at last a source by itself: what is said of that
   counts.

usage: tidy.py BUILD SOURCE…
"""

import collections
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TIDY = "clang-tidy-19"
# More sources take more memory: so many about 0.9 GB.
MOST_SOURCES = 24
# To clang it uses templates which those that it would be with specialise after that.
ALONE = {"ir/plan/launches/launches.cpp"}

INCLUDE = re.compile(r'^#include (["<][^">]+)[">]', re.MULTILINE)
PROGRESS = re.compile(r"warnings? generated\.|Processing file")

# What may mean a source's own function or type, and what is of a class or a namespace.
MENTION = re.compile(r"(?<![\w:.>])(?:[A-Z]\w*|\w+(?=\())")
MEMBER = re.compile(r"(?<=::|->)\w+|(?<=\.)\w+")
ALIAS = re.compile(r"^(?:using (\w+) = |namespace (\w+) = )(.*)", re.MULTILINE)
TYPE = re.compile(r"(?:struct|class|enum(?: class)?|union) (\w+)")
CONSTANT = re.compile(r"(?:static |inline )?(?:constexpr|const) .*?(\w+)(?:\[\w*\])*(?: =|\{)")
FUNCTION = re.compile(r"\w[\w:<>,&*\[\] ]*[ &*](\w+)\(")


def own_names(text):
    """What a source declares in unnamed namespaces but aliases, by lines that are not indented."""
    names = set()
    unnamed = False
    for line in text.splitlines():
        if line == "namespace {":
            unnamed = True
        elif line == "}  // namespace":
            unnamed = False
        elif unnamed:
            for pattern in (TYPE, CONSTANT, FUNCTION):
                if match := pattern.match(line):
                    names.add(match[1])
                    break
    return names


class Names:
    """What a source's names mean to others."""

    def __init__(self, text):
        self.aliases = {match[1] or match[2]: match[3] for match in ALIAS.finditer(text)}
        self.own = own_names(text)
        self.mentions = set(MENTION.findall(text))
        self.members = set(MEMBER.findall(text))

    def clash_with(self, other):
        shared = self.own & other.own
        same = {name for name in self.aliases if other.aliases.get(name) == self.aliases[name]}
        mine = (self.own | self.aliases.keys()) & other.mentions
        theirs = (other.own | other.aliases.keys()) & self.mentions
        return (mine | theirs) - shared - same or shared & (self.members | other.members)


@functools.cache
def headers_of(path):
    """What a file of this repository includes, and what that does; headers of others as <name."""
    headers = set()
    for name in INCLUDE.findall(pathlib.Path(path).read_text()):
        if pathlib.Path(name[1:]).exists():
            headers |= headers_of(name[1:]) | {name[1:]}
        else:
            headers.add("<" + name[1:])
    return headers


def others_headers(sources):
    """Lines that include the headers of others that sources come to. For each of their functions that
    performance-unnecessary-value-param would change, though it says nothing of headers of others, it
    looks through the whole unit whether its change could be made: but not where a macro has made the
    parameter, as one of `std` does here."""
    paths = [os.path.relpath(source) for source in sources]
    names = sorted({name for path in paths for name in headers_of(path) if name.startswith("<")})
    yield "#define std std"
    for name in names:
        # A source may include it in builds of another kind alone.
        yield f"#if __has_include({name}>)\n#include {name}>\n#endif"
    yield "#undef std"


def unit_text(sources):
    """A source of sources; the headers first, where no name is another."""
    texts = {source: source.read_text() for source in sources}
    headers = dict.fromkeys(
        line
        for text in texts.values()
        for line in text.partition("\nnamespace")[0].splitlines()
        if line.startswith("#include")
    )
    names = {source: own_names(text) for source, text in texts.items()}
    count = collections.Counter(name for own in names.values() for name in own)
    lines = [*others_headers(sources), *headers]
    for number, source in enumerate(sources):
        shared = sorted(name for name in names[source] if count[name] > 1)
        lines += [f"#define {name} {name}_{number}" for name in shared]
        lines.append(f'#include "{source}"')
        lines += [f"#undef {name}" for name in shared]
    return "\n".join(lines) + "\n"


def compiler_flags(entry):
    """Of an entry of compile_commands.json: all but compiler, source, result, and precompiled headers,
    which g++ alone can read: a source is checked with the headers that it includes itself."""
    words = shlex.split(entry["command"])
    while not os.path.basename(words[0]).startswith(("c++", "g++", "clang++")):
        words.pop(0)
    words.pop(0)
    flags = []
    while words:
        word = words.pop(0)
        if word in ("-o", "-c", "-include"):
            words.pop(0)
        elif word != "-Winvalid-pch":
            flags.append(word)
    return tuple(flags)


def sources_of(entry):
    """What an entry compiles: a source, or those that tools/cmake/unite.cmake has put together."""
    path = pathlib.Path(entry["file"])
    if path.parent.name != "Unity":
        return [entry["file"]]
    return re.findall(r'^#include "(.*)"$', path.read_text(), re.MULTILINE)


def make_units(build, sources):
    """Lists of sources, with the flags of each list."""
    commands = json.loads((build / "compile_commands.json").read_text())
    entries = {source: entry for entry in commands for source in sources_of(entry)}
    groups = collections.defaultdict(list)
    for source in sources:
        if str(source) in entries:
            alone = os.path.relpath(source) in ALONE and source
            groups[alone, compiler_flags(entries[str(source)])].append(source)
        else:
            near = max(entries, key=lambda name: len(os.path.commonpath([name, source])))
            yield [source], compiler_flags(entries[near])
    for (_, flags), group in groups.items():
        units = []
        for source in group:
            names = Names(source.read_text())
            for unit, others in units:
                clash = any(names.clash_with(other) for other in others)
                if len(unit) < MOST_SOURCES and not clash:
                    break
            else:
                unit, others = [], []
                units.append((unit, others))
            unit.append(source)
            others.append(names)
        for unit, _ in units:
            yield unit, flags


def run(words):
    done = subprocess.run([TIDY, "--quiet", *words], capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines(True) if not PROGRESS.search(line)]
    return done.returncode == 0, done.stdout + "".join(errors)


def check(build, root, sources, flags):
    with tempfile.NamedTemporaryFile("w", suffix=".cpp", dir=build) as unit:
        unit.write(unit_text(sources))
        unit.flush()
        # Names of other sources are shadowed without harm.
        own = f"--header-filter=^{re.escape(str(root))}/.*"
        good, output = run([own, unit.name, "--", *flags, "-Wno-shadow"])
    if good:
        return True, output
    if len(sources) == 1:
        return run([str(sources[0]), "--", *flags])
    half = len(sources) // 2
    first, second = (check(build, root, part, flags) for part in (sources[:half], sources[half:]))
    return first[0] and second[0], first[1] + second[1]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    root = pathlib.Path.cwd()
    units = list(make_units(build, [root / name for name in sys.argv[2:]]))
    units.sort(key=lambda unit: -len(unit[0]))  # the longest first
    good = True
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        for passed, output in workers.map(lambda unit: check(build, root, *unit), units):
            sys.stdout.write(output)
            good = good and passed
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
