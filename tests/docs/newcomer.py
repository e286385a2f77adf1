#!/usr/bin/env python3
"""Follows docs/tutorial.md by the letter, from a fresh clone to a trained cell, and says how long each
command takes.

    python3 tests/docs/newcomer.py [--into FOLDER] [--json FILE]

clones this repository into FOLDER and runs there what the page shows: files are written and commands
typed in the order of the page, in one shell, whose caches are empty. What they print must be what the
page shows below them (tests/support/documented_commands.h says how); the first that goes otherwise ends
it. The build of a clone takes minutes. With `--built BUILD` that folder stands for what it would have
built: this is the test `newcomer`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/tutorial.md"
MOST_SECONDS = 15 * 60  # of all but the build: what the site promises
BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.M | re.S)
HEADING = re.compile(r"^## (.*)$", re.M)


@dataclass
class Step:
    """A command, or a file if it has a name."""
    section: str
    text: str
    name: str = ""
    shown: str | None = None  # what it prints


def steps_of(page):
    headings = [(match.start(), match[1]) for match in HEADING.finditer(page)]
    for match in BLOCK.finditer(page):
        kind, name, text = match.groups()
        section = next((title for at, title in reversed(headings) if at < match.start()), "")
        if name:
            yield Step(section, text, name)
        elif kind == "sh":
            # A line that ends in \ goes on.
            for command in re.findall(r"(?:.*\\\n)*.+\n", text):
                yield Step(section, command)
        elif kind == "console":
            for command, shown in re.findall(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", text, re.M):
                yield Step(section, command, shown=shown)


def fits(shown, text):
    """`…` stands for any text within a line, or alone for any lines."""
    lines = [r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
             for line in shown.splitlines() if line]
    return re.fullmatch("".join(lines), re.sub(r"\n+", "\n", text).lstrip("\n")) is not None


class Shell:
    """One bash, as a terminal has it: what a command exports or where it goes stays for the next."""

    def __init__(self, folder, scratch):
        self.scratch = scratch
        environment = os.environ | {"XDG_CACHE_HOME": str(scratch / "cache")}
        for name in ("RNNC_CACHE_DIR", "CCACHE_DIR"):
            environment.pop(name, None)
        self.bash = subprocess.Popen(["bash"], cwd=folder, env=environment, text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, command):
        """Exit code, what it printed, and seconds."""
        script, output = self.scratch / "command", self.scratch / "output"
        script.write_text(command)
        begin = time.monotonic()
        self.bash.stdin.write(f"source '{script}' >'{output}' 2>&1 </dev/null; echo $?\n")
        self.bash.stdin.flush()
        code = self.bash.stdout.readline()
        return int(code or -1), output.read_text(), time.monotonic() - begin

    def close(self):
        self.bash.stdin.close()
        self.bash.wait()
        self.bash.stdout.close()


def stand_in(folder, build):
    """What a clone has after its build, without copying either."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in ROOT.iterdir():
        if not entry.name.startswith(".") and entry.name not in ("build", "dev"):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").mkdir()
    (folder / "build/default").symlink_to(build.resolve())
    known = " ".join(re.findall(r"^  ([a-z]+)\)", (ROOT / "dev").read_text(), re.M))
    dev = folder / "dev"
    dev.write_text(f'#!/bin/sh\ncase " {known} " in *" $1 "*) ;; *) exit 2 ;; esac\n')
    dev.chmod(0o755)


def follow(page, folder, scratch):
    """Does the steps; gives back each command with its section and seconds."""
    shell = Shell(folder, scratch)
    taken = []
    try:
        for step in steps_of(page):
            if step.name:
                (folder / step.name).write_text(step.text)
                continue
            code, printed, seconds = shell.run(step.text)
            taken.append((step.section, step.text.strip(), seconds))
            fails = step.shown is not None and "error: " in step.shown
            if (code != 0) != fails or not (step.shown is None or fits(step.shown, printed)):
                sys.exit(f"{PAGE}: `{step.text.strip()}`: exit code {code}, prints\n{printed}")
    finally:
        shell.close()
    return taken


def is_build(command):
    return command.startswith("./dev ")


def report(taken):
    """A table as the page has it; gives back the seconds of all but the build."""
    print("| section | command | seconds |\n|---|---|---|")
    for section, command, seconds in taken:
        words = re.sub(r"\s+", " ", command.replace("\\\n", ""))
        shown = words if len(words) <= 60 else f"{words[:60].rsplit(' ', 1)[0]} …"
        print(f"| {section.split('.')[0]} | `{shown}` | {seconds:.2f} |")
    rest = sum(seconds for _, command, seconds in taken if not is_build(command))
    print(f"{len(taken)} commands, all but the build in {rest:.1f} s")
    return rest


def main():
    parser = argparse.ArgumentParser(description="Follow the tutorial and time its commands")
    parser.add_argument("--into", type=Path, help="folder for the clone; a temporary one if not given")
    parser.add_argument("--built", type=Path, help="a build to take instead of the clone's own")
    parser.add_argument("--json", type=Path, help="write each command's seconds to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.into or Path(scratch) / "rnnc"
        if options.built:
            stand_in(folder, options.built)
            taken = []
        else:
            clone = ["git", "clone", "--quiet", ROOT.as_uri(), str(folder)]
            begin = time.monotonic()
            subprocess.run(clone, check=True)
            taken = [("", "git clone", time.monotonic() - begin)]
        taken += follow((ROOT / PAGE).read_text(), folder, Path(scratch))
    if options.json:
        options.json.write_text(json.dumps(
            [{"section": section, "command": command, "seconds": round(seconds, 3)}
             for section, command, seconds in taken], indent=1) + "\n")
    rest = report(taken)
    if rest > MOST_SECONDS:
        sys.exit(f"{PAGE} promises {MOST_SECONDS} s, its commands took {rest:.0f} s")


if __name__ == "__main__":
    main()
