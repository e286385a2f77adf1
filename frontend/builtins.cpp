#include "frontend/builtins.h"

#include <algorithm>
#include <array>

namespace rnnc {
namespace {

using Kind = Builtin::Kind;

constexpr Builtin scalar(std::string_view name, Op op, std::string_view usage, size_t count = 1) {
  return {name, Kind::Scalar, count, count, usage, op, Op::Constant};
}

constexpr Builtin reduction(std::string_view name, Op op, std::string_view usage) {
  return {name, Kind::Reduction, 1, 1, usage, op, Op::Constant};
}

constexpr Builtin later(std::string_view name, Kind kind, size_t fewest, size_t most,
                        std::string_view usage, std::string_view instead) {
  return {name, kind, fewest, most, usage, Op::Constant, Op::Constant, instead};
}

constexpr auto kBuiltins = std::to_array<Builtin>({
    scalar("sigmoid", Op::Sigmoid, "sigmoid(v)"),
    scalar("tanh", Op::Tanh, "tanh(v)"),
    scalar("relu", Op::Relu, "relu(v)"),
    scalar("exp", Op::Exp, "exp(v)"),
    scalar("log", Op::Log, "log(v)"),
    scalar("log1p", Op::Log1p, "log1p(v)"),
    scalar("expm1", Op::Expm1, "expm1(v)"),
    scalar("sqrt", Op::Sqrt, "sqrt(v)"),
    scalar("rsqrt", Op::Rsqrt, "rsqrt(v)"),
    scalar("abs", Op::Abs, "abs(v)"),
    scalar("sign", Op::Sign, "sign(v)"),
    scalar("floor", Op::Floor, "floor(v)"),
    scalar("softplus", Op::Softplus, "softplus(v)"),
    scalar("silu", Op::Silu, "silu(v)"),
    scalar("gelu", Op::Gelu, "gelu(v)"),
    scalar("elu", Op::Elu, "elu(v)"),
    scalar("erf", Op::Erf, "erf(v)"),
    scalar("sin", Op::Sin, "sin(v)"),
    scalar("cos", Op::Cos, "cos(v)"),
    scalar("pow", Op::Pow, "pow(base, exponent)", 2),
    scalar("mod", Op::Mod, "mod(v, divisor)", 2),
    scalar("where", Op::Where, "where(condition, a, b)", 3),
    scalar("clamp", Op::Clamp, "clamp(v, low, high)", 3),
    {"min", Kind::MinMax, 1, 2, "min(v)` or `min(a, b)", Op::Min, Op::ReduceMin},
    {"max", Kind::MinMax, 1, 2, "max(v)` or `max(a, b)", Op::Max, Op::ReduceMax},
    reduction("sum", Op::Sum, "sum(v)"),
    reduction("mean", Op::Mean, "mean(v)"),
    reduction("var", Op::Var, "var(v)"),
    {"dot", Kind::Dot, 2, 2, "dot(a, b)", Op::Mul, Op::Sum},
    later("concat", Kind::NotCompiled, 1, 255, "concat(a, b)",
          "`W @ concat(a, b)` is `U @ a + V @ b`"),
    later("transpose", Kind::NotCompiled, 1, 1, "transpose(W)", "`transpose(W) @ v` is `v @ W`"),
    later("eye", Kind::NotCompiledDims, 1, 1, "eye(H)", "`eye(H) @ v` is `v`"),
    later("zeros", Kind::NotCompiledDims, 1, 3, "zeros(H)", "scalars broadcast: write `0`"),
    later("ones", Kind::NotCompiledDims, 1, 3, "ones(H)", "scalars broadcast: write `1`"),
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
