// 1. Of each instruction, and so of each next value, the set of states that it depends on.
// 2. States that reach each other are a round; a round comes after all that it reaches.
// 3. For each round and semiring until one works: from the loads on, each instruction that depends
//    on the round's states gets a form, a coefficient for each state and an offset. These are
//    nothing (the semiring's zero), one, or an instruction. What depends on none of the states is
//    an offset. A rule for each op says what becomes of its operands' forms.
#include "passes/affine/affine_forms.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "passes/affine/ranges.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;
using StateSet = uint64_t;

constexpr ptrdiff_t kLooksBack = 256;  // instructions

/// A coefficient or an offset.
struct Element {
  enum class Kind : uint8_t { Nothing, One, Value };
  Kind kind = Kind::Nothing;
  uint32_t value = 0;  // an instruction
  bool is_nothing() const { return kind == Kind::Nothing; }
  bool is_one() const { return kind == Kind::One; }
};
constexpr Element kOne = {Element::Kind::One, 0};

/// Coefficients, then the offset.
using Form = std::vector<Element>;

/// Behind a body, the instructions that forms need.
class FormBuilder {
 public:
  explicit FormBuilder(std::vector<Instruction>& instructions) : instructions_(instructions) {}

  uint32_t constant(double value) {
    return add({.kind = Kind::Constant, .value = value, .operands = {}});
  }

  uint32_t scalar(Op op, std::vector<uint32_t> operands) {
    const Instruction& first = instructions_[operands[0]];
    const bool undoes = first.kind == Kind::Scalar && first.op == Op::Neg && op == Op::Neg;
    if (undoes) return first.operands[0];
    if (std::ranges::all_of(operands, [this](uint32_t id) { return is_constant(id); })) {
      const auto operand = [&](size_t i) {
        return i < operands.size() ? instructions_[operands[i]].value : 0.0;
      };
      return constant(evaluate(op, operand(0), operand(1), operand(2)));
    }
    const bool vector =
        std::ranges::any_of(operands, [this](uint32_t id) { return instructions_[id].vector; });
    return add({.kind = Kind::Scalar, .op = op, .vector = vector, .operands = std::move(operands)});
  }

 private:
  bool is_constant(uint32_t id) const { return instructions_[id].kind == Kind::Constant; }

  /// One that is there already, if it is the same: of the last few, so that long bodies take no
  /// longer each.
  uint32_t add(Instruction instruction) {
    const auto few = std::min<ptrdiff_t>(std::ssize(instructions_), kLooksBack);
    const auto known = std::find(instructions_.end() - few, instructions_.end(), instruction);
    const auto id = static_cast<uint32_t>(known - instructions_.begin());
    if (id == instructions_.size()) instructions_.push_back(std::move(instruction));
    return id;
  }

  std::vector<Instruction>& instructions_;
};

/// The forms of one round in one semiring.
class RoundProof {
 public:
  RoundProof(std::vector<Instruction>& instructions, const std::vector<StateSet>& depends,
             const std::vector<CarriedState>& states, std::vector<uint32_t> round,
             Semiring semiring)
      : instructions_(instructions),
        depends_(depends),
        states_(states),
        build_(instructions),
        forms_(depends.size()) {
    round_.semiring = semiring;
    round_.states = std::move(round);
    for (const uint32_t state : round_.states) own_ |= StateSet{1} << state;
  }

  /// None: `failure` says where it ends.
  std::optional<ScanRound> run(NotAffine& failure) {
    mark_needed();
    for (uint32_t id = 0; id < depends_.size(); ++id) {
      if (!needed_[id] || is_outside(id)) continue;
      if (!give_form(id)) {
        failure = {id, describe(id)};
        return std::nullopt;
      }
    }
    for (const uint32_t state : round_.states) {
      const Form form = form_of(states_[state].next);
      for (size_t i = 0; i < size(); ++i) round_.coefficients.push_back(id_of(form[i]));
      round_.offsets.push_back(id_of(form[size()]));
    }
    return std::move(round_);
  }

 private:
  size_t size() const { return round_.states.size(); }
  bool is_product() const { return round_.semiring == Semiring::SumProduct; }
  bool is_outside(uint32_t id) const { return (depends_[id] & own_) == 0; }

  /// What next values depend on.
  void mark_needed() {
    needed_.assign(depends_.size(), false);
    for (const uint32_t state : round_.states) needed_[states_[state].next] = true;
    for (size_t id = depends_.size(); id-- > 0;) {
      if (!needed_[id]) continue;
      for (const uint32_t operand : instructions_[id].operands) needed_[operand] = true;
    }
  }

  Form form_of(uint32_t id) const {
    if (!is_outside(id)) return forms_[id];
    Form form(size() + 1);
    form.back() = {Element::Kind::Value, id};
    const bool zero = is_product() && instructions_[id].kind == Kind::Constant;
    if (zero && instructions_[id].value == 0) form.back() = {};
    return form;
  }

  bool give_form(uint32_t id) {
    const Instruction instruction = instructions_[id];  // rules add others behind it
    if (instruction.kind == Kind::Load) {
      for (size_t i = 0; i < size(); ++i) {
        if (std::ranges::count(states_[round_.states[i]].loads, id) == 0) continue;
        forms_[id].assign(size() + 1, {});
        forms_[id][i] = kOne;
      }
      return true;
    }
    const std::vector<uint32_t>& operands = instruction.operands;
    std::optional<Form> form = is_product() ? product_form(instruction.op, operands)
                                            : tropical_form(instruction.op, operands);
    if (!form) form = common_form(instruction.op, operands);
    if (!form) return false;
    forms_[id] = *std::move(form);
    return true;
  }

  // ---- Rules ----

  template <typename Change>
  Form each(const Form& form, const Change& change) {
    Form result;
    for (const Element& element : form) {
      result.push_back(element.is_nothing() ? element : change(element));
    }
    return result;
  }

  /// In each semiring.
  std::optional<Form> common_form(Op op, const std::vector<uint32_t>& operands) {
    if (op == Op::StopGradient) return form_of(operands[0]);
    if (op != Op::Where || !is_outside(operands[0])) return std::nullopt;
    const Form yes = form_of(operands[1]);
    const Form no = form_of(operands[2]);
    Form result(yes.size());
    for (size_t i = 0; i < yes.size(); ++i) {
      const bool same = yes[i].kind == no[i].kind && yes[i].value == no[i].value;
      result[i] = same ? yes[i] : value(Op::Where, {operands[0], id_of(yes[i]), id_of(no[i])});
    }
    return result;
  }

  /// Over (+, *).
  std::optional<Form> product_form(Op op, const std::vector<uint32_t>& operands) {
    switch (op) {
      case Op::Neg:
        return negative(form_of(operands[0]));
      case Op::Add:
        return join(Op::Add, form_of(operands[0]), form_of(operands[1]));
      case Op::Sub:
        return difference(form_of(operands[0]), form_of(operands[1]));
      case Op::Mul:
        if (is_outside(operands[1])) return scaled(form_of(operands[0]), operands[1]);
        if (is_outside(operands[0])) return scaled(form_of(operands[1]), operands[0]);
        return std::nullopt;
      case Op::Div:
        if (!is_outside(operands[1])) return std::nullopt;
        return each(form_of(operands[0]), [&](const Element& element) {
          return value(Op::Div, {id_of(element), operands[1]});
        });
      default:
        return std::nullopt;
    }
  }

  /// Over (max, +) and (min, +).
  std::optional<Form> tropical_form(Op op, const std::vector<uint32_t>& operands) {
    const Op extreme = round_.semiring == Semiring::MaxPlus ? Op::Max : Op::Min;
    if (op == extreme) return join(extreme, form_of(operands[0]), form_of(operands[1]));
    if (op == Op::Relu && extreme == Op::Max) {
      Form zero(size() + 1);
      zero.back() = {Element::Kind::Value, build_.constant(0)};
      return join(Op::Max, form_of(operands[0]), zero);
    }
    if (op == Op::Sub && is_outside(operands[1])) {
      return each(form_of(operands[0]), [&](const Element& element) {
        return element.is_one() ? value(Op::Neg, {operands[1]})
                                : value(Op::Sub, {element.value, operands[1]});
      });
    }
    if (op != Op::Add) return std::nullopt;
    const size_t outside = is_outside(operands[0]) ? 0 : 1;
    if (!is_outside(operands[outside])) return std::nullopt;
    const Element raise = {Element::Kind::Value, operands[outside]};
    return each(form_of(operands[1 - outside]), [&](const Element& element) {
      return element.is_one() ? raise : value(Op::Add, {element.value, raise.value});
    });
  }

  Form join(Op op, const Form& a, const Form& b) {
    Form result(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i].is_nothing() || b[i].is_nothing()) {
        result[i] = a[i].is_nothing() ? b[i] : a[i];
      } else {
        result[i] = value(op, {id_of(a[i]), id_of(b[i])});
      }
    }
    return result;
  }

  Form difference(const Form& a, const Form& b) {
    Form result = negative(b, a);
    for (size_t i = 0; i < a.size(); ++i) {
      if (b[i].is_nothing()) result[i] = a[i];
    }
    return result;
  }

  /// Of each element, or it from that of another form.
  Form negative(const Form& form, const Form& from = {}) {
    Form result(form.size());
    for (size_t i = 0; i < form.size(); ++i) {
      if (form[i].is_nothing()) continue;
      const bool alone = from.empty() || from[i].is_nothing();
      result[i] = alone ? value(Op::Neg, {id_of(form[i])})
                        : value(Op::Sub, {id_of(from[i]), id_of(form[i])});
    }
    return result;
  }

  Form scaled(const Form& form, uint32_t factor) {
    return each(form, [&](const Element& element) {
      return element.is_one() ? Element{Element::Kind::Value, factor}
                              : value(Op::Mul, {factor, element.value});
    });
  }

  Element value(Op op, std::vector<uint32_t> operands) {
    return {Element::Kind::Value, build_.scalar(op, std::move(operands))};
  }

  uint32_t id_of(const Element& element) {
    if (element.kind == Element::Kind::Value) return element.value;
    if (is_product()) return build_.constant(element.is_one() ? 1 : 0);
    const double infinity = std::numeric_limits<double>::infinity();
    const double nothing = round_.semiring == Semiring::MaxPlus ? -infinity : infinity;
    return build_.constant(element.is_one() ? 0 : nothing);
  }

  std::string describe(uint32_t id) const {
    switch (instructions_[id].op) {
      case Op::Mul:
        return "mul of two of its own values makes it nonlinear";
      case Op::Div:
        return "div by one of its own values makes it nonlinear";
      case Op::Where:
        return "where on one of its own values makes it nonlinear";
      default:
        return fmt::format("{} makes it nonlinear", info(instructions_[id].op).name);
    }
  }

  std::vector<Instruction>& instructions_;
  const std::vector<StateSet>& depends_;
  const std::vector<CarriedState>& states_;
  FormBuilder build_;
  std::vector<Form> forms_;  // by instruction of the body
  std::vector<bool> needed_;
  StateSet own_ = 0;
  ScanRound round_;
};

/// Per instruction of the body, whether the value before the step of each state takes part.
std::vector<StateSet> find_dependences(const std::vector<Instruction>& body,
                                       const std::vector<CarriedState>& states) {
  std::vector<StateSet> depends(body.size(), 0);
  for (size_t state = 0; state < states.size(); ++state) {
    for (const uint32_t load : states[state].loads) depends[load] |= StateSet{1} << state;
  }
  for (size_t id = 0; id < body.size(); ++id) {
    for (const uint32_t operand : body[id].operands) depends[id] |= depends[operand];
  }
  return depends;
}

/// States that reach each other, those first that others need.
std::vector<std::vector<uint32_t>> find_rounds(std::vector<StateSet> reached) {
  const size_t count = reached.size();
  const auto reaches = [&](size_t from, size_t to) { return (reached[from] >> to & 1) != 0; };
  for (size_t by = 0; by < count; ++by) {
    for (size_t from = 0; from < count; ++from) {
      if (reaches(from, by)) reached[from] |= reached[by];
    }
  }
  std::vector<std::vector<uint32_t>> rounds;
  std::vector<bool> placed(count, false);
  while (std::ranges::count(placed, true) < std::ssize(placed)) {
    for (uint32_t first = 0; first < count; ++first) {
      std::vector<uint32_t> round;
      bool waits = placed[first];
      for (uint32_t other = 0; other < count; ++other) {
        const bool mutual = reaches(first, other) && reaches(other, first);
        if (other == first || mutual) {
          round.push_back(other);
        } else if (reaches(first, other) && !placed[other]) {
          waits = true;
        }
      }
      if (waits) continue;
      for (const uint32_t state : round) placed[state] = true;
      rounds.push_back(std::move(round));
    }
  }
  return rounds;
}

/// Whether the coefficients of each row are sure to add up to 1 at most.
bool is_bounded(const ScanRound& round, const std::vector<Range>& ranges) {
  if (round.semiring != Semiring::SumProduct) return false;
  const size_t m = round.states.size();
  for (size_t row = 0; row < m; ++row) {
    double most = 0;
    for (size_t column = 0; column < m; ++column) {
      most += ranges[round.coefficients[row * m + column]].size();
    }
    if (!(most <= 1)) return false;
  }
  return true;
}

}  // namespace

tl::expected<AffineForms, NotAffine> find_affine_forms(const std::vector<Instruction>& body,
                                                       const std::vector<CarriedState>& states) {
  RNNC_CHECK(states.size() <= kMostProvedStates, "{} states", states.size());
  const std::vector<StateSet> depends = find_dependences(body, states);
  std::vector<StateSet> needs;
  needs.reserve(states.size());
  for (const CarriedState& state : states) needs.push_back(depends[state.next]);
  AffineForms result = {body, {}};
  for (const std::vector<uint32_t>& round : find_rounds(needs)) {
    if (round.size() > kMostRoundStates) {
      return tl::unexpected(NotAffine{
          states[round[0]].next, fmt::format("{} of its states need each other", round.size())});
    }
    std::optional<ScanRound> found;
    NotAffine failure;  // over (+, *)
    for (const Semiring semiring : {Semiring::SumProduct, Semiring::MaxPlus, Semiring::MinPlus}) {
      if (found) break;
      NotAffine other;
      const size_t before = result.instructions.size();
      found = RoundProof(result.instructions, depends, states, round, semiring)
                  .run(semiring == Semiring::SumProduct ? failure : other);
      if (!found) result.instructions.resize(before);
    }
    if (!found) return tl::unexpected(failure);
    result.rounds.push_back(*std::move(found));
  }
  const std::vector<Range> ranges = find_ranges(result.instructions);
  for (ScanRound& round : result.rounds) round.bounded = is_bounded(round, ranges);
  return result;
}

}  // namespace rnnc
