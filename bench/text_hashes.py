"""Hashes of the texts that rnnc makes of what it ships, to see that a change of its code changes none.

    python3 bench/text_hashes.py --check [FILE]     # prints which texts differ; exit code 1 if any do
    python3 bench/text_hashes.py --write [FILE]     # after a change that is meant to change them
    python3 bench/text_hashes.py --beside OLD_RNNC  # compares two programs; --show prints the diffs

Of every cell and network of examples/: plans, LLVM's text and CUDA, for f32 and narrower types, with all
passes and without some, and of backward halves. Of every shape of recurrences.py,
bench/recurrences_list.tsv with it: plan and CUDA, backward halves with them. Plans for a CPU are made for AVX2 and for as many threads as this machine has, those for a GPU
for an H200 and sm_90. `--forms asm,ptx` compares machine code instead, `--normalise` numbers the
names of functions, labels and variables of ours in the order in which they come, so that what is
only renamed stays equal, and leaves out comments. With either, both programs are needed: --beside.
FILE (bench/text_hashes.txt) has a line for each source and its options: a hash for each form.
"""

import argparse
import difflib
import hashlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import rnnc_command
from recurrence_shapes import ROOT, parts

FILE = ROOT / "bench/text_hashes.txt"
CPU, CUDA = ("plan", "llvm", "asm"), ("plan", "cuda", "ptx")  # forms that each device has
DIMS = {"H": 96, "I": 80, "F": 80}
OTHER_DIM = 32
CPU_OPTIONS = [
    {"dtype": "f32", "batch": 1},
    {"dtype": "f64", "batch": 16},
    {"dtype": "f32", "batch": 3, "passes": "none"},
    {"dtype": "f32", "batch": 16, "backward": True},
]
CUDA_OPTIONS = [
    {"dtype": "f32", "batch": 1},
    {"dtype": "f32", "tf32": True, "batch": 16},
    {"dtype": "f32", "batch": 16, "passes": "-split"},
    {"dtype": "bf16", "batch": 16},
    {"dtype": "bf16", "batch": 1, "steps": 1},
    {"dtype": "f16", "batch": 64},
    {"dtype": "bf16", "batch": 3, "passes": "-resident"},
    {"dtype": "f32", "batch": 3, "passes": "none"},
    {"dtype": "bf16", "batch": 16, "backward": True},
    {"dtype": "f32", "tf32": True, "batch": 5, "backward": True},
]
STRATEGIES = ("block", "cluster", "grid", "hybrid", "split-k", "stacked")
LOOP_STRATEGIES = ("loop", "scan")  # of recurrences without products: on both devices
LINEAR = ("mingru.rnn", "minlstm.rnn", "rwkv4.rnn", "lru.rnn", "qrnn.rnn")
SYMBOLS = {
    "llvm": r"[%@](?!llvm\.)[\w.$-]+|^[\w.$-]+(?=:)",
    "asm": r"\brnnc_\w+|\.L[\w$.]+",
    "cuda": r"\brnnc_\w+|\b[a-z]{1,2}\d+(?:_\d+)*\b",
    "ptx": r"(?<![.%\w$])(?:rnnc_\w+|_Z\w+|\$L\w+)",
}
COMMENTS = {"llvm": r";.*", "asm": r"#.*", "cuda": r"//.*", "ptx": r"//.*"}


def shipped():
    """Words for `rnnc` and dims of each cell and network of examples/."""
    files = [file for folder in ("cells", "networks", "char_model", "embed_cpp")
             for file in sorted((ROOT / "examples" / folder).glob("*.rnn"))]
    for file in files:
        for name, dims in re.findall(r"^(?:cell|network) (\w+)(?:\[(.*?)\])?\(", file.read_text(),
                                     re.MULTILINE):
            names = [dim.strip() for dim in dims.split(",") if dim and "=" not in dim]
            yield ([file.relative_to(ROOT), "--cell", name],
                   {dim: DIMS.get(dim, OTHER_DIM) for dim in names})


def all_texts():
    """All that is hashed: the device's forms, and words, dims and options of `rnnc emit`."""
    cpu = {"steps": 100, "cpu-level": "avx2", "vector-bits": 256}
    for words, dims in shipped():
        for options in CPU_OPTIONS:
            yield CPU, words, dims, cpu | options
        if words[0].name in LINEAR:
            for strategy in LOOP_STRATEGIES:
                yield CPU, words, dims, cpu | CPU_OPTIONS[0] | {"strategy": strategy}
                yield CUDA, words, dims, {"steps": 100} | CUDA_OPTIONS[0] | {"strategy": strategy}
        for options in CUDA_OPTIONS:
            yield CUDA, words, dims, {"steps": 100} | options
    cases = dict.fromkeys(case for part in parts().values() for case in part)
    for case in cases:
        words, dims = case.source
        words = [word.relative_to(ROOT) if isinstance(word, Path) else word for word in words]
        options = {name: value for name, value in case.options.items() if name != "device"}
        yield CUDA, words, dims, options
        if case in parts()["table"] or case in parts()["list"]:
            yield CUDA, words, dims, options | {"backward": True}
        if case in parts()["table"]:
            for strategy in STRATEGIES:
                yield CUDA, words, dims, options | {"strategy": strategy}


def normalise(text, form):
    if form not in SYMBOLS:
        return text
    text = re.sub(COMMENTS[form], "", text)
    numbers = {}
    return re.sub(SYMBOLS[form], lambda name: f"${numbers.setdefault(name[0], len(numbers))}", text,
                  flags=re.MULTILINE)


def make_text(arguments, rnnc, form, job):
    """What `rnnc emit` prints, or its error."""
    forms, words, dims, options = job
    if form == "plan":  # which says itself whose it is
        options = {name: value for name, value in options.items()
                   if name not in ("cpu-level", "vector-bits")}
        options |= {"device": "cuda" if forms == CUDA else "cpu"}
    elif forms == CUDA:
        options = options | {"arch": "sm_90"}
    command = rnnc_command(rnnc, ["emit", *words], dims, options | {"as": form})
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if result.returncode < 0:
        raise SystemExit(f"{' '.join(command)}: signal {-result.returncode}")
    text = result.stderr if result.returncode else result.stdout
    return normalise(text, form) if arguments.normalise else text


def name_of(job):
    forms, words, dims, options = job
    name = " ".join(rnnc_command("cpu" if forms == CPU else "cuda", words, dims, options))
    name = re.sub(r"examples/|--cpu-level avx2 |--vector-bits 256 ?|--cell ", "", name)
    return re.sub(r"--dim |--", "", name).strip()


def hash_all(arguments):
    """For each name of texts: the hashes by form."""

    def line(job):
        hashes = {}
        for form in arguments.forms:
            if form in job[0]:
                text = make_text(arguments, arguments.rnnc, form, job)
                hashes[form] = hashlib.sha256(text.encode()).hexdigest()[:10]
        return name_of(job), hashes

    with ThreadPoolExecutor(arguments.jobs) as pool:
        return dict(line for line in pool.map(line, arguments.texts) if line[1])


def read_hashes(file):
    """The lines of a file, and for how many threads of a CPU it is."""
    threads, lines = 0, {}
    for line in file.read_text().splitlines():
        if line.startswith("#"):
            threads = int(re.search(r"\d+(?= threads)", line)[0])
            continue
        name, hashes = line.split("\t")
        lines[name] = dict(pair.split("=") for pair in hashes.split())
    return lines, threads


def check(arguments):
    known, threads = read_hashes(arguments.file)
    same_cpu = threads == os.cpu_count()
    if not same_cpu:
        print(f"plans for a CPU are left out: those of {arguments.file.name} are for {threads} threads")
    differing = compared = 0
    for name, hashes in hash_all(arguments).items():
        if name.startswith("cpu") and not same_cpu:
            continue
        for form, value in hashes.items():
            compared += 1
            if known.get(name, {}).get(form) != value:
                differing += 1
                print(f"{form}: {name}")
    missing = 0 if arguments.only else len(known) - len({name_of(job) for job in arguments.texts})
    print(f"{differing} of {compared} texts differ" + (f"; {missing} are gone" if missing else ""))
    return 1 if differing or missing else 0


def compare(arguments):
    """Both programs' texts, each with the other's."""

    def differences(job):
        found = []
        for form in arguments.forms:
            if form not in job[0]:
                continue
            old, new = (make_text(arguments, rnnc, form, job)
                        for rnnc in (arguments.beside, arguments.rnnc))
            lines = [] if old == new else list(difflib.unified_diff(
                old.splitlines(), new.splitlines(), "old", "new", lineterm="", n=1))
            found.append((f"{form}: {name_of(job)}", old == new, lines))
        return found

    differing = compared = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for found in pool.map(differences, arguments.texts):
            for name, equal, lines in found:
                compared += 1
                if not equal:
                    differing += 1
                    print(name, *(lines[:arguments.show] if arguments.show else []), sep="\n")
    print(f"{differing} of {compared} texts differ")
    return 1 if differing else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rnnc", default=str(ROOT / "build/default/tools/rnnc"))
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", nargs="?", const=FILE, type=Path, metavar="FILE")
    what.add_argument("--write", nargs="?", const=FILE, type=Path, metavar="FILE")
    what.add_argument("--beside", metavar="OLD_RNNC", help="another program, compared text by text")
    parser.add_argument("--forms", default="plan,llvm,cuda", type=lambda text: text.split(","))
    parser.add_argument("--normalise", action="store_true", help="number symbols, drop comments")
    parser.add_argument("--show", nargs="?", const=20, default=0, type=int, metavar="LINES",
                        help="with --beside: the first lines of each difference")
    parser.add_argument("--only", help="names that match this regular expression")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    arguments.file = arguments.check or arguments.write
    arguments.texts = [job for job in all_texts()
                       if not arguments.only or re.search(arguments.only, name_of(job))]
    if arguments.beside:
        return compare(arguments)
    if arguments.check:
        return check(arguments)
    lines = [f"{name}\t{' '.join(f'{form}={value}' for form, value in hashes.items())}\n"
             for name, hashes in hash_all(arguments).items()]
    arguments.file.write_text(f"# text_hashes.py; a CPU of {os.cpu_count()} threads\n" + "".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
