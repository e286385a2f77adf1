"""Bits per character that PyTorch gets on the excerpt with the stored weights, in float64: what the
demo's own number stands beside. Writes torch_result.json. Needs torch and safetensors."""

import json
import math

import torch

from model import EXCERPT, FOLDER, VOCABULARY, encode, load_weights


def main():
    characters = encode(EXCERPT.read_text(encoding="ascii"), VOCABULARY.read_text(encoding="ascii"))
    with torch.no_grad():
        log_probability, _ = load_weights()(characters[:-1, None])
    nats = torch.nn.functional.nll_loss(log_probability[:, 0], characters[1:]).item()
    result = {
        "bits_per_character": nats / math.log(2),
        "predicted_characters": len(characters) - 1,
        "made_by": f"eval_torch.py, torch {torch.__version__.split('+')[0]}, float64",
    }
    (FOLDER / "torch_result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(result)


if __name__ == "__main__":
    main()
