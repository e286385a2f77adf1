"""rnnc.torch's LSTM, GRU and RNN beside PyTorch's, by equal weights."""

import copy
import itertools
import unittest
import warnings
from unittest import mock

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

import rnnc.torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

KINDS = {nn.LSTM: rnnc.torch.LSTM, nn.GRU: rnnc.torch.GRU, nn.RNN: rnnc.torch.RNN}


def flat(results):
    """The tensors of a result, whatever its form."""
    if isinstance(results, torch.Tensor):
        return [results]
    return [tensor for part in results if part is not None for tensor in flat(part)]


class Layers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def compare(self, kind, x, hx=None, limit=1e-10, inputs=5, **arguments):
        """Results, and gradients by the input, given states and params."""
        theirs = kind(inputs, 4, **arguments).double()
        ours = KINDS[kind](inputs, 4, **arguments).double()
        ours.load_state_dict(theirs.state_dict())
        self.assertEqual(list(ours.state_dict()), list(theirs.state_dict()))
        results, gradients = [], []
        for module in (ours, theirs):
            given = [t.clone().requires_grad_() for t in flat(hx)] if hx is not None else []
            states = None if hx is None else tuple(given) if kind is nn.LSTM else given[0]
            data = copy.copy(x) if isinstance(x, tuple) else x.clone().requires_grad_()
            result = flat(module(data, states))
            torch.manual_seed(2)
            loss = sum((r * torch.randn(r.shape, dtype=r.dtype)).sum() for r in result
                       if r.is_floating_point())
            loss.backward()
            results.append(result)
            leaves = given + [p for _, p in module.named_parameters()]
            leaves += [data] if isinstance(data, torch.Tensor) and data.is_leaf else []
            gradients.append([leaf.grad for leaf in leaves])
        for a, b in zip(*results):
            self.assertEqual(a.shape, b.shape)
            self.assertLessEqual(float((a - b).detach().abs().max()), limit)
        for a, b in zip(*gradients):
            self.assertLessEqual(float((a - b).abs().max()), limit)

    def test_arguments(self):
        x = torch.randn(6, 3, 5, dtype=torch.float64)
        for kind in KINDS:
            for bias, batch_first, two_ways, layers in itertools.product(
                (True, False), (True, False), (True, False), (1, 2)
            ):
                with self.subTest(kind=kind, bias=bias, batch_first=batch_first, two_ways=two_ways):
                    self.compare(kind, x, bias=bias, batch_first=batch_first,
                                 bidirectional=two_ways, num_layers=layers)
        self.compare(nn.RNN, x, nonlinearity="relu")

    def test_layers_of_one_program(self):
        """The first wants no gradient by its input, the others do; one's params are frozen."""
        for kind in KINDS:
            self.compare(kind, torch.randn(6, 3, 4, dtype=torch.float64), inputs=4, num_layers=3)
            module = KINDS[kind](4, 4, num_layers=3)
            module.weight_hh_l1.requires_grad_(False)
            module(torch.randn(6, 3, 4))[0].sum().backward()
            self.assertIsNotNone(module.weight_hh_l0.grad)

    def test_states_are_given(self):
        x = torch.randn(6, 3, 5, dtype=torch.float64)
        for kind in KINDS:
            h = torch.randn(4, 3, 4, dtype=torch.float64)
            hx = (h, torch.randn_like(h)) if kind is nn.LSTM else h
            self.compare(kind, x, hx, num_layers=2, bidirectional=True)

    def test_one_sequence_without_a_batch(self):
        for kind in KINDS:
            self.compare(kind, torch.randn(6, 5, dtype=torch.float64))

    def test_packed_sequences(self):
        x = torch.randn(6, 3, 5, dtype=torch.float64)
        for kind in KINDS:
            for lengths, is_sorted in (([6, 4, 1], True), ([2, 6, 3], False)):
                packed = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=is_sorted)
                self.compare(kind, packed, bidirectional=True, num_layers=2)
                h = torch.randn(4, 3, 4, dtype=torch.float64)
                hx = (h, torch.randn_like(h)) if kind is nn.LSTM else h
                self.compare(kind, packed, hx, bidirectional=True, num_layers=2)
        packed = pack_padded_sequence(x.float(), torch.tensor([2, 6, 3]), enforce_sorted=False)
        with self.assertRaisesRegex(ValueError, "state h has shape"):
            rnnc.torch.GRU(5, 4)(packed, torch.zeros(1, 2, 4))

    def test_packed_sequences_of_equal_lengths(self):
        """Whose rows are where they would be without packing."""
        for batch, is_sorted in ((3, True), (3, False), (1, False), (1, True)):
            x = torch.randn(6, batch, 5, dtype=torch.float64)
            packed = pack_padded_sequence(x, torch.full((batch,), 6), enforce_sorted=is_sorted)
            for kind in KINDS:
                self.compare(kind, packed, bidirectional=True)
            module = rnnc.torch.GRU(5, 4).double()
            y = module(packed)[0]
            self.assertTrue(torch.equal(pad_packed_sequence(y)[0], module(x)[0]))

    def test_packed_sequences_stay_apart(self):
        """Their gradients, too, whatever one has in it."""
        x = torch.randn(6, 3, 5)
        module, lengths = rnnc.torch.LSTM(5, 4), torch.tensor([2, 6, 3])
        expected = module(pack_padded_sequence(x, lengths, enforce_sorted=False))[0]
        expected = pad_packed_sequence(expected)[0]
        for worst in (float("nan"), float("inf")):
            other = x.clone()
            other[:, 1] = worst
            other.requires_grad_()
            y, states = module(pack_padded_sequence(other, lengths, enforce_sorted=False))
            y = pad_packed_sequence(y)[0]
            self.assertTrue(torch.equal(y[:, ::2], expected[:, ::2]))
            self.assertTrue(states[0][0, ::2].isfinite().all())
            gradient = torch.autograd.grad(y[:, ::2].sum(), other)[0]
            self.assertTrue(gradient[:, ::2].isfinite().all())
            self.assertEqual(float(gradient[2:, 0].abs().max()), 0)

    def test_second_derivatives_of_packed_sequences(self):
        found, module = [], nn.GRU(3, 4, bidirectional=True).double()
        start = torch.randn(5, 3, 3, dtype=torch.float64)
        for model in (module, rnnc.torch.replace(copy.deepcopy(module))):
            x = start.clone().requires_grad_()
            y, h = model(pack_padded_sequence(x, torch.tensor([2, 5, 4]), enforce_sorted=False))
            loss = y.data.square().sum() + h.square().sum()
            gradients = torch.autograd.grad(loss, [x, *model.parameters()], create_graph=True)
            sum(g.square().sum() for g in gradients).backward()
            found.append([x.grad, *(p.grad for p in model.parameters())])
        for ours, theirs in zip(*found):
            self.assertLessEqual(float((ours - theirs).abs().max()), 1e-10)

    def test_packed_sequences_of_transforms(self):
        """By operations that they know: the derivative in a direction, by finite differences."""
        module = rnnc.torch.GRU(3, 4).double()
        packed = pack_padded_sequence(
            torch.randn(5, 3, 3, dtype=torch.float64), torch.tensor([2, 5, 4]), enforce_sorted=False
        )
        direction = torch.randn_like(packed.data)

        def run(data):
            return module(packed._replace(data=data))[0].data

        _, tangent = torch.func.jvp(run, (packed.data,), (direction,))
        with forward_ad.dual_level():
            dual = run(forward_ad.make_dual(packed.data, direction))
            self.assertTrue(torch.equal(forward_ad.unpack_dual(dual).tangent, tangent))
        step = 1e-6 * direction
        numeric = (run(packed.data + step) - run(packed.data - step)) / 2e-6
        self.assertLessEqual(float((tangent - numeric).detach().abs().max()), 1e-8)

    def test_packed_rows_of_more_axes(self):
        packed = pack_padded_sequence(torch.randn(6, 3, 2, 5), torch.tensor([6, 3, 2]))
        with self.assertRaisesRegex(ValueError, r"packed rows have shape \[11, 2, 5\], expected"):
            rnnc.torch.LSTM(5, 4)(packed)

    def test_packed_sequences_without_fast_views(self):
        """As with a PyTorch that has none; and gradients that begin somewhere in their memory."""
        x = torch.randn(5, 3, 3, requires_grad=True)
        lengths, module = torch.tensor([2, 5, 4]), rnnc.torch.GRU(3, 4)
        more = torch.randn(13, 4)[2:]
        found = []
        for view in (rnnc.torch.packed._viewed, rnnc.torch.packed._view):
            with mock.patch("rnnc.torch.packed._viewed", view):
                y, _ = module(pack_padded_sequence(x, lengths, enforce_sorted=False))
                found.append([y.data, *torch.autograd.grad(y.data, [x, *module.parameters()], more)])
        for tensors in zip(*found):
            self.assertTrue(torch.equal(*tensors))
        packing = rnnc.torch.packed.padded(pack_padded_sequence(x, lengths, enforce_sorted=False))[1]
        y = torch.randn(7, 3, 4)[2:]
        selected = rnnc.torch.packed._selected(packing, y)
        self.assertTrue(torch.equal(selected, y.flatten(0, 1)[packing.rows]))

    def test_packed_sequences_after_inference(self):
        """What is kept of a packing is good for gradients, too; and for the next layer."""
        x = torch.randn(6, 3, 5, dtype=torch.float64)
        with torch.inference_mode():
            packed = pack_padded_sequence(x, torch.tensor([2, 6, 3]), enforce_sorted=False)
        packed = packed._replace(data=packed.data.clone())
        first, second = rnnc.torch.GRU(5, 4).double(), rnnc.torch.GRU(4, 4).double()
        with torch.inference_mode():
            expected = second(first(packed)[0])
        y, h = second(first(packed)[0])
        self.assertTrue(torch.equal(y.data, expected[0].data))
        self.assertTrue(torch.equal(h, expected[1]))
        y.data.sum().backward()
        self.assertGreater(float(first.weight_ih_l0.grad.abs().min()), 0)
        self.assertIs(y.batch_sizes, packed.batch_sizes)

    def test_replace_keeps_parameters(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.GRU(5, 4, num_layers=2, dropout=0.5)
                self.head = nn.Linear(4, 2)

            def forward(self, x):
                return self.head(self.rnn(x)[0])

        model = Model().eval()
        x = torch.randn(3, 2, 5)
        expected, before = model(x), list(model.parameters())
        self.assertIs(rnnc.torch.replace(model), model)
        self.assertIs(type(model.rnn), rnnc.torch.GRU)
        self.assertTrue(all(a is b for a, b in zip(before, model.parameters())))
        self.assertLessEqual(float((model(x) - expected).detach().abs().max()), 1e-6)
        model.train()(x).sum().backward()
        self.assertIs(type(copy.deepcopy(model).rnn), rnnc.torch.GRU)

    def test_projections(self):
        x = torch.randn(6, 3, 5, dtype=torch.float64)
        for bias, two_ways, layers in itertools.product((True, False), (True, False), (1, 2)):
            more = dict(bias=bias, bidirectional=two_ways, num_layers=layers, proj_size=2)
            self.compare(nn.LSTM, x, **more)
            ways = layers * (2 if two_ways else 1)
            hx = (torch.randn(ways, 3, 2).double(), torch.randn(ways, 3, 4).double())
            packed = pack_padded_sequence(x, torch.tensor([2, 6, 3]), enforce_sorted=False)
            self.compare(nn.LSTM, packed, hx, **more)
        model = nn.LSTM(5, 4, 3, dropout=0.5, proj_size=2, bidirectional=True).double()
        torch.manual_seed(2)
        expected = model(x)
        torch.manual_seed(2)
        found = rnnc.torch.replace(model)(x)
        self.assertIs(type(model), rnnc.torch.LSTM)
        for ours, theirs in zip(flat(found), flat(expected)):
            self.assertLessEqual(float((ours - theirs).detach().abs().max()), 1e-10)
        model = model.eval()
        with warnings.catch_warnings():  # of vmap: the step as PyTorch operations
            warnings.simplefilter("ignore", rnnc.torch.ReferenceWarning)
            both = torch.func.vmap(lambda x: model(x)[0])(torch.stack([x, 2 * x]))
        self.assertLessEqual(float((both[1] - model(2 * x)[0]).detach().abs().max()), 1e-10)

    def test_parametrizations(self):
        """Of a module that has been replaced; one that has them is left alone."""
        x = torch.randn(6, 3, 5)
        module = rnnc.torch.replace(nn.LSTM(5, 4))
        expected = module(x)[0]
        parametrizations.weight_norm(module, "weight_hh_l0")
        self.assertLessEqual(float((module(x)[0] - expected).detach().abs().max()), 1e-6)
        module(x)[0].sum().backward()
        self.assertTrue(all(p.grad is not None for p in module.parameters()))
        other = nn.LSTM(5, 4)
        parametrizations.weight_norm(other, "weight_hh_l0")
        self.assertNotIsInstance(rnnc.torch.replace(other), rnnc.torch.LSTM)

    def test_what_is_not_there(self):
        with self.assertRaises(TypeError):
            rnnc.torch.GRU(5, 4, proj_size=2)
        for batch_first in (False, True):
            for module in (
                rnnc.torch.LSTM(5, 4, batch_first=batch_first),
                rnnc.torch.Cell("lstm", I=5, H=4, batch_first=batch_first),
            ):
                with self.assertRaisesRegex(ValueError, r"shape \[5\], expected \[T, B, 5\]"):
                    module(torch.zeros(5))
        with self.assertRaises(ValueError):
            rnnc.torch.LSTM(5, 4)(torch.randn(3, 2, 6))


if __name__ == "__main__":
    unittest.main()
