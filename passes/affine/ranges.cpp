// Instruction by instruction, the range of an op from those of its operands. Where operands are
// related, more is known than that: a square, a share of a sum, what a maximum leaves.
#include "passes/affine/ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Range kAll = {-kInfinity, kInfinity};

/// Zero times what grows without bound is zero: each number that it stands for is finite.
double product(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

Range product(const Range& a, const Range& b) {
  const auto [least, greatest] =
      std::minmax({product(a.least, b.least), product(a.least, b.greatest),
                   product(a.greatest, b.least), product(a.greatest, b.greatest)});
  return {least, greatest};
}

class RangeFinder {
 public:
  explicit RangeFinder(const std::vector<Instruction>& instructions)
      : instructions_(instructions) {}

  std::vector<Range> run() {
    for (const Instruction& instruction : instructions_) ranges_.push_back(find(instruction));
    return std::move(ranges_);
  }

 private:
  Range find(const Instruction& instruction) const {
    if (instruction.kind == Kind::Constant) return {instruction.value, instruction.value};
    if (instruction.kind != Kind::Scalar) return kAll;
    switch (instruction.operands.size()) {
      case 1:
        return of_one(instruction.op, ranges_[instruction.operands[0]]);
      case 2:
        return of_two(instruction.op, instruction.operands[0], instruction.operands[1]);
      default:
        return of_three(instruction);
    }
  }

  static Range of_one(Op op, const Range& a) {
    switch (op) {
      case Op::Neg:
        return {-a.greatest, -a.least};
      case Op::Sigmoid:
        return {0, 1};
      case Op::Tanh:
      case Op::Sign:
      case Op::Erf:
      case Op::Sin:
      case Op::Cos:
        return {-1, 1};
      case Op::Exp:
        return {std::exp(a.least), std::exp(a.greatest)};
      case Op::Abs:
        return {
            a.least <= 0 && a.greatest >= 0 ? 0 : std::min(std::abs(a.least), std::abs(a.greatest)),
            a.size()};
      case Op::Relu:
        return {std::max(a.least, 0.0), std::max(a.greatest, 0.0)};
      case Op::Softplus:
        return {0, kInfinity};
      case Op::Sqrt:
        return {std::sqrt(std::max(a.least, 0.0)), std::sqrt(std::max(a.greatest, 0.0))};
      case Op::StopGradient:
        return a;
      default:
        return kAll;
    }
  }

  Range of_two(Op op, uint32_t left, uint32_t right) const {
    const Range& a = ranges_[left];
    const Range& b = ranges_[right];
    switch (op) {
      case Op::Add:
        return {a.least + b.least, a.greatest + b.greatest};
      case Op::Sub:
        if (is_operand(left, Op::Max, right))
          return {-kInfinity, std::min(0.0, a.greatest - b.least)};
        return {a.least - b.greatest, a.greatest - b.least};
      case Op::Mul:
        return left == right ? Range{0, product(a.size(), a.size())} : product(a, b);
      case Op::Div:
        return is_share(left, right) ? Range{0, 1} : quotient(a, b);
      case Op::Min:
        return {std::min(a.least, b.least), std::min(a.greatest, b.greatest)};
      case Op::Max:
        return {std::max(a.least, b.least), std::max(a.greatest, b.greatest)};
      case Op::Lt:
      case Op::Le:
      case Op::Gt:
      case Op::Ge:
      case Op::Eq:
      case Op::Ne:
        return {0, 1};
      default:
        return kAll;
    }
  }

  Range of_three(const Instruction& instruction) const {
    const auto operand = [&](size_t i) -> const Range& { return ranges_[instruction.operands[i]]; };
    if (instruction.op == Op::Where) {
      return {std::min(operand(1).least, operand(2).least),
              std::max(operand(1).greatest, operand(2).greatest)};
    }
    if (instruction.op == Op::Clamp) return {operand(1).least, operand(2).greatest};
    return kAll;
  }

  static Range quotient(const Range& a, const Range& b) {
    if (b.least <= 0 && b.greatest >= 0) return kAll;
    return product(a, {1 / b.greatest, 1 / b.least});
  }

  bool is_operand(uint32_t id, Op op, uint32_t of) const {
    const Instruction& instruction = instructions_[of];
    return instruction.kind == Kind::Scalar && instruction.op == op &&
           std::ranges::count(instruction.operands, id) > 0;
  }

  /// One of two terms that are never negative, of their sum.
  bool is_share(uint32_t part, uint32_t sum) const {
    return is_operand(part, Op::Add, sum) &&
           std::ranges::all_of(instructions_[sum].operands,
                               [this](uint32_t id) { return ranges_[id].least >= 0; });
  }

  const std::vector<Instruction>& instructions_;
  std::vector<Range> ranges_;
};

}  // namespace

double Range::size() const {
  return std::max(std::abs(least), std::abs(greatest));
}

std::vector<Range> find_ranges(const std::vector<Instruction>& instructions) {
  return RangeFinder(instructions).run();
}

}  // namespace rnnc
