#include "ir/plan/scan_values.h"

#include <algorithm>

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

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
    const bool many = std::ranges::count(kept_, true) > std::ranges::count(inputs_, true) + 1;
    return many ? inputs_ : kept_;
  }

 private:
  void visit(uint32_t id) {
    const Instruction& instruction = body_[id];
    if (instruction.kind == Kind::Load) {
      of_state_[id] = std::ranges::any_of(launch_.carries, [&](const LoopLaunch::Carry& carry) {
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

  const Plan& plan_;
  const ScanLaunch& launch_;
  const std::vector<Instruction>& body_;
  std::vector<bool> of_state_;
  std::vector<bool> of_step_;
  std::vector<bool> inputs_;
  std::vector<bool> kept_;
};

}  // namespace

std::vector<bool> scan_values(const Plan& plan, const ScanLaunch& launch) {
  return ScanValues(plan, launch).run();
}

}  // namespace rnnc
