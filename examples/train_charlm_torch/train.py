"""Trains a character model in PyTorch, with any cell of examples/cells.

    python3 train.py --cell gru --out gru
    python3 train.py --cell gru --out gru --steps 500 --resume
    torchrun --nproc-per-node 2 train.py --cell gru --out gru

Under torchrun each process has a GPU, if there are any, and its part of the streams: losses and what
is written are as of one process, and a run that ended on two GPUs goes on with one.

The network, from characters to log-probabilities of the next one, is one text that rnnc
compiles. What `--out` holds, `rnnc run` takes: model.rnn and weights.safetensors. Needs torch, rnnc
and safetensors.
"""

import argparse
import math
import os
import re
import time
from pathlib import Path

import torch
from torch import distributed
from safetensors.torch import save_file
from torch.nn import functional

import rnnc.torch

EXAMPLES = Path(__file__).resolve().parents[1]
NETWORK = """
/// A dense layer.
cell Dense[I, O](x: [I]) -> y {{
  param W: [O, I]
  param b: [O]
  y = W @ x[t] + b
}}

/// Reads characters, of which there are V, and predicts the next one: log-probabilities.
network CharLM[V = {characters}, H = {hidden}, L = {layers}](x: int []) -> y {{
  y = one_hot(x, V)
  for l in 0..L {{ y = {cell}[H = H](y) }}
  y = log_softmax(Dense[O = V](y) as head)
}}
"""


def network_of(cell_text, **sizes):
    """The last cell of a text, in layers."""
    cell = re.findall(r"^cell (\w+)", cell_text, re.M)[-1]
    return cell_text + NETWORK.format(cell=cell, **sizes)


class Text:
    """A text as numbers; its last tenth is held out."""

    def __init__(self, text, batch, length):
        self.vocabulary = sorted(set(text))
        number = {character: n for n, character in enumerate(self.vocabulary)}
        numbers = torch.tensor([number[character] for character in text])
        end = len(numbers) * 9 // 10
        self.held_out = numbers[end:, None]
        self.length = length
        rows = (end - 1) // batch
        self.pieces = (rows - 1) // length
        if self.pieces < 1:
            raise SystemExit(f"{len(text)} characters are too few for --batch {batch} --length {length}")
        self._streams = numbers[: rows * batch].view(batch, rows).t()

    def piece(self, index):
        """[length + 1, batch]: parallel streams, each of which goes on where the last piece ended."""
        begin = index * self.length
        return self._streams[begin : begin + self.length + 1]


class Ranks:
    """The processes that train together: this one, or those that torchrun has started."""

    def __init__(self):
        self.count, self.rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
        if self.count > 1:
            distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")

    def parallel(self, model):
        return rnnc.torch.data_parallel(model) if self.count > 1 else model

    def own(self, tensor, axis):
        """This process's part of what is for all."""
        return tensor.tensor_split(self.count, axis)[self.rank].contiguous()

    def all(self, tensor):
        """The parts [B, ...] of all processes behind each other."""
        if self.count == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.count)]
        distributed.all_gather(parts, tensor.contiguous())
        return torch.cat(parts)

    def end(self):
        if self.count > 1:
            distributed.destroy_process_group()


class Trainer:
    """Truncated backpropagation through time. `model` takes characters [T, B] and `states`."""

    def __init__(self, model, text, rate, ranks):
        self.model, self.text, self.steps, self.states = model, text, 0, None
        self.ranks, self.parallel = ranks, ranks.parallel(model)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        self.device = next(model.parameters()).device

    def loss(self, model, piece, states):
        """Nats per character, and the last states."""
        piece = piece.to(self.device)
        y, states = model(piece[:-1], states=states)
        return functional.nll_loss(y.flatten(0, 1), piece[1:].flatten()), states

    def step(self, is_reported=True):
        """The mean loss, if `is_reported`, which waits for all processes; else this one's."""
        index = self.steps % self.text.pieces
        piece = self.ranks.own(self.text.piece(index), 1)
        loss, states = self.loss(self.parallel, piece, self.states if index > 0 else None)
        self.states = tuple(state.detach() for state in states)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.steps += 1
        loss = loss.detach()[None]
        return self.ranks.all(loss).mean().item() if is_reported else loss.item()

    @torch.no_grad()
    def evaluate(self):
        loss, _ = self.loss(self.model, self.text.held_out, None)
        return loss.item()

    def state_dict(self):
        """All processes call it, and have the same."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "states": tuple(self.ranks.all(state) for state in self.states),
            "steps": self.steps,
        }

    def load_state_dict(self, saved):
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.states = tuple(self.ranks.own(state, 0) for state in saved["states"])
        self.steps = saved["steps"]


@torch.no_grad()
def write(model, vocabulary, count, device):
    """Lets the model write, one character after the other."""
    number, states, characters = torch.zeros(1, 1, dtype=torch.long), None, []
    for _ in range(count):
        y, states = model(number.to(device), states=states)
        number = torch.multinomial(y[0].exp().cpu(), 1)
        characters.append(vocabulary[number.item()])
    return "".join(characters)


def save(trainer, network, folder):
    """All that a run needs to go on, and the weights under the names that the text gives them."""
    checkpoint, state = folder / "checkpoint.pt", trainer.state_dict()
    if trainer.ranks.rank > 0:
        return
    torch.save({"network": network, **state}, f"{checkpoint}.new")
    os.replace(f"{checkpoint}.new", checkpoint)
    weights = {name: tensor.cpu().contiguous() for name, tensor in trainer.model.state_dict().items()}
    save_file(weights, folder / "weights.safetensors")


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cell", default="lstm", help="of examples/cells, or a .rnn file")
    parser.add_argument("--text", type=Path, default=EXAMPLES / "char_model/excerpt.txt")
    parser.add_argument("--out", type=Path, required=True, help="a folder for what was trained")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16, help="streams of the text, side by side")
    parser.add_argument("--length", type=int, default=64, help="characters of each between updates")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rate", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", help="default: the CPU, or under torchrun a GPU each")
    parser.add_argument("--report", type=int, default=50, help="steps from one report to the next")
    parser.add_argument("--resume", action="store_true", help="go on from what --out holds")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = options_of(arguments)
    ranks = Ranks()
    if options.batch % ranks.count != 0:
        raise SystemExit(f"--batch {options.batch} is no multiple of {ranks.count} processes")
    if options.device is None:
        options.device = rnnc.torch.rank_device() if ranks.count > 1 else "cpu"
    torch.manual_seed(options.seed)
    text = Text(options.text.read_text(encoding="utf-8"), options.batch, options.length)
    cell = Path(options.cell)
    if not cell.suffix:
        cell = EXAMPLES / f"cells/{cell}.rnn"
    network = network_of(
        cell.read_text(encoding="utf-8"),
        characters=len(text.vocabulary),
        hidden=options.hidden,
        layers=options.layers,
    )
    model = rnnc.torch.Cell(network, "CharLM", device=options.device)
    trainer = Trainer(model, text, options.rate, ranks)
    options.out.mkdir(parents=True, exist_ok=True)
    if ranks.rank == 0:
        (options.out / "model.rnn").write_text(network, encoding="utf-8")
    if options.resume:
        saved = torch.load(options.out / "checkpoint.pt", map_location=options.device)
        if saved["network"] != network:
            raise SystemExit(f"{options.out} holds another network")
        trainer.load_state_dict(saved)

    report = print if ranks.rank == 0 else lambda line: None
    begin = time.perf_counter()
    while trainer.steps < options.steps:
        is_reported = (trainer.steps + 1) % options.report == 0 or trainer.steps + 1 == options.steps
        loss = trainer.step(is_reported)
        if is_reported:
            save(trainer, network, options.out)
            bits, seconds = loss / math.log(2), time.perf_counter() - begin
            report(f"step {trainer.steps}/{options.steps}  {bits:.3f} bits per character  {seconds:.1f} s")
    if ranks.rank == 0:
        print(f"held out: {trainer.evaluate() / math.log(2):.3f} bits per character")
        print(write(model, text.vocabulary, 200, options.device))
    ranks.end()


if __name__ == "__main__":
    main()
