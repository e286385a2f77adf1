// The proof that updates are affine: its forms, evaluated at random points against the step itself,
// and what it refuses. Ranges against values at random points.
#include "passes/affine/affine_forms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "passes/affine/form_text.h"
#include "passes/affine/ranges.h"

namespace rnnc::test {
namespace {

using Kind = Instruction::Kind;

/// A step's body, a line at a time.
struct Body {
  std::vector<Instruction> instructions;
  std::vector<CarriedState> states;

  uint32_t load() { return add({.kind = Kind::Load, .operands = {}}); }
  uint32_t constant(double v) { return add({.kind = Kind::Constant, .value = v, .operands = {}}); }
  uint32_t op(Op op, std::vector<uint32_t> operands) {
    return add({.kind = Kind::Scalar, .op = op, .operands = std::move(operands)});
  }
  uint32_t state() {
    states.push_back({{load()}, 0});
    return states.back().loads[0];
  }
  void next(size_t state, uint32_t value) { states[state].next = value; }
  auto forms() const { return find_affine_forms(instructions, states); }

 private:
  uint32_t add(Instruction instruction) {
    instructions.push_back(std::move(instruction));
    return static_cast<uint32_t>(instructions.size() - 1);
  }
};

std::vector<double> evaluate_all(const std::vector<Instruction>& instructions,
                                 const std::vector<double>& loads) {
  std::vector<double> values;
  for (size_t id = 0; id < instructions.size(); ++id) {
    const Instruction& one = instructions[id];
    const auto operand = [&](size_t i) {
      return i < one.operands.size() ? values[one.operands[i]] : 0.0;
    };
    values.push_back(one.kind == Kind::Load ? loads[id]
                     : one.kind == Kind::Constant
                         ? one.value
                         : evaluate(one.op, operand(0), operand(1), operand(2)));
  }
  return values;
}

double applied(const ScanRound& round, size_t row, const std::vector<double>& values,
               const std::vector<CarriedState>& states) {
  double result = values[round.offsets[row]];
  for (size_t i = 0; i < round.states.size(); ++i) {
    const double a = values[round.coefficients[row * round.states.size() + i]];
    const double h = values[states[round.states[i]].loads[0]];
    if (round.semiring == Semiring::SumProduct) result += a * h;
    if (round.semiring == Semiring::MaxPlus) result = std::max(result, a + h);
    if (round.semiring == Semiring::MinPlus) result = std::min(result, a + h);
  }
  return result;
}

/// The forms give the next values, whatever is loaded, and ranges hold.
void expect_right(const Body& body) {
  const auto forms = body.forms();
  ASSERT_TRUE(forms.has_value()) << forms.error().why;
  const std::vector<Range> ranges = find_ranges(forms->instructions);
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, 2);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<double> loads(body.instructions.size());
    for (double& load : loads) load = normal(random);
    const std::vector<double> values = evaluate_all(forms->instructions, loads);
    size_t states = 0;
    for (const ScanRound& round : forms->rounds) {
      for (size_t row = 0; row < round.states.size(); ++row, ++states) {
        const double expected = values[body.states[round.states[row]].next];
        EXPECT_NEAR(applied(round, row, values, body.states), expected,
                    1e-9 * (1 + std::abs(expected)));
      }
    }
    EXPECT_EQ(states, body.states.size());
    for (size_t id = 0; id < values.size(); ++id) {
      if (std::isnan(values[id])) continue;
      EXPECT_GE(values[id], ranges[id].least) << id;
      EXPECT_LE(values[id], ranges[id].greatest) << id;
    }
  }
}

/// (f * h + i * n) / (f + i), with a reset in front: minLSTM.
Body min_lstm() {
  Body body;
  const uint32_t h = body.state();
  const uint32_t f = body.op(Op::Sigmoid, {body.load()});
  const uint32_t i = body.op(Op::Sigmoid, {body.load()});
  const uint32_t begun =
      body.op(Op::Where, {body.op(Op::Gt, {body.load(), body.constant(1)}), body.constant(0), h});
  const uint32_t sum =
      body.op(Op::Add, {body.op(Op::Mul, {f, begun}), body.op(Op::Mul, {i, body.load()})});
  body.next(0, body.op(Op::Div, {sum, body.op(Op::Add, {f, i})}));
  return body;
}

TEST(AffineForms, OfOneState) {
  const Body body = min_lstm();
  expect_right(body);
  const auto forms = body.forms();
  ASSERT_EQ(forms->rounds.size(), 1u);
  EXPECT_EQ(forms->rounds[0].semiring, Semiring::SumProduct);
}

TEST(AffineForms, SayWhetherCoefficientsAreAtMostOne) {
  const auto bounded = [](const auto& coefficient) {
    Body body;
    const uint32_t h = body.state();
    body.next(0, body.op(Op::Sub, {body.op(Op::Mul, {coefficient(body), h}), body.load()}));
    expect_right(body);
    return body.forms()->rounds[0].bounded;
  };
  const auto sigmoid = [](Body& b) { return b.op(Op::Sigmoid, {b.load()}); };
  EXPECT_TRUE(bounded(sigmoid));
  EXPECT_TRUE(bounded([](Body& b) { return b.op(Op::Tanh, {b.load()}); }));
  EXPECT_TRUE(bounded([&](Body& b) { return b.op(Op::Sub, {b.constant(1), sigmoid(b)}); }));
  // RG-LRU's: exp(-8 * softplus(p) * sigmoid(x)).
  EXPECT_TRUE(bounded([&](Body& b) {
    const uint32_t rate = b.op(Op::Mul, {b.constant(-8), b.op(Op::Softplus, {b.load()})});
    return b.op(Op::Exp, {b.op(Op::Mul, {rate, sigmoid(b)})});
  }));
  // What a maximum leaves; a share of two.
  EXPECT_TRUE(bounded([](Body& b) {
    const uint32_t u = b.load();
    return b.op(Op::Exp, {b.op(Op::Sub, {u, b.op(Op::Max, {b.load(), u})})});
  }));
  EXPECT_TRUE(bounded([&](Body& b) {
    const uint32_t f = sigmoid(b);
    return b.op(Op::Div, {f, b.op(Op::Add, {sigmoid(b), f})});
  }));
  EXPECT_FALSE(bounded([](Body& b) { return b.load(); }));
  EXPECT_FALSE(bounded([&](Body& b) { return b.op(Op::Add, {b.constant(1), sigmoid(b)}); }));
  EXPECT_FALSE(bounded([&](Body& b) { return b.op(Op::Div, {b.constant(1), sigmoid(b)}); }));
}

TEST(AffineForms, OfStatesThatNeedEachOtherAreOneRound) {
  Body body;  // a rotation that is damped
  const uint32_t u = body.state();
  const uint32_t v = body.state();
  const uint32_t a = body.load();
  const uint32_t b = body.load();
  const auto times = [&](uint32_t x, uint32_t y) { return body.op(Op::Mul, {x, y}); };
  body.next(0, body.op(Op::Sub, {body.op(Op::Sub, {times(a, u), times(b, v)}), body.load()}));
  body.next(1,
            body.op(Op::Add, {times(b, u), body.op(Op::Neg, {body.op(Op::Neg, {times(a, v)})})}));
  expect_right(body);
  ASSERT_EQ(body.forms()->rounds.size(), 1u);
  EXPECT_EQ(body.forms()->rounds[0].states.size(), 2u);
  EXPECT_FALSE(body.forms()->rounds[0].bounded);
}

TEST(AffineForms, OfStatesThatFeedOthersAreRoundsInOrder) {
  Body body;  // h needs v, and v nothing; w is h a step ago
  const uint32_t h = body.state();
  const uint32_t v = body.state();
  body.state();
  const uint32_t next = body.op(Op::Add, {body.op(Op::Mul, {body.load(), v}), body.load()});
  // A product of two states is a coefficient if one of them comes before.
  body.next(0, body.op(Op::Add, {body.op(Op::Mul, {body.op(Op::Tanh, {next}), h}), v}));
  body.next(1, next);
  body.next(2, h);
  expect_right(body);
  const auto forms = body.forms();
  ASSERT_EQ(forms->rounds.size(), 3u);
  EXPECT_EQ(forms->rounds[0].states, std::vector<uint32_t>{1});
  EXPECT_EQ(forms->rounds[1].states, std::vector<uint32_t>{0});
  EXPECT_EQ(forms->rounds[2].states, std::vector<uint32_t>{2});
  EXPECT_TRUE(forms->rounds[1].bounded);
}

TEST(AffineForms, OfARunningMaximumAreOverMaxPlus) {
  for (const Op extreme : {Op::Max, Op::Min}) {
    Body body;  // RWKV-4's p, and a sum relative to it
    const uint32_t p = body.state();
    const uint32_t a = body.state();
    const uint32_t last = body.op(Op::Sub, {p, body.load()});
    const uint32_t k = body.load();
    const uint32_t next = body.op(extreme, {k, body.op(Op::Add, {last, body.load()})});
    const uint32_t kept = body.op(Op::Exp, {body.op(Op::Sub, {last, next})});
    body.next(0, body.op(Op::Where, {body.op(Op::Gt, {k, body.constant(1)}), next, p}));
    body.next(1, body.op(Op::Add, {body.op(Op::Mul, {kept, a}), k}));
    expect_right(body);
    const auto forms = body.forms();
    ASSERT_EQ(forms->rounds.size(), 2u);
    EXPECT_EQ(forms->rounds[0].semiring,
              extreme == Op::Max ? Semiring::MaxPlus : Semiring::MinPlus);
    EXPECT_EQ(forms->rounds[1].semiring, Semiring::SumProduct);
  }
}

TEST(AffineForms, WhatReluCutsOffIsOverMaxPlus) {
  Body body;  // a CUSUM, then a cut of what is raised
  const uint32_t h = body.state();
  const uint32_t cut = body.op(Op::Relu, {body.op(Op::Add, {h, body.load()})});
  body.next(0, body.op(Op::Relu, {body.op(Op::Sub, {cut, body.load()})}));
  expect_right(body);
  const auto forms = body.forms();
  ASSERT_EQ(forms->rounds.size(), 1u);
  EXPECT_EQ(forms->rounds[0].semiring, Semiring::MaxPlus);
}

TEST(AffineForms, RefuseWhatIsNone) {
  const auto why = [](const auto& update) {
    Body body;
    const uint32_t h = body.state();
    body.next(0, update(body, h));
    const auto forms = body.forms();
    return forms ? "none" : forms.error().why;
  };
  const std::string nonlinear = " makes it nonlinear";
  EXPECT_EQ(why([](Body& b, uint32_t h) { return b.op(Op::Tanh, {h}); }), "tanh" + nonlinear);
  EXPECT_EQ(why([](Body& b, uint32_t h) { return b.op(Op::Mul, {h, h}); }),
            "mul of two of its own values" + nonlinear);
  EXPECT_EQ(why([](Body& b, uint32_t h) { return b.op(Op::Div, {b.load(), h}); }),
            "div by one of its own values" + nonlinear);
  EXPECT_EQ(why([](Body& b, uint32_t h) { return b.op(Op::Where, {h, h, b.load()}); }),
            "where on one of its own values" + nonlinear);
  // A maximum that is scaled, and one that a minimum follows, are of no one semiring.
  EXPECT_EQ(why([](Body& b, uint32_t h) {
              return b.op(Op::Mul, {b.load(), b.op(Op::Max, {h, b.load()})});
            }),
            "max" + nonlinear);
  EXPECT_EQ(why([](Body& b, uint32_t h) {
              return b.op(Op::Min, {b.load(), b.op(Op::Max, {h, b.load()})});
            }),
            "max" + nonlinear);
  // What no next value needs may be anything.
  EXPECT_EQ(why([](Body& b, uint32_t h) {
              b.op(Op::Tanh, {h});
              return b.op(Op::Neg, {h});
            }),
            "none");
}

TEST(AffineForms, OfMoreStatesThatNeedEachOtherAreNotLookedFor) {
  const auto ring = [](size_t count) {
    Body body;
    std::vector<uint32_t> states(count);
    for (uint32_t& state : states) state = body.state();
    for (size_t i = 0; i < count; ++i) {
      body.next(i, body.op(Op::Neg, {states[(i + 1) % count]}));
    }
    const auto forms = body.forms();
    return forms ? "none" : forms.error().why;
  };
  EXPECT_EQ(ring(kMostRoundStates), "none");
  EXPECT_EQ(ring(kMostRoundStates + 1), "17 of its states need each other");
}

TEST(AffineForms, AsText) {
  const Body body = min_lstm();
  const auto forms = body.forms();
  const auto name = [](uint32_t id) { return std::string(id == 2 ? "f" : id == 4 ? "i" : ""); };
  EXPECT_EQ(form_text(forms->instructions, forms->rounds[0], {"h"}, name),
            "h = ((f * where(gt(v5, 1), 0, 1)) / (f + i)) * h[t-1] + "
            "(i * v11) / (f + i)");
}

}  // namespace
}  // namespace rnnc::test
