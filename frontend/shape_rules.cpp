#include "frontend/shape_rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace rnnc {
namespace {

std::string does_not_fit(const std::string& whole, const Operand& left, const Operand& right) {
  return fmt::format("{} does not fit: {} is {}, {} is {}", whole, left.text, describe(left.type),
                     right.text, describe(right.type));
}

Misfit product_misfit(const std::string& whole, const Operand& left, const Operand& right) {
  for (const Operand& operand : {left, right}) {
    if (operand.type.is_scalar()) {
      return {fmt::format("{} does not fit: {} is a scalar", whole, operand.text),
              "a product with a scalar is written with `*`"};
    }
    if (operand.type.rank() > 2) {
      return {fmt::format("{} does not fit: {} is {}", whole, operand.text, describe(operand.type)),
              "`@` takes vectors and matrices"};
    }
  }
  std::string hint;
  if (infer_type(Op::MatMul, {right.type, left.type})) {
    hint = fmt::format("the other way round it fits: `{} @ {}`",
                       right.text.substr(1, right.text.size() - 2),
                       left.text.substr(1, left.text.size() - 2));
  } else {
    const std::string inner = left.type.shape.back().to_string();
    hint = fmt::format("with {} on the left, the right side must be [{}]{}", left.text, inner,
                       right.type.rank() == 2 ? fmt::format(" or [{}, …]", inner) : "");
  }
  return {does_not_fit(whole, left, right), hint};
}

Misfit elementwise_misfit(Op op, const std::string& whole, const Operand& left,
                          const Operand& right) {
  const bool matrix = left.type.rank() == 2 || right.type.rank() == 2;
  std::string hint;
  if (left.type.rank() != right.type.rank()) {
    hint = op == Op::Mul && matrix ? "the matrix product is written with `@`"
                                   : "shapes must be equal; only scalars broadcast";
  } else {
    for (size_t axis = 0; axis < left.type.rank(); ++axis) {
      const Dim& a = left.type.shape[axis];
      const Dim& b = right.type.shape[axis];
      if (a == b) continue;
      hint = fmt::format("{} and {} are different dims, even where their values agree",
                         a.to_string(), b.to_string());
      if (a.constant() && b.constant()) hint = "shapes must be equal; only scalars broadcast";
      break;
    }
  }
  return {does_not_fit(whole, left, right), hint};
}

}  // namespace

std::string describe(const Type& type) {
  return type.is_scalar() ? "a scalar" : to_string(type.shape);
}

Misfit misfit(Op op, const std::string& whole, const std::vector<Operand>& operands) {
  if (op == Op::MatMul) return product_misfit(whole, operands[0], operands[1]);
  if (is_reduction(op)) {
    return {
        fmt::format("{} goes over the feature axis, but {} is a scalar", whole, operands[0].text),
        ""};
  }
  const auto is_array = [](const Operand& operand) { return !operand.type.is_scalar(); };
  const auto first = std::ranges::find_if(operands, is_array);
  const auto other = std::find_if(first, operands.end(), [&](const Operand& operand) {
    return is_array(operand) && operand.type != first->type;
  });
  RNNC_CHECK(other != operands.end(), "{} fits", whole);
  return elementwise_misfit(op, whole, *first, *other);
}

std::optional<Misfit> dot_misfit(const std::string& whole, const std::vector<Operand>& operands) {
  const Operand& left = operands[0];
  const Operand& right = operands[1];
  if (left.type == right.type && !left.type.is_scalar()) return std::nullopt;
  return Misfit{does_not_fit(whole, left, right), "`dot` takes two vectors of one size"};
}

}  // namespace rnnc
