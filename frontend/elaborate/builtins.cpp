#include "frontend/elaborate/builtins.h"

#include <algorithm>
#include <array>

namespace rnnc {
namespace {

constexpr Builtin plain(std::string_view name, Op op, std::string_view usage, size_t count = 1) {
  return {name, Builtin::Kind::Plain, count, count, usage, op};
}

constexpr auto kBuiltins = std::to_array<Builtin>({
    plain("sigmoid", Op::Sigmoid, "sigmoid(v)"),
    plain("tanh", Op::Tanh, "tanh(v)"),
    plain("relu", Op::Relu, "relu(v)"),
    plain("exp", Op::Exp, "exp(v)"),
    plain("log", Op::Log, "log(v)"),
    plain("log1p", Op::Log1p, "log1p(v)"),
    plain("expm1", Op::Expm1, "expm1(v)"),
    plain("sqrt", Op::Sqrt, "sqrt(v)"),
    plain("rsqrt", Op::Rsqrt, "rsqrt(v)"),
    plain("abs", Op::Abs, "abs(v)"),
    plain("sign", Op::Sign, "sign(v)"),
    plain("floor", Op::Floor, "floor(v)"),
    plain("round", Op::Round, "round(v)"),
    plain("stop_gradient", Op::StopGradient, "stop_gradient(v)"),
    plain("softplus", Op::Softplus, "softplus(v)"),
    plain("silu", Op::Silu, "silu(v)"),
    plain("gelu", Op::Gelu, "gelu(v)"),
    plain("elu", Op::Elu, "elu(v)"),
    plain("erf", Op::Erf, "erf(v)"),
    plain("sin", Op::Sin, "sin(v)"),
    plain("cos", Op::Cos, "cos(v)"),
    plain("pow", Op::Pow, "pow(base, exponent)", 2),
    plain("mod", Op::Mod, "mod(v, divisor)", 2),
    plain("where", Op::Where, "where(condition, a, b)", 3),
    plain("clamp", Op::Clamp, "clamp(v, low, high)", 3),
    {"min", Builtin::Kind::MinMax, 1, 2, "min(v)` or `min(a, b)", Op::Min, Op::ReduceMin},
    {"max", Builtin::Kind::MinMax, 1, 2, "max(v)` or `max(a, b)", Op::Max, Op::ReduceMax},
    plain("sum", Op::Sum, "sum(v)"),
    plain("mean", Op::Mean, "mean(v)"),
    plain("var", Op::Var, "var(v)"),
    {"dot", Builtin::Kind::Dot, 2, 2, "dot(a, b)", Op::Mul, Op::Sum},
    {"concat", Builtin::Kind::Plain, 1, 255, "concat(a, b)", Op::Concat},
    plain("transpose", Op::Transpose, "transpose(W)"),
    {"step", Builtin::Kind::Step, 0, 0, "step()"},
    {"one_hot", Builtin::Kind::OneHot, 2, 2, "one_hot(token, V)"},
    {"eye", Builtin::Kind::Eye, 1, 1, "eye(H)"},
    {"range", Builtin::Kind::Range, 1, 1, "range(N)"},
    {.name = "zeros",
     .kind = Builtin::Kind::Fill,
     .most = 2,
     .usage = "zeros(H)` or `zeros(H, I)",
     .number = 0},
    {.name = "ones",
     .kind = Builtin::Kind::Fill,
     .most = 2,
     .usage = "ones(H)` or `ones(H, I)",
     .number = 1},
});

}  // namespace

std::span<const Builtin> builtins() {
  return kBuiltins;
}

const Builtin* find_builtin(std::string_view name) {
  const auto* found = std::ranges::find(kBuiltins, name, &Builtin::name);
  return found == kBuiltins.end() ? nullptr : found;
}

}  // namespace rnnc
