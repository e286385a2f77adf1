#include "ir/plan/scan_values.h"

#include <algorithm>

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr ptrdiff_t kMostOfRounds = 3;

bool is_cheap(const Instruction& instruction) {
  if (instruction.kind != Kind::Scalar) return true;
  return info(instruction.op).flops <= 1 && instruction.op != Op::Div;
}

class ScanValues {
 public:
  ScanValues(const Plan& plan, const ScanLaunch& launch)
      : plan_(plan),
        launch_(launch),
        body_(plan.kernels[launch.kernel].body),
        of_state_(body_.size(), false),
        of_step_(body_.size(), false),
        inputs_(body_.size(), false),
        kept_(body_.size(), false) {}

  std::vector<bool> run() {
    for (uint32_t id = 0; id < body_.size(); ++id) visit(id);
    for (const ScanRound& round : launch_.rounds) {
      for (const auto* results : {&round.coefficients, &round.offsets}) {
        for (const uint32_t id : *results) keep(id);
      }
    }
    drop_cheap();
    // Of several rounds each would compute it anew.
    const auto most = launch_.rounds.size() > 1 ? 2 * std::ranges::count(inputs_, true)
                                                : std::ranges::count(inputs_, true) + 1;
    return std::ranges::count(kept_, true) > most ? inputs_ : kept_;
  }

 private:
  void visit(uint32_t id) {
    const Instruction& instruction = body_[id];
    if (instruction.kind == Kind::Load) {
      of_state_[id] = std::ranges::any_of(launch_.carries, [&](const LoopCarry& carry) {
        return carry.load == instruction.argument;
      });
      const Access& access = launch_.accesses[instruction.argument];
      inputs_[id] = !of_state_[id] && plan_.buffers[access.buffer].extent != Extent::Invariant;
      of_step_[id] = inputs_[id];
    }
    for (const uint32_t operand : instruction.operands) {
      if (of_state_[operand]) of_state_[id] = true;
      if (of_step_[operand]) of_step_[id] = true;
    }
    if (!of_state_[id] && instruction.kind != Kind::Store) return;
    for (const uint32_t operand : instruction.operands) keep(operand);
  }

  void keep(uint32_t id) {
    if (of_step_[id] && !of_state_[id]) kept_[id] = true;
  }

  /// An operation or two on what is kept, or the same at each step, take less than registers.
  void drop_cheap() {
    constexpr int kMostOperations = 2;
    std::vector<int> operations(body_.size(), 0);
    for (uint32_t id = 0; id < body_.size(); ++id) {
      const Instruction& instruction = body_[id];
      if (!of_step_[id]) continue;
      if (inputs_[id] && kept_[id]) continue;
      operations[id] = inputs_[id]             ? kMostOperations + 1
                       : is_cheap(instruction) ? 1
                                               : kMostOperations + 1;
      for (const uint32_t operand : instruction.operands) operations[id] += operations[operand];
      if (!kept_[id]) continue;
      if (operations[id] <= kMostOperations) {
        kept_[id] = false;
      } else {
        operations[id] = 0;
      }
    }
  }

  const Plan& plan_;
  const ScanLaunch& launch_;
  const std::vector<Instruction>& body_;
  std::vector<bool> of_state_;
  std::vector<bool> of_step_;
  std::vector<bool> inputs_;
  std::vector<bool> kept_;
};

class ScanValuesOfRounds {
 public:
  ScanValuesOfRounds(const Plan& plan, const ScanLaunch& launch)
      : body_(plan.kernels[launch.kernel].body),
        launch_(launch),
        narrow_(size_of(plan.dtype) < size_of(DType::f32)) {}

  std::vector<int> run() {
    std::vector<int> made_in(body_.size(), -1);
    const std::vector<bool> of_state = depend_on_states();
    for (int round = 0; round < std::ssize(launch_.rounds); ++round) {
      const std::vector<bool> needed = needed_by(maps(round));
      const std::vector<bool> again = needed_by(behind(round));
      for (uint32_t id = 0; id < body_.size(); ++id) {
        const bool kept = needed[id] && again[id] && of_state[id] && !takes_little(id);
        if (kept && made_in[id] < 0) made_in[id] = round;
      }
    }
    const ptrdiff_t kept = std::ssize(made_in) - std::ranges::count(made_in, -1);
    return kept <= kMostOfRounds ? made_in : std::vector<int>(body_.size(), -1);
  }

 private:
  /// In 16 bits an exponential is no more than two instructions.
  bool takes_little(uint32_t id) const {
    return is_cheap(body_[id]) || (narrow_ && body_[id].op == Op::Exp);
  }

  std::vector<bool> depend_on_states() const {
    std::vector<bool> result(body_.size(), false);
    for (uint32_t id = 0; id < body_.size(); ++id) {
      const Instruction& instruction = body_[id];
      result[id] = std::ranges::any_of(instruction.operands,
                                       [&](uint32_t operand) { return result[operand]; });
      if (instruction.kind != Kind::Load) continue;
      result[id] = std::ranges::count(launch_.carries, instruction.argument, &LoopCarry::load) > 0;
    }
    return result;
  }

  std::vector<uint32_t> maps(int round) const {
    const ScanRound& one = launch_.rounds[static_cast<size_t>(round)];
    std::vector<uint32_t> ids = one.coefficients;
    ids.insert(ids.end(), one.offsets.begin(), one.offsets.end());
    return ids;
  }

  /// What later rounds and the whole step compute.
  std::vector<uint32_t> behind(int round) const {
    std::vector<uint32_t> ids;
    for (int later = round + 1; later < std::ssize(launch_.rounds); ++later) {
      const std::vector<uint32_t> more = maps(later);
      ids.insert(ids.end(), more.begin(), more.end());
    }
    for (const Instruction& instruction : body_) {
      if (instruction.kind == Kind::Store) ids.push_back(instruction.operands[0]);
    }
    return ids;
  }

  std::vector<bool> needed_by(const std::vector<uint32_t>& ids) const {
    std::vector<bool> needed(body_.size(), false);
    for (const uint32_t id : ids) needed[id] = true;
    for (size_t id = body_.size(); id-- > 0;) {
      if (!needed[id]) continue;
      for (const uint32_t operand : body_[id].operands) needed[operand] = true;
    }
    return needed;
  }

  const std::vector<Instruction>& body_;
  const ScanLaunch& launch_;
  const bool narrow_;
};

}  // namespace

std::vector<int> scan_values_of_rounds(const Plan& plan, const ScanLaunch& launch) {
  return ScanValuesOfRounds(plan, launch).run();
}

std::vector<bool> scan_values(const Plan& plan, const ScanLaunch& launch) {
  return ScanValues(plan, launch).run();
}

}  // namespace rnnc
