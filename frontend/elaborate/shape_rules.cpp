#include "frontend/elaborate/shape_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace rnnc {
namespace {

/// The matrix that the user sees in the blocks.
Type dense_type(const Operand& operand) {
  const Shape& shape = operand.type.shape;
  return operand.blocks ? Type{{shape[0] * shape[1], shape[0] * shape[2]}} : operand.type;
}

std::string describe(const Operand& operand) {
  const std::string text = describe(dense_type(operand));
  return operand.blocks ? fmt::format("{} in {} blocks", text, operand.type.shape[0].to_string())
                        : text;
}

std::string does_not_fit(const std::string& whole, const Operand& left, const Operand& right) {
  return fmt::format("{} does not fit: {} is {}, {} is {}", whole, left.text, describe(left),
                     right.text, describe(right));
}

Misfit product_misfit(const std::string& whole, const Operand& left, const Operand& right) {
  for (const Operand& operand : {left, right}) {
    if (operand.type.is_scalar()) {
      return {fmt::format("{} does not fit: {} is a scalar", whole, operand.text),
              "a product with a scalar is written with `*`"};
    }
    if (operand.type.rank() > 2 && !operand.blocks) {
      return {fmt::format("{} does not fit: {} is {}", whole, operand.text, describe(operand.type)),
              "`@` takes vectors and matrices"};
    }
  }
  if (left.type.rank() == 1 && right.type.rank() == 1) {
    const std::string a = without_backquotes(left.text);
    const std::string b = without_backquotes(right.text);
    return {fmt::format("{} multiplies two vectors: {} is {}, {} is {}", whole, left.text,
                        describe(left), right.text, describe(right)),
            fmt::format("element by element it is `{0} * {1}`, as a sum of these `dot({0}, {1})`",
                        a, b)};
  }
  const bool blocks = left.blocks || right.blocks;
  const std::string inner = dense_type(left).shape.back().to_string();
  std::string hint;
  if (blocks && (left.type.rank() > 1 && right.type.rank() > 1)) {
    return blocks_misfit(left.blocks ? left.text : right.text);
  }
  if (infer_type(Op::MatMul, {dense_type(right), dense_type(left)})) {
    hint = fmt::format("the other way round it fits: `{} @ {}`", without_backquotes(right.text),
                       without_backquotes(left.text));
  } else {
    hint = fmt::format("with {} on the left, the right side must be [{}]{}", left.text, inner,
                       right.type.rank() == 2 ? fmt::format(" or [{}, …]", inner) : "");
  }
  return {does_not_fit(whole, left, right), hint};
}

Misfit concat_misfit(const std::string& whole, const std::vector<Operand>& operands) {
  const Operand& first = operands.front();
  const auto other = std::ranges::find_if(operands, [&first](const Operand& operand) {
    return !infer_type(Op::Concat, {first.type, operand.type});
  });
  RNNC_CHECK(other != operands.end(), "{} fits", whole);
  return {does_not_fit(whole, first, *other), "all axes but the first must be equal"};
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

std::string without_backquotes(const std::string& quoted) {
  return quoted.substr(1, quoted.size() - 2);
}

std::vector<Equation> equations(const Shape& left, const Shape& right) {
  std::vector<Equation> result;
  if (left.size() != right.size()) return result;
  for (size_t axis = 0; axis < left.size(); ++axis) result.push_back({left[axis], right[axis]});
  return result;
}

std::vector<Equation> equations(Op op, const std::vector<Type>& operands) {
  if (op == Op::MatMul) {
    const Shape& left = operands[0].shape;
    const Shape& right = operands[1].shape;
    if (left.empty() || right.empty()) return {};
    if (left.size() == 3 && right.size() == 1) return {{left[0] * left[2], right[0]}};
    if (right.size() == 3 && left.size() == 1) return {{left[0], right[0] * right[1]}};
    return {{left.back(), right.front()}};
  }
  if (op != Op::Concat && !is_scalar(op)) return {};
  std::vector<Equation> result;
  const Type* first = nullptr;
  for (const Type& type : operands) {
    if (type.is_scalar()) continue;
    if (!first) first = &type;
    std::vector<Equation> axes = equations(first->shape, type.shape);
    if (axes.empty()) return {};
    if (op == Op::Concat) axes.erase(axes.begin());
    std::ranges::move(axes, std::back_inserter(result));
  }
  return result;
}

std::string describe(const Type& type) {
  return type.is_scalar() ? "a scalar" : to_string(type.shape);
}

std::string misfit_hint(const Shape& expected, const Type& found) {
  if (expected.size() != 1 || found.rank() != 1) {
    return fmt::format("expected is {}", describe(Type{expected}));
  }
  return fmt::format("`W @ v` with `param W: [{}, {}]` brings a vector there",
                     expected[0].to_string(), found.shape[0].to_string());
}

Misfit blocks_misfit(const std::string& operand) {
  return {fmt::format("{} is block-diagonal, which is only a side of `@` beside a vector", operand),
          "declared without `blocks`, a param may stand anywhere"};
}

Misfit misfit(Op op, const std::string& whole, const std::vector<Operand>& operands) {
  if (op == Op::MatMul) return product_misfit(whole, operands[0], operands[1]);
  const auto blocks = std::ranges::find_if(operands, &Operand::blocks);
  if (blocks != operands.end()) return blocks_misfit(blocks->text);
  if (op == Op::Concat) return concat_misfit(whole, operands);
  if (op == Op::Transpose) {
    return {fmt::format("{} does not fit: {} is {}", whole, operands[0].text,
                        describe(operands[0].type)),
            "only a matrix is transposed; `v @ W` multiplies a vector from the left"};
  }
  if (is_reduction(op)) {
    return {
        fmt::format("{} goes over the feature axis, but {} is a scalar", whole, operands[0].text),
        "of a scalar there is nothing to collect: leave it out"};
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
