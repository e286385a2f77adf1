// An expression of a random kind, down to a depth where it is something that has a name. It comes
// with a bound of its absolute value, from which follows what may be done with it: what grows
// beyond kMostBound is squashed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/programs/body_writer.h"

namespace rnnc::test {

std::string BodyWriter::number() {
  static constexpr std::array kNumbers = {"0.5", "1", "0.3", "2", "1.25", "0.07", "1e-1"};
  if (!program_.consts.empty() && random_.chance(5)) return random_.pick(program_.consts);
  return random_.pick(kNumbers);
}

std::string BodyWriter::param(const std::string& shape, const std::string& suffix) {
  std::string name = fresh("p");
  if (!index_.empty() && random_.chance(2)) {
    params_ += fmt::format("  param {}[L]: [{}]{}\n", name, shape, suffix);
    return fmt::format("{}[{}]", name, index_);
  }
  if (random_.chance(8)) {
    params_ += fmt::format("  param {}[2]: [{}]{}\n", name, shape, suffix);
    return fmt::format("{}[{}]", name, random_.below(2));
  }
  params_ += fmt::format("  param {}: [{}]{}\n", name, shape, suffix);
  return name;
}

/// Squashed if it is too large.
Expression BodyWriter::within(Expression expression) const {
  if (expression.bound <= kMostBound) return expression;
  return {fmt::format("tanh({})", expression.text), 1};
}

Expression BodyWriter::leaf(Shape shape) {
  std::vector<const Variable*> fitting;
  for (const Variable& variable : variables_) {
    if (variable.shape == shape) fitting.push_back(&variable);
  }
  if (!fitting.empty() && !random_.chance(6)) {
    const Variable& variable = *random_.pick(fitting);
    return {variable.text, variable.bound};
  }
  if (random_.chance(8)) return of_token(shape);
  if (shape == Shape::Scalar && !network_ && random_.chance(4)) return of_step();
  if (shape == Shape::Scalar && random_.chance(2)) return {number(), 2};
  // Better something that varies over time than a param alone.
  const Variable& other = random_.pick(variables_);
  if (other.shape != Shape::Scalar && !random_.chance(4)) {
    const std::string sizes = shape == Shape::Scalar ? text_of(other.shape)
                                                     : text_of(shape) + ", " + text_of(other.shape);
    const char* const format = shape == Shape::Scalar ? "dot({}, {})" : "{} @ {}";
    return within({fmt::format(fmt::runtime(format), param(sizes), other.text),
                   other.bound * program_.size_of(other.shape) / 2});
  }
  return {param(text_of(shape)), 1};
}

/// The name of the input of integers, which its first use declares.
std::string BodyWriter::token() {
  if (token_.empty()) {
    token_ = fresh("k");
    inputs_ += fmt::format(", {}: int []", token_);
    callable_.token = true;
  }
  return network_ ? token_ : token_ + "[t]";
}

/// A row of a table.
Expression BodyWriter::of_token(Shape shape) {
  const auto rows = std::to_string(kTokens + random_.below(3));
  const std::string size = text_of(shape);
  if (shape == Shape::Scalar) return {fmt::format("{}[{}]", param(rows), token()), 1};
  switch (random_.below(4)) {
    case 0:
      return {fmt::format("{} @ one_hot({}, {})", param(size + ", " + rows), token(), rows), 1};
    case 1:
      return {fmt::format("transpose({})[{}]", param(size + ", " + rows), token()), 1};
    default:
      return {fmt::format("{}[{}]", param(rows + ", " + size), token()), 1};
  }
}

/// Of the step's number.
Expression BodyWriter::of_step() {
  static constexpr std::array kTexts = {"sin(0.3 * step())", "0.3 * mod(step(), 3)",
                                        "where(mod(step(), 2) == 0, 1, -0.5)", "1 / (2 + step())"};
  return {random_.pick(kTexts), 1};
}

Expression BodyWriter::expression(Shape shape, int depth) {
  if (depth <= 0) return leaf(shape);
  switch (random_.below(9)) {
    case 0:
    case 1:
      return within(unary(shape, depth - 1));
    case 2:
    case 3:
      return within(binary(shape, depth - 1));
    case 4:
      return within(choice(shape, depth - 1));
    case 5:
      return within(shape == Shape::Scalar ? reduction(depth - 1) : product(shape, depth - 1));
    case 6:
      return within(structure(shape, depth - 1));
    case 7:
      return within(function(shape, depth - 1));
    default:
      return leaf(shape);
  }
}

Expression BodyWriter::unary(Shape shape, int depth) {
  struct Function {
    const char* format;
    double bound;  // negative: times the operand's
  };
  static constexpr std::array kFunctions = {
      Function{"sigmoid({})", 1},
      Function{"tanh({})", 1},
      Function{"relu({})", -1},
      Function{"sin({})", 1},
      Function{"cos({})", 1},
      Function{"erf({})", 1},
      Function{"softplus({})", -1.2},
      Function{"silu({})", -1},
      Function{"gelu({})", -1},
      Function{"elu({})", -1.2},
      Function{"abs({})", -1},
      Function{"-({})", -1},
      Function{"sqrt(1 + abs({}))", -1},
      Function{"rsqrt(0.5 + abs({}))", 1.5},
      Function{"log(0.5 + abs({}))", 3},
      Function{"log1p(abs({}))", 3},
      Function{"exp(tanh({}))", 3},
      Function{"expm1(sigmoid({}))", 2},
      Function{"clamp({}, -0.5, 2)", 2},
      Function{"1 / (1.5 + abs({}))", 1},
      Function{"mish({})", -1},
      Function{"softsign({})", 1},
      Function{"logsigmoid({})", -1.2},
      Function{"leaky_relu({}, 0.1)", -1},
  };
  if (random_.chance(8)) {
    static constexpr std::array kJumps = {"sign({} - 0.3)", "floor({} * 3 + 0.11)",
                                          "mod({} + 0.01, 0.7)", "round({} * 3 + 0.11)"};
    return {fmt::format(fmt::runtime(random_.pick(kJumps)), jumping_operand(shape)), 4};
  }
  const Function& chosen = random_.pick(kFunctions);
  const Expression operand = expression(shape, depth);
  return {fmt::format(fmt::runtime(chosen.format), operand.text),
          chosen.bound > 0 ? chosen.bound : std::max(1.0, -chosen.bound * operand.bound + 1)};
}

/// An input or a param as it is.
std::string BodyWriter::jumping_operand(Shape shape) {
  std::vector<std::string> fitting;
  for (const Variable& variable : exact_) {
    if (variable.shape == shape) fitting.push_back(variable.text);
  }
  return fitting.empty() ? param(text_of(shape)) : random_.pick(fitting);
}

Expression BodyWriter::binary(Shape shape, int depth) {
  const Shape other = random_.chance(4) ? Shape::Scalar : shape;
  Expression left = expression(shape, depth);
  Expression right = expression(other, depth);
  const bool swap = random_.chance(2);
  if (swap) std::swap(left, right);
  switch (random_.below(6)) {
    case 0:
    case 1:
      return {fmt::format("({} + {})", left.text, right.text), left.bound + right.bound};
    case 2:
      return {fmt::format("({} - {})", left.text, right.text), left.bound + right.bound};
    case 3:
      return {fmt::format("{}({}, {})", random_.chance(2) ? "min" : "max", left.text, right.text),
              std::max(left.bound, right.bound)};
    case 4:
      return {fmt::format("pow(1.1 + sigmoid({}), tanh({}))", left.text, right.text), 2.2};
    default:
      return {fmt::format("({}) * ({})", left.text, right.text), left.bound * right.bound};
  }
}

Expression BodyWriter::choice(Shape shape, int depth) {
  static constexpr std::array kComparisons = {"<", "<=", ">", ">=", "!=", "=="};
  const Shape condition = random_.chance(2) ? Shape::Scalar : shape;
  const Expression left = expression(shape, depth);
  const Expression right = expression(shape, depth);
  const double bound = std::max(left.bound, right.bound);
  if (random_.chance(6)) {
    return {fmt::format("where({} {} {}, {}, {})", token(), random_.pick(kComparisons),
                        random_.below(kTokens), left.text, right.text),
            bound};
  }
  return {fmt::format("where({} {} 0.3, {}, {})", jumping_operand(condition),
                      random_.pick(kComparisons), left.text, right.text),
          bound};
}

Expression BodyWriter::reduction(int depth) {
  const Shape shape = random_.pick(kVectors);
  const double size = program_.size_of(shape);
  const Expression operand = expression(shape, depth);
  switch (random_.below(7)) {
    case 0:
      return {fmt::format("sum({})", operand.text), operand.bound * size};
    case 1:
      return {fmt::format("mean({})", operand.text), operand.bound};
    case 2:
      return {fmt::format("var({})", operand.text), operand.bound * operand.bound};
    case 3:
      return {fmt::format("min({})", operand.text), operand.bound};
    case 4:
      return {fmt::format("max({})", operand.text), operand.bound};
    case 5: {
      const Expression other = expression(shape, depth);
      return {fmt::format("dot({}, {})", operand.text, other.text),
              operand.bound * other.bound * size};
    }
    default:
      return {fmt::format("({})[0]", operand.text), operand.bound};
  }
}

Expression BodyWriter::product(Shape shape, int depth) {
  const Shape inner = random_.pick(kVectors);
  const Expression operand = expression(inner, depth);
  const std::string out = text_of(shape);
  const std::string in = text_of(inner);
  const double bound = operand.bound * program_.size_of(inner) / 2;
  switch (random_.below(8)) {
    case 0:
      return {fmt::format("({}) @ {}", operand.text, param(in + ", " + out)), bound};
    case 1:
      if (shape == Shape::I || shape == Shape::HalfH || inner == Shape::I ||
          inner == Shape::HalfH) {
        break;
      }
      if (random_.chance(2)) {
        return {fmt::format("({}) @ {}", operand.text, param(in + ", " + out, " blocks N")), bound};
      }
      return {fmt::format("{} @ ({})", param(out + ", " + in, " blocks N"), operand.text), bound};
    case 2:
      return {fmt::format("transpose({}) @ ({})", param(in + ", " + out), operand.text), bound};
    case 3: {
      if (shape != inner) break;
      const std::string weight = param(out + ", " + out);
      return {
          fmt::format("({0} - transpose({0}) - 0.5 * eye({1})) @ ({2})", weight, out, operand.text),
          2 * bound + operand.bound};
    }
    case 4:
      return {fmt::format("{} @ {} @ ({})", param(out + ", 2"), param("2, " + in), operand.text),
              bound};
    case 5:
      if (shape != Shape::H) break;
      return {fmt::format("{}[H:] @ ({})", param("2 * H, " + in), operand.text), bound};
    default:
      break;
  }
  return {fmt::format("{} @ ({})", param(out + ", " + in), operand.text), bound};
}

Expression BodyWriter::structure(Shape shape, int depth) {
  const auto part = [&](Shape of, const char* format) {
    const Expression operand = expression(of, depth);
    return Expression{fmt::format(fmt::runtime(format), operand.text), operand.bound};
  };
  const auto join = [&](Shape of) {
    const Expression first = expression(of, depth);
    const Expression second = expression(of, depth);
    return Expression{fmt::format("concat({}, {})", first.text, second.text),
                      std::max(first.bound, second.bound)};
  };
  switch (shape) {
    case Shape::Scalar:
      if (random_.chance(3)) return part(Shape::H, "({})[-1]");
      return random_.chance(2) ? part(Shape::H, "({})[1]") : part(Shape::TwoH, "({})[H]");
    case Shape::I:
      if (random_.chance(3)) return {"cos(range(I))", 1};
      return random_.chance(2) ? Expression{"zeros(I)", 0} : leaf(shape);
    case Shape::H:
      if (random_.chance(3)) return join(Shape::HalfH);
      if (random_.chance(4)) return part(Shape::H, "concat(zeros(0), ({})[1:], [0.5])");
      if (random_.chance(4)) return part(Shape::TwoH, "({})[-H:]");
      return random_.chance(2) ? part(Shape::TwoH, "({})[:H]") : part(Shape::TwoH, "({})[H:]");
    case Shape::TwoH:
      return join(Shape::H);
    case Shape::HalfH:
      return random_.chance(2) ? part(Shape::H, "({})[H / 2:]")
                               : part(Shape::TwoH, "({})[H / 2:H]");
  }
  return leaf(shape);
}

Expression BodyWriter::function(Shape shape, int depth) {
  if (shape != Shape::Scalar && random_.chance(4)) {
    const Expression operand = expression(shape, depth);
    // Something that varies within the vector, so that its variance is not all rounding.
    const std::string spread = fmt::format("{} + {}", operand.text, param(text_of(shape)));
    switch (random_.below(3)) {
      case 0:
        return {fmt::format("softmax({})", spread), 1};
      case 1:
        return {fmt::format("rmsnorm({}, {})", spread, param(text_of(shape))), 4};
      default:
        return {fmt::format("tanh({} * layernorm({}, {}, {}))", number(), spread,
                            param(text_of(shape)), param(text_of(shape))),
                1};
    }
  }
  if (program_.fns.empty()) return leaf(shape);
  const auto& [name, arguments] = random_.pick(program_.fns);
  std::string list;
  for (size_t i = 0; i < arguments; ++i) {
    list += (i == 0 ? "" : ", ") + expression(shape, depth - 1).text;
  }
  return {fmt::format("{}({})", name, list), 2};
}

}  // namespace rnnc::test
