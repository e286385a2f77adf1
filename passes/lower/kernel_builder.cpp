#include "passes/lower/kernel_builder.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace rnnc {
namespace {

bool same(const Instruction& left, const Instruction& right) {
  return left.kind == right.kind && left.op == right.op && left.vector == right.vector &&
         left.argument == right.argument && left.operands == right.operands &&
         std::bit_cast<uint64_t>(left.value) == std::bit_cast<uint64_t>(right.value);
}

/// Same but for the name.
bool same(const Kernel& left, const Kernel& right) {
  const auto equal = [](const auto& a, const auto& b) { return same(a, b); };
  return left.length == right.length && left.arguments == right.arguments &&
         std::ranges::equal(left.body, right.body, equal);
}

}  // namespace

uint32_t add_kernel(Plan& plan, Kernel kernel) {
  const auto is_same = [&](const Kernel& one) { return same(one, kernel); };
  const auto found = std::ranges::find_if(plan.kernels, is_same);
  const auto index = static_cast<uint32_t>(found - plan.kernels.begin());
  if (found == plan.kernels.end()) {
    kernel.name = fmt::format("elementwise_{}", index);
    plan.kernels.push_back(std::move(kernel));
  }
  return index;
}

uint32_t KernelBuilder::load(const Access& access, bool vector) {
  const std::tuple key(access.buffer, access.delay, access.column, access.stride, vector);
  if (const auto found = loads_.find(key); found != loads_.end()) return found->second;
  Instruction load;
  load.vector = vector;
  load.argument = add_argument(access, vector, /*written=*/false);
  return loads_[key] = add(std::move(load));
}

uint32_t KernelBuilder::add_result() {
  kernel_.arguments.push_back(
      {compute_type(plan_.dtype), /*vector=*/true, /*written=*/false, /*product=*/true});
  accesses_.emplace_back();
  return static_cast<uint32_t>(kernel_.arguments.size() - 1);
}

uint32_t KernelBuilder::load_result(uint32_t argument) {
  Instruction load;
  load.vector = true;
  load.argument = argument;
  return add(std::move(load));
}

uint32_t KernelBuilder::constant(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  if (const auto found = constants_.find(bits); found != constants_.end()) return found->second;
  Instruction constant;
  constant.kind = Instruction::Kind::Constant;
  constant.value = value;
  return constants_[bits] = add(std::move(constant));
}

uint32_t KernelBuilder::scalar(Op op, std::vector<uint32_t> operands) {
  Instruction instruction;
  instruction.kind = Instruction::Kind::Scalar;
  instruction.op = op;
  instruction.vector =
      std::ranges::any_of(operands, [&](uint32_t id) { return kernel_.body[id].vector; });
  instruction.operands = std::move(operands);
  return add(std::move(instruction));
}

uint32_t KernelBuilder::reduce(Op op, uint32_t operand) {
  if (!kernel_.body[operand].vector) return reduce_equal(op, operand);
  Instruction instruction;
  instruction.kind = Instruction::Kind::Reduce;
  instruction.op = op;
  instruction.operands = {operand};
  return add(std::move(instruction));
}

uint32_t KernelBuilder::reduce_equal(Op op, uint32_t operand) {
  if (op == Op::Sum) {
    return scalar(Op::Mul, {operand, constant(static_cast<double>(kernel_.length))});
  }
  return op == Op::Var ? scalar(Op::Sub, {operand, operand}) : operand;
}

void KernelBuilder::store(const Access& access, bool vector, uint32_t value) {
  Instruction store;
  store.kind = Instruction::Kind::Store;
  store.vector = vector;
  store.argument = add_argument(access, vector, /*written=*/true);
  store.operands = {value};
  stores_ = true;
  add(std::move(store));
}

ElementwiseLaunch KernelBuilder::finish(int64_t once_rows) {
  return {add_kernel(plan_, std::move(kernel_)), std::move(accesses_), once_rows};
}

uint32_t KernelBuilder::add(Instruction instruction) {
  kernel_.body.push_back(std::move(instruction));
  return static_cast<uint32_t>(kernel_.body.size() - 1);
}

uint32_t KernelBuilder::add_argument(const Access& access, bool vector, bool written) {
  kernel_.arguments.push_back({plan_.buffers[access.buffer].dtype, vector, written});
  accesses_.push_back(access);
  return static_cast<uint32_t>(kernel_.arguments.size() - 1);
}

}  // namespace rnnc
