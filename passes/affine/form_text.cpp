#include "passes/affine/form_text.h"

#include <cmath>

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr size_t kMostBytes = 72;  // of a coefficient or an offset
constexpr int kMostDepth = 6;      // of a formula
constexpr size_t kMostTerms = 8;   // of an equation
constexpr size_t kMostRows = 8;    // of a round

/// In brackets, if it is of several words.
std::string in_brackets(const std::string& text) {
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth == 0 && c == ' ') return "(" + text + ")";
  }
  return text;
}

class FormText {
 public:
  FormText(const std::vector<Instruction>& instructions, const NameOf& name)
      : instructions_(instructions), name_(name) {}

  std::string equation(const ScanRound& round, size_t row,
                       const std::vector<std::string>& states) const {
    const size_t m = round.states.size();
    const bool product = round.semiring == Semiring::SumProduct;
    std::vector<std::string> terms;
    for (size_t column = 0; column < m; ++column) {
      const uint32_t id = round.coefficients[row * m + column];
      const std::string before = states[round.states[column]] + "[t-1]";
      if (is_constant(id, product ? 1 : 0)) {
        terms.push_back(before);
      } else if (!is_zero(id, product)) {
        terms.push_back(fmt::format("{} {} {}", factor(id), product ? '*' : '+', before));
      }
    }
    if (terms.size() > kMostTerms) {
      terms.resize(kMostTerms);
      terms.emplace_back("…");
    }
    const uint32_t offset = round.offsets[row];
    if (!is_zero(offset, product) || terms.empty()) terms.push_back(cut(text(offset)));
    const std::string& next = states[round.states[row]];
    if (product) return fmt::format("{} = {}", next, fmt::join(terms, " + "));
    const std::string_view extreme = round.semiring == Semiring::MaxPlus ? "max" : "min";
    return fmt::format("{} = {}({})", next, extreme, fmt::join(terms, ", "));
  }

 private:
  bool is_constant(uint32_t id, double value) const {
    return instructions_[id].kind == Kind::Constant && instructions_[id].value == value;
  }
  bool is_zero(uint32_t id, bool product) const {
    if (product) return is_constant(id, 0);
    return instructions_[id].kind == Kind::Constant && std::isinf(instructions_[id].value);
  }

  static std::string cut(const std::string& text) {
    return text.size() <= kMostBytes ? text : text.substr(0, kMostBytes) + "…";
  }

  std::string factor(uint32_t id) const { return in_brackets(cut(text(id))); }

  std::string text(uint32_t id, int depth = 0) const {
    const Instruction& instruction = instructions_[id];
    if (instruction.kind == Kind::Constant) return fmt::format("{}", instruction.value);
    if (std::string name = name_(id); !name.empty()) return name;
    if (instruction.kind != Kind::Scalar) return fmt::format("v{}", id);
    if (depth == kMostDepth) return "…";
    const auto plain = [&](size_t i) { return text(instruction.operands[i], depth + 1); };
    const auto bracketed = [&](size_t i) { return in_brackets(plain(i)); };
    switch (instruction.op) {
      case Op::Neg:
        return "-" + bracketed(0);
      case Op::Add:
        return plain(0) + " + " + plain(1);
      case Op::Sub:
        return plain(0) + " - " + bracketed(1);
      case Op::Mul:
        return bracketed(0) + " * " + bracketed(1);
      case Op::Div:
        return bracketed(0) + " / " + bracketed(1);
      default:
        break;
    }
    std::vector<std::string> operands;
    for (size_t i = 0; i < instruction.operands.size(); ++i) operands.push_back(plain(i));
    return fmt::format("{}({})", info(instruction.op).name, fmt::join(operands, ", "));
  }

  const std::vector<Instruction>& instructions_;
  const NameOf& name_;
};

}  // namespace

std::string form_text(const std::vector<Instruction>& instructions, const ScanRound& round,
                      const std::vector<std::string>& states, const NameOf& name) {
  const FormText text(instructions, name);
  std::string all;
  for (size_t row = 0; row < round.states.size(); ++row) {
    if (row > 0) all += ", ";
    if (row == kMostRows) return all + "…";
    all += text.equation(round, row, states);
  }
  return all;
}

}  // namespace rnnc
