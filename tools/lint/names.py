"""What a source's includes declare, found in the text: quick, and blind to what has no name, such as
a specialization. Names are those of namespaces and of macros; of headers of others all words that they
come to.
"""

import functools
import pathlib
import re
import subprocess

from tidy import ALIAS, CONSTANT, FUNCTION, TYPE, headers_of, own_names

MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)
DECLARATION = re.compile(r"(?:struct|class|union) \w+;")  # which leaves a type incomplete
INCOMPLETE = re.compile(r"\b" + DECLARATION.pattern)
TEMPLATE = re.compile(r"^template <.*?> (?=\w)", re.MULTILINE)
# Comments, strings' texts, members.
NO_MENTION = re.compile(r"""//.*|"(?:[^"\\\n]|\\.)*"|(?:\.|->)\w+""")
# What may be others': of a namespace, a function, a macro, or a type as C names them.
OTHERS = re.compile(r"\b(?:[a-z]\w*|CLI)::(\w+)|(?<![:\w])(\w+)\(|\b([A-Z][A-Z0-9_]+|\w+_t)\b")
DEFINED = re.compile(r"[\w>&*\]] (\w+)\(|\b(?:auto|auto&|auto\*) (\w+)|\b(\w+)\(\) [{:]")


@functools.cache
def declared_by(header):
    """The names that come with a header of this repository."""
    text = TEMPLATE.sub("", pathlib.Path(header).read_text())
    names = set(MACRO.findall(text)) | {a or b for a, b, _ in ALIAS.findall(text)}
    for line in text.splitlines():
        if DECLARATION.match(line):
            continue
        for pattern in (TYPE, CONSTANT, FUNCTION):
            if match := pattern.match(line):
                names.add(match[1])
    return names


@functools.cache
def words_of(file):
    return set(re.findall(r"\w+", pathlib.Path(file).read_text()))


@functools.cache
def words_behind(header, compiler):
    """All words that a header of others, as <name, comes to."""
    command = [*compiler, "-E", "-P", "-dD", "-x", "c++", "-"]
    done = subprocess.run(command, input=f"#include {header}>\n", capture_output=True, text=True)
    return set(re.findall(r"\w+", INCOMPLETE.sub("", done.stdout)))


def missing_of(source, beside, compiler):
    """Names that a source mentions, and none of its headers declares but some of `beside`. `compiler`:
    the words that preprocess."""
    text = NO_MENTION.sub("", pathlib.Path(source).read_text())
    mine = headers_of(source)
    own = {header for header in mine if not header.startswith("<")}
    left = {header for header in beside - mine if not header.startswith("<")}
    mentioned = set(re.findall(r"\w+", text)) - own_names(text)
    missing = mentioned & set().union(*map(declared_by, left)) - set().union(*map(declared_by, own))
    # Functions are called; what has such a name may be something else.
    called = set(re.findall(r"(\w+)[(<]", text))
    missing = {name for name in missing if not name.islower() or name in called}
    # Of others.
    known = {name for match in DEFINED.findall(text) for name in match}.union(*map(words_of, own))
    mentioned = {name for match in OTHERS.findall(text) for name in match} - known
    mentioned -= set().union(*(words_behind(header, compiler) for header in mine - own))
    return missing.union(*(mentioned & words_behind(header, compiler) for header in beside - mine - left))
