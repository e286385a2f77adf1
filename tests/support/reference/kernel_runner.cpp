#include "tests/support/reference/kernel_runner.h"

#include <algorithm>
#include <cstddef>

#include "ir/plan/kernel_facts.h"

namespace rnnc {
namespace {

/// Of what is loaded or stored.
Access access_of(const Instruction& instruction, const std::vector<Access>& accesses) {
  const bool moves =
      instruction.kind == Instruction::Kind::Load || instruction.kind == Instruction::Kind::Store;
  return moves ? accesses[instruction.argument] : Access();
}

double reduce(Op op, const std::vector<double>& elements) {
  const auto count = static_cast<double>(elements.size());
  double sum = 0;
  double extreme = elements[0];
  for (double element : elements) {
    sum += element;
    extreme = evaluate(op == Op::ReduceMin ? Op::Min : Op::Max, extreme, element, 0);
  }
  if (op == Op::Sum) return sum;
  if (op == Op::Mean) return sum / count;
  if (op != Op::Var) return extreme;
  double squares = 0;
  for (double element : elements) squares += (element - sum / count) * (element - sum / count);
  return squares / count;
}

}  // namespace

void KernelRunner::run(uint32_t id, const std::vector<Access>& accesses,
                       const ProductRows& products, Position at, int64_t row) {
  const Kernel& kernel = plan_.kernels[id];
  Run run{.kernel = kernel, .accesses = accesses, .at = at, .row = row};
  run.loops = loops_of(kernel);
  run.around = loops_around(kernel);
  run.values.resize(kernel.body.size());
  run.elements.resize(kernel.body.size());
  run_part(run, products, kNoLoop);
}

/// A turn of a loop, or all.
void KernelRunner::run_part(Run& run, const ProductRows& products, uint32_t loop) {
  const Kernel& kernel = run.kernel;
  const auto step = [&](uint32_t i) {
    const Instruction& instruction = kernel.body[i];
    if (instruction.kind == Instruction::Kind::Carried) return;
    const auto product = products.find(instruction.argument);
    if (instruction.kind == Instruction::Kind::Load && product != products.end()) {
      run.values[i] = product->second;
      for (double& result : run.values[i]) result = round_compute(result);
    } else {
      run_instruction(run, i);
    }
  };
  visit_loop(kernel, loop, step, [&](uint32_t inner) { run_loop(run, products, inner); });
}

void KernelRunner::run_loop(Run& run, const ProductRows& products, uint32_t loop) {
  const auto [begin, end, count, descending] = run.kernel.loops[loop];
  const auto take_carried = [&](size_t operand) {
    for (uint32_t i = begin; i < end; ++i) {
      const Instruction& instruction = run.kernel.body[i];
      const bool own = run.loops[i] == loop && instruction.kind == Instruction::Kind::Carried;
      if (own) take(run, i, instruction.operands[operand]);
    }
  };
  take_carried(0);
  run.turns.push_back(0);
  for (int64_t step = 0; step < count; ++step) {
    run.turns.back() = descending ? count - 1 - step : step;
    run_part(run, products, loop);
    for (uint32_t i = begin; i < end; ++i) {
      if (run.loops[i] == loop) run.elements[i][turn_of(run, i, loop)] = run.values[i];
    }
    take_carried(1);
  }
  run.turns.pop_back();
}

/// Which of a loop's turns `user` means: a number for those of all loops around it.
int64_t KernelRunner::turn_of(const Run& run, uint32_t user, uint32_t loop) {
  const auto& loops = run.kernel.loops;
  if (run.around[loop] == kNoLoop) {
    const uint32_t own = run.loops[user];
    const bool inner = run.around[own] != kNoLoop && loops[own].count == loops[loop].count;
    return run.turns[inner ? 1 : 0];
  }
  return run.turns[0] * run.kernel.loops[loop].count + run.turns[1];
}

/// Of the argument that instruction `i` loads or stores.
int64_t KernelRunner::element_of(const Run& run, uint32_t i) {
  const uint32_t loop = run.loops[i];
  if (loop == kNoLoop) return 0;
  const bool by_turn =
      run.kernel.arguments[run.kernel.body[i].argument].count == run.kernel.loops[loop].count;
  return by_turn ? run.turns.back() : turn_of(run, i, loop);
}

/// Gives instruction `i` the value of `operand`, which may be one for the whole row.
void KernelRunner::take(Run& run, uint32_t i, uint32_t operand) {
  run.values[i] = run.values[operand];
  const bool spreads = run.kernel.body[i].vector && !run.kernel.body[operand].vector;
  if (spreads) run.values[i].resize(static_cast<size_t>(run.kernel.length), run.values[i][0]);
}

void KernelRunner::run_instruction(Run& run, uint32_t i) {
  const Instruction& instruction = run.kernel.body[i];
  if (instruction.kind == Instruction::Kind::Last) {
    take(run, i, instruction.operands[0]);
    return;
  }
  const uint32_t own = run.loops[i];
  for (const uint32_t operand : instruction.operands) {
    const uint32_t from = run.loops[operand];
    if (from == kNoLoop || from == own || (own != kNoLoop && from == run.around[own])) continue;
    run.values[operand] = run.elements[operand].at(turn_of(run, i, from));
  }
  Access access = access_of(instruction, run.accesses);
  if (access.buffer != kNoBuffer) {
    access.column += element_of(run, i) * (instruction.vector ? run.kernel.length : 1);
  }
  run.values[i] = value_of(run.kernel, instruction, access, run.values, run.at, run.row);
}

std::vector<double> KernelRunner::value_of(const Kernel& kernel, const Instruction& instruction,
                                           const Access& access,
                                           const std::vector<std::vector<double>>& values,
                                           Position at, int64_t row) {
  std::vector<double> result(static_cast<size_t>(instruction.vector ? kernel.length : 1));
  const auto operand = [&](size_t index, size_t i) {
    if (index >= instruction.operands.size()) return 0.0;
    const uint32_t id = instruction.operands[index];
    return kernel.body[id].vector ? values[id][i] : values[id][0];
  };
  switch (instruction.kind) {
    case Instruction::Kind::Constant:
      result[0] = round_compute(instruction.value);
      break;
    case Instruction::Kind::Load:
    case Instruction::Kind::Store: {
      if (std::ranges::count(earlier_, instruction.argument) > 0) {
        const int64_t step = step_at(plan_, steps_, at);
        if (step == 0) break;
        at = {.step = plan_.descending ? steps_ - step : step - 1};
      }
      const PlanArrays::Place place = arrays_.locate(access, at, row);
      const bool adds = std::ranges::count(totals_, instruction.argument) > 0;
      for (size_t i = 0; i < result.size(); ++i) {
        const auto element = static_cast<int64_t>(i);
        if (instruction.kind == Instruction::Kind::Load) {
          result[i] = load(place, element);
        } else {
          store(place, element, operand(0, i) + (adds ? load(place, element) : 0));
        }
      }
      break;
    }
    case Instruction::Kind::Scalar:
      for (size_t i = 0; i < result.size(); ++i) {
        result[i] =
            round_compute(evaluate(instruction.op, operand(0, i), operand(1, i), operand(2, i)));
      }
      break;
    case Instruction::Kind::Carried:
    case Instruction::Kind::Last:
      break;  // of loops, and run with them
    case Instruction::Kind::Reduce: {
      std::vector<double> elements;
      elements.reserve(static_cast<size_t>(kernel.length));
      for (int64_t i = 0; i < kernel.length; ++i) {
        elements.push_back(operand(0, static_cast<size_t>(i)));
      }
      result[0] = round_compute(reduce(instruction.op, elements));
      break;
    }
  }
  return result;
}

ScanStates KernelRunner::scan_values(const ScanLaunch& launch, const ScanStates& states,
                                     Position at, int64_t row) {
  const Kernel& kernel = plan_.kernels[launch.kernel];
  ScanStates values;
  for (const Instruction& instruction : kernel.body) {
    const auto carry = std::ranges::find(launch.carries, instruction.argument, &LoopCarry::load);
    if (instruction.kind == Instruction::Kind::Load && carry != launch.carries.end()) {
      values.push_back(states[static_cast<size_t>(carry - launch.carries.begin())]);
    } else if (instruction.kind == Instruction::Kind::Store) {
      values.push_back(values[instruction.operands[0]]);
    } else {
      const Access access = access_of(instruction, launch.accesses);
      values.push_back(value_of(kernel, instruction, access, values, at, row));
    }
  }
  return values;
}

double KernelRunner::round_compute(double value) const {
  return compute_type(plan_.dtype) == DType::f64 ? value : static_cast<float>(value);
}

}  // namespace rnnc
