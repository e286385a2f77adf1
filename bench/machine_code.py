"""Whether two programs make the same machine code of what they compile for a GPU.

    python3 bench/machine_code.py --beside OLD_RNNC [--only REGEX] [--memo FILE]

For changes of generated CUDA that are meant to change its text alone: other names, types instead
of numbers, comments. Sources and options are those of text_hashes.py that are for a GPU. Both
programs emit CUDA; where the texts differ, NVRTC compiles both for sm_90 (without a GPU), and the
cubins' sections are compared byte by byte: instructions, constants, and what a launch needs
(registers, shared memory, parameters). Symbols' names and where things stand in the file are left
out. Prints which differ; exit code 1 if any do. --memo keeps hashes of machine code by hash of the
text, so that a text need not be compiled again.
"""

import argparse
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import rnnc_command
from text_hashes import CUDA, ROOT, all_texts, make_text, name_of

# Not `.nv.global*` and `.nv.constant4`: numbers that types name, and where they are. Code that uses one
# says which, so that it differs where the number's place does.
CODE = re.compile(r"\.(text|nv\.constant[0-3]|nv\.shared|nv\.info)")
PARAM_CBANK = 0x0A  # attribute of a function: where its parameters are
NO_BYTES = 8  # the type of sections that have a size alone


def sections(cubin):
    """The sections of an ELF file that make its machine code: (name, bytes), or a size for bytes."""
    table, = struct.unpack_from("<Q", cubin, 0x28)
    entry_size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    entries = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * entry_size) for i in range(count)]
    strings = entries[names][4]
    for name, kind, _, _, offset, size, *_ in entries:
        name = cubin[strings + name:cubin.index(b"\0", strings + name)].decode()
        if CODE.match(name):
            yield name, str(size).encode() if kind == NO_BYTES else cubin[offset:offset + size]


def without_symbols(name, data):
    """What .nv.info sections say, without the numbers of symbols."""
    if not name.startswith(".nv.info"):
        return data
    attributes, at = [], 0
    while at < len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != 4:  # the value itself
            attributes.append(struct.pack("<BH", attribute, value))
            continue
        text = data[at:at + value]
        at += value
        # A symbol's number comes first.
        has_symbol = name == ".nv.info" or attribute == PARAM_CBANK
        attributes.append(bytes([attribute]) + (text[4:] if has_symbol else text))
    return b"\0".join(sorted(attributes))


def compile_code(rnnc, job):
    """A hash for each section of the machine code, or the compiler's error."""
    _, words, dims, options = job
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "code.cubin"
        options = options | {"as": "cubin", "arch": "sm_90", "output": cubin}
        command = rnnc_command(rnnc, ["emit", *words], dims, options)
        result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        if result.returncode != 0:
            return {"error": result.stderr}
        return {name: hashlib.sha256(without_symbols(name, data)).hexdigest()[:16]
                for name, data in sections(cubin.read_bytes())}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rnnc", default=str(ROOT / "build/default/tools/rnnc"))
    parser.add_argument("--beside", required=True, metavar="OLD_RNNC")
    parser.add_argument("--only", help="names that match this regular expression")
    parser.add_argument("--memo", type=Path, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    arguments.normalise = False
    known = {}
    if arguments.memo and arguments.memo.exists():
        known = dict(json.loads(line) for line in arguments.memo.read_text().splitlines())
    compared_texts = set()

    def code_of(rnnc, text, job):
        key = hashlib.sha256(text.encode()).hexdigest()
        if key not in known:
            known[key] = compile_code(rnnc, job)
            if arguments.memo:
                with arguments.memo.open("a") as memo:
                    memo.write(json.dumps([key, known[key]]) + "\n")
        return known[key]

    def compare(job):
        old, new = (make_text(arguments, rnnc, "cuda", job)
                    for rnnc in (arguments.beside, arguments.rnnc))
        if old == new:
            return "same text", []
        if (old, new) in compared_texts:
            return "same as another", []
        compared_texts.add((old, new))
        codes = [code_of(rnnc, text, job)
                 for rnnc, text in ((arguments.beside, old), (arguments.rnnc, new))]
        if "error" in codes[1]:
            return "error", [codes[1]["error"][:500]]
        differing = [name for name in sorted(codes[0].keys() | codes[1].keys())
                     if codes[0].get(name) != codes[1].get(name)]
        return ("differs" if differing else "same code"), differing

    jobs = [job for job in all_texts() if job[0] == CUDA]
    jobs = [job for job in jobs if not arguments.only or re.search(arguments.only, name_of(job))]
    counts = {}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for job, (outcome, lines) in zip(jobs, pool.map(compare, jobs)):
            counts[outcome] = counts.get(outcome, 0) + 1
            if lines:
                print(f"{name_of(job)}: {outcome}: {', '.join(lines)}", flush=True)
    print(", ".join(f"{outcome}: {count}" for outcome, count in counts.items()))
    return 1 if counts.get("differs", 0) + counts.get("error", 0) else 0


if __name__ == "__main__":
    sys.exit(main())
