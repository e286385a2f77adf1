"""`python -m rnnc.convert model.onnx -o FOLDER`: an ONNX model as model.rnn, weights.npz, model.json."""

import argparse
import sys

import numpy

from rnnc._library import Error
from rnnc.convert import ConvertError, from_onnx
from rnnc.convert.problems import printable


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m rnnc.convert", description=__doc__.split(":", 1)[1])
    parser.add_argument("model", help="an ONNX model")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the files go")
    parser.add_argument(
        "--constant",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="the value of an input that is weights",
    )
    options = parser.parse_args(arguments)
    try:
        constants = dict(_constant(text) for text in options.constant)
        converted = from_onnx(options.model, constants)
        converted.compile()
        converted.save(options.output)
    except ConvertError as error:
        return _fail("\n".join(error.problems))
    except (Error, ImportError, OSError, ValueError) as error:
        return _fail("\n".join(printable(line) for line in str(error).splitlines()))
    print(command(converted))
    return 0


def _constant(text):
    name, equals, path = text.partition("=")
    if not equals:
        raise ValueError(f"--constant {text}: expected NAME=FILE.npy")
    return name, numpy.load(path, allow_pickle=False)


def _fail(text):
    for line in text.splitlines():
        print(f"rnnc.convert: error: {line}", file=sys.stderr)
    return 1


def command(converted):
    """The command that runs what was written."""
    words = ["rnnc run model.rnn --cell Model --weights weights.npz"]
    words += [f"--input {i.argument}={i.argument}.npy" for i in converted.inputs if i.argument]
    if converted.lengths is not None:
        words.append("--lengths lengths.npy")
    words += [f"--init {state}={state}_0.npy" for state in converted.starts]
    for output in converted.outputs:
        flag = "--final" if output.kind == "states" else "--output"
        words += [f"{flag} {source}={source}.npy" for source in output.sources]
    return " ".join(words)


if __name__ == "__main__":
    sys.exit(main())
