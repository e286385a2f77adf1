"""Pages that are made of something else than a document."""

import csv
import html
import json
import re
import subprocess

COMMANDS_SHOWN = re.compile(r"^  ([a-z]+) {2,}\S", re.M)


def run(root, words, folder=None):
    """What `rnnc` prints, the one that was built."""
    words = [str(root / "build/default/tools/rnnc"), *words]
    return subprocess.run(words, cwd=folder or root, check=True, stdout=subprocess.PIPE, text=True).stdout


def command_page(root):
    help_text = run(root, ["help"])
    names = COMMANDS_SHOWN.findall(help_text.partition("Subcommands:")[2].partition("Examples:")[0])
    parts = ["# Every option\n", f"```text\n{help_text}```\n"]
    for name in names:
        parts.append(f"## rnnc {name}\n\n```text\n{run(root, ['help', name])}```\n")
    return "\n".join(parts)


def python_page(_root):
    modules = {
        "rnnc": "members: [cell, compile, devices, load_weights, save_weights, shipped, version, Array, Definition, "
        "Error, Explanation, Input, Param, Program, Result, State, WeightMap]",
        "rnnc.torch": "members: true",
        "rnnc.convert": "members: [from_onnx, Converted, ConvertError, keras_tensors, flax_tensors]",
    }
    parts = [f"::: {name}\n    options:\n      {options}\n" for name, options in modules.items()]
    return "# Python API\n\n" + "\n".join(parts)


def prose(lines):
    """Comments as Markdown: code that they indent stays code."""
    text = (
        html.escape("\n".join(lines), quote=False).replace("[", "\\[").replace("*", "\\*").replace("_", "\\_")
    )
    blocks = []
    for block in re.split(r"\n\s*\n", text):
        is_code = all(line.startswith("    ") for line in block.splitlines() if line.strip())
        if is_code and block.strip():
            code = html.unescape(block).replace("\\", "")
            blocks.append("```c\n" + re.sub("^    ", "", code, flags=re.M) + "\n```")
        else:
            blocks.append("\n".join(line.strip() for line in block.splitlines()))
    return "\n\n".join(blocks)


def c_page(root):
    """Sections of rnnc.h; each comment above what it is about."""
    text = (root / "runtime/capi/rnnc.h").read_text()
    about, _, rest = text.partition("*/")
    lines = [line.removeprefix("/*").removeprefix(" *").removeprefix(" ") for line in about.splitlines()]
    parts = ["# The C header\n", prose(lines)]
    rest = rest[rest.index("/* ---- ") : rest.rindex("#ifdef __cplusplus")]
    for section in re.split(r"^/\* ---- ", rest, flags=re.M)[1:]:
        title, _, body = section.partition(" ---- */\n")
        parts.append(f"## {title}\n")
        for comment, code in re.findall(r"(?:^/\*(.*?)\*/\n)?((?:^(?!/\*).*\n)*)", body, flags=re.M | re.S):
            if comment.strip():
                parts.append(prose([re.sub(r"^ \* ?", "", line).strip() for line in comment.splitlines()]))
            if code.strip():
                parts.append(f"```c\n{code.strip()}\n```")
    return "\n\n".join(parts) + "\n"


def cpp_page(root):
    """Of rnnc.hpp: each type and function that is not a detail, with the comment above it."""
    text = (root / "runtime/capi/rnnc.hpp").read_text()
    text = re.sub(r"namespace detail \{.*?\}  // namespace detail\n", "", text, flags=re.S)
    text = re.sub(r"^ private:\n.*?(?=^\};)", "", text, flags=re.M | re.S)
    about, _, rest = text.partition("#pragma once")
    parts = [
        "# The C++ header\n",
        prose([line.removeprefix("///").removeprefix(" ") for line in about.splitlines()]),
    ]
    comment, signature, in_type = [], "", False
    for line in rest.splitlines():
        stripped = line.strip()
        if stripped.startswith("///"):
            comment.append(stripped.removeprefix("///").strip())
            continue
        name = re.match(r"(?:class|struct) (\w+)", line)
        if name:
            parts += [f"## {name[1]}", prose(comment)]
            comment, in_type = [], True
        elif line.startswith("};"):
            in_type = False
        elif re.match(r"inline (?!namespace)|using " if not in_type else r"  [\w:<~]", line):
            parts.append(prose(comment))
            comment, signature = [], stripped
        elif signature:
            signature += " " + stripped
        end = re.search(r"\)(?: const)?(?: noexcept)?(?= :| \{)|;$", signature)
        if end:
            declared = signature[: end.end()].rstrip(";")
            parts.append(f"```cpp\n{declared};\n```")
            signature = ""
    return "\n\n".join(part for part in parts if part) + "\n"


def _times(root):
    """us a step on a CPU by cell, and of LSTM and GRU on a GPU by shape."""
    cpu = json.loads((root / "bench/results/cpu_cells_intel.json").read_text())
    with open(root / "bench/results/recurrences.tsv") as file:
        gpu = {row["name"]: row["us"] for row in csv.DictReader(file, delimiter="\t")}
    return cpu, {row["cell"]: row["us_per_step"]["rnnc"] for row in cpu["rows"]}, gpu


def gallery_page(root):
    """All shipped cells: what their files say of themselves, and what was measured."""
    cpu, times, gpu = _times(root)
    measured = json.loads((root / "docs/cells.json").read_text())["cells"]
    parts = [
        "# Gallery\n",
        "Every cell that rnnc carries, with its equations as its file has them. Accuracy is the greatest error "
        "against an independent float64 implementation ([all figures](../docs/cells.md)). Speed is us a step, "
        f"forward, of {cpu['batch']} sequences with {cpu['hidden']} units on {cpu['threads']} threads of an "
        f"{cpu['device'].replace('(R)', '')} (`bench/results/cpu_cells_intel.json`), and where it was measured of "
        "16 sequences with 1024 units in bf16 on an H200 (`bench/results/recurrences.tsv`).\n",
    ]
    for path in sorted((root / "examples/cells").glob("*.rnn")):
        text = path.read_text()
        name = re.findall(r"^(?:cell|network) (\w+)", text, re.M)[-1]
        about = re.search(r"((?:^///.*\n)+)(?=(?:cell|network) " + name + r"\b)", text, re.M)
        lines = (
            [line.removeprefix("///").removeprefix(" ") for line in about[1].splitlines()] if about else []
        )
        errors = [
            f"{column} {measured[name][column]['error']:.1e}"
            for column in ("CPU f32", "CPU f64", "GPU f32", "GPU bf16")
            if "error" in measured.get(name, {}).get(column, {})
        ]
        speeds = [f"CPU {times[name]:.3g}"] if name in times else []
        on_gpu = f"{path.stem} 1x16x1024 bf16"
        speeds += [f"H200 {float(gpu[on_gpu]):.3g}"] if on_gpu in gpu else []
        facts = (
            f"- **Accuracy**: {', '.join(errors) or 'not measured'}\n"
            f"- **us a step**: {', '.join(speeds) or 'not measured'}"
        )
        source = text[text.index(f"cell {name}") if f"cell {name}" in text else 0 :]
        parts.append(
            f"## {name}\n\n{prose(lines).replace('```c', '```text')}\n\n{facts}\n\n"
            f'```text title="examples/cells/{path.name}"\n{source}```\n'
        )
    return "\n".join(parts)


PAGES = {
    "gallery.md": gallery_page,
    "reference/c.md": c_page,
    "reference/command.md": command_page,
    "reference/cpp.md": cpp_page,
    "reference/python.md": python_page,
}
