"""Cells as Python functions: `@rnnc.cell`."""

import ast
import inspect
import re
import textwrap

KINDS = ("Input", "State", "Param")


class Input:
    """`x: Input[I]`, an input of the cell; see `cell`."""

    def __class_getitem__(cls, shape):
        return cls


class State(Input):
    """`h: State[H]`."""


class Param(Input):
    """`*, W: Param[H, I]`."""


class Definition:
    """The text of a cell that was written as a function, and where its lines come from."""

    def __init__(self, name, text, file, lines, columns):
        self.name, self.text, self.file = name, text, file
        self._lines, self._columns = lines, columns  # of the file, by the text's lines

    def locate(self, message):
        """Places in the text become places in the Python file."""

        def place(match):
            line, column = int(match[1]), int(match[2])
            if line > len(self._lines):
                return match[0]
            return f"{self.file}:{self._lines[line - 1]}:{column + self._columns[line - 1]}"

        return re.sub(r"^cell\.rnn:(\d+):(\d+)", place, message, flags=re.M)

    def __repr__(self):
        return f"<rnnc cell {self.name} of {self.file}:{self._lines[0]}>"


def cell(function):
    """A cell from a function that is read and never called:

        from __future__ import annotations   # so that I and H need not be Python's

        @rnnc.cell
        def MGU(x: Input[I], h: State[H], *, W_f: Param[H, I], R_f: Param[H, H],
                W_n: Param[H, I], R_n: Param[H, H]) -> h:
            f = sigmoid(W_f @ x[t] + R_f @ h[t-1])
            n = tanh(W_n @ x[t] + R_n @ (f * h[t-1]))
            h[t] = (1 - f) * h[t-1] + f * n

    Each statement is an equation of the language (docs/language.md); `->` names the outputs. Gives what
    `rnnc.compile` takes; its errors point into the Python file. Raises a SyntaxError where a function
    is no cell.
    """
    source, first = inspect.getsourcelines(function)
    indent = len(source[0]) - len(source[0].lstrip())
    text = textwrap.dedent("".join(source))
    tree = ast.parse(text).body[0]
    file = inspect.getsourcefile(function)

    def refuse(node, words):
        line = first + node.lineno - 1
        raise SyntaxError(words, (file, line, node.col_offset + indent + 1, source[node.lineno - 1]))

    def declared(argument):
        note = argument.annotation
        kind = note.value if isinstance(note, ast.Subscript) else None
        kind = getattr(kind, "attr", None) or getattr(kind, "id", "")  # rnnc.Input, or Input
        if kind not in KINDS:
            refuse(argument, f"`{argument.arg}`: expected Input[…], State[…] or Param[…]")
        shape = note.slice.elts if isinstance(note.slice, ast.Tuple) else [note.slice]
        return kind, argument.arg, [ast.unparse(dim) for dim in shape], argument

    arguments = tree.args
    if arguments.vararg or arguments.kwarg or arguments.defaults or any(arguments.kw_defaults):
        refuse(tree, "a cell has no defaults and no * or ** arguments")
    declarations = [declared(a) for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    if tree.returns is None:
        refuse(tree, "`->` names the outputs of a cell: `-> h`, `-> (y, z)`")
    outputs = tree.returns.elts if isinstance(tree.returns, ast.Tuple) else [tree.returns]
    dims = dict.fromkeys(
        name for _, _, shape, _ in declarations for name in re.findall(r"[^\W\d]\w*", " ".join(shape))
    )
    inputs = ", ".join(f"{n}: [{', '.join(s)}]" for kind, n, s, _ in declarations if kind == "Input")
    head = f"[{', '.join(dims)}]" if dims else ""
    results = ", ".join(ast.unparse(output) for output in outputs)
    results = f"({results})" if len(outputs) > 1 else results
    lines = [(f"cell {tree.name}{head}({inputs}) -> {results} {{", tree)]
    for kind, name, shape, argument in declarations:
        if kind != "Input":
            lines.append((f"  {kind.lower()} {name}: [{', '.join(shape)}]", argument))
    for statement in tree.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # what says what the cell is
        if not isinstance(statement, ast.Assign):
            refuse(statement, "expected an equation: a cell's body is `name = …` and `state[t] = …`")
        one_line = statement.lineno == statement.end_lineno
        code = ast.get_source_segment(text, statement) if one_line else ast.unparse(statement)
        lines.append((f"  {code}", statement))
    lines.append(("}", tree))
    return Definition(
        tree.name,
        "".join(f"{line}\n" for line, _ in lines),
        file,
        [first + node.lineno - 1 for _, node in lines],
        [node.col_offset + indent - 2 if line.startswith("  ") else 0 for line, node in lines],
    )
