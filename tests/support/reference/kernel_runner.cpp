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
  run.values.resize(kernel.body.size());
  run.elements.resize(kernel.body.size());
  uint32_t next = 0;
  const auto step = [&](uint32_t i) {
    const Instruction& instruction = kernel.body[i];
    const auto product = products.find(instruction.argument);
    if (instruction.kind == Instruction::Kind::Load && product != products.end()) {
      run.values[i] = product->second;
      for (double& result : run.values[i]) result = round_compute(result);
    } else {
      run_instruction(run, i);
    }
  };
  for (const Kernel::Loop& loop : kernel.loops) {
    for (; next < loop.begin; ++next) step(next);
    run_loop(run, loop);
    next = loop.end;
  }
  for (; next < kernel.body.size(); ++next) step(next);
}

void KernelRunner::run_loop(Run& run, const Kernel::Loop& loop) {
  const std::vector<Instruction>& body = run.kernel.body;
  for (uint32_t i = loop.begin; i < loop.end; ++i) {
    run.elements[i].resize(static_cast<size_t>(loop.count));
    if (body[i].kind == Instruction::Kind::Carried) take(run, i, body[i].operands[0]);
  }
  for (int64_t step = 0; step < loop.count; ++step) {
    run.element = loop.descending ? loop.count - 1 - step : step;
    for (uint32_t i = loop.begin; i < loop.end; ++i) {
      if (body[i].kind != Instruction::Kind::Carried) run_instruction(run, i);
      run.elements[i][static_cast<size_t>(run.element)] = run.values[i];
    }
    for (uint32_t i = loop.begin; i < loop.end; ++i) {
      if (body[i].kind != Instruction::Kind::Carried) continue;
      take(run, i, body[i].operands[1]);
    }
  }
  run.element = 0;
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
  for (const uint32_t operand : instruction.operands) {
    const uint32_t from = run.loops[operand];
    if (from == kNoLoop || from == run.loops[i]) continue;
    run.values[operand] = run.elements[operand][static_cast<size_t>(run.element)];
  }
  Access access = access_of(instruction, run.accesses);
  access.column += run.element * (instruction.vector ? run.kernel.length : 1);
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
