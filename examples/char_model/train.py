"""Trains the character model on the King James Bible (public domain), as Debian ships it:

    apt install bible-kjv
    bible -f -l 0 gen1:1-rev22:21 > kjv.txt
    python3 train.py kjv.txt        # ten minutes on two CPU cores
    python3 eval_torch.py

Ecclesiastes is held out; it is `excerpt.txt`, the text of the demo. Writes the weights, the
vocabulary and the excerpt beside this script. Needs torch, numpy and safetensors.
"""

import argparse
import math
import time

import torch

from model import EXCERPT, VOCABULARY, CharLM, encode, read_books, save_weights

STREAMS, STEPS = 32, 128  # of a batch: parallel pieces of the text, and characters of each


def batches(characters):
    """Successive [STEPS + 1, STREAMS] pieces; each stream reads on where it stopped."""
    length = (len(characters) - 1) // STREAMS
    streams = characters[: length * STREAMS].view(STREAMS, length).t().contiguous()
    for begin in range(0, length - STEPS, STEPS):
        yield streams[begin : begin + STEPS + 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", help="the output of `bible -f -l 0 gen1:1-rev22:21`")
    parser.add_argument("--hidden", type=int, default=160)
    parser.add_argument("--epochs", type=int, default=6)
    arguments = parser.parse_args()

    torch.manual_seed(1)
    training, held_out = read_books(arguments.text)
    vocabulary = sorted(set(training + held_out))
    VOCABULARY.write_text("".join(vocabulary), encoding="ascii")
    EXCERPT.write_text(held_out, encoding="ascii")
    characters, held_out = encode(training, vocabulary), encode(held_out, vocabulary)

    model = CharLM(len(vocabulary), arguments.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    total = arguments.epochs * sum(1 for _ in batches(characters))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(1, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * step / total)),
    )

    begin, step = time.time(), 0
    for _ in range(arguments.epochs):
        state = None
        for piece in batches(characters):
            log_probability, state = model(piece[:-1], state)
            state = tuple(s.detach() for s in state)
            loss = torch.nn.functional.nll_loss(log_probability.flatten(0, 1), piece[1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            step += 1
            if step % 50 == 0 or step == total:
                bits = loss.item() / math.log(2)
                seconds = time.time() - begin
                print(
                    f"step {step}/{total}  {bits:.3f} bits per character  {seconds:.0f} s",
                    flush=True,
                )
        save_weights(model)

    with torch.no_grad():
        log_probability, _ = model(held_out[:-1, None])
        loss = torch.nn.functional.nll_loss(log_probability[:, 0], held_out[1:])
    print(f"held out: {loss.item() / math.log(2):.4f} bits per character")


if __name__ == "__main__":
    main()
