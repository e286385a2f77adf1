#include <algorithm>
#include <span>

#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_verify_parts.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

class KernelVerifier {
 public:
  explicit KernelVerifier(const Kernel& kernel) : kernel_(kernel) {}

  Status run() {
    if (kernel_.length < 1) return fail("rows of {} elements", kernel_.length);
    if (Status status = check_loops(); !status) return status;
    loops_ = loops_of(kernel_);
    around_ = loops_around(kernel_);
    std::vector<int> uses(kernel_.arguments.size(), 0);
    for (size_t i = 0; i < kernel_.body.size(); ++i) {
      const Instruction& instruction = kernel_.body[i];
      for (size_t place = 0; place < instruction.operands.size(); ++place) {
        if (Status status = check_operand(i, place); !status) return status;
      }
      if (instruction.kind == Kind::Load || instruction.kind == Kind::Store) {
        if (Status status = check_argument(i); !status) return status;
        ++uses[instruction.argument];
      }
      if (Status status = check_operation(i); !status) return status;
    }
    for (size_t i = 0; i < uses.size(); ++i) {
      const Kernel::Argument& argument = kernel_.arguments[i];
      const bool may_repeat = argument.count > 1 && !argument.written && uses[i] > 0;
      if (uses[i] != 1 && !may_repeat) return fail("argument a{} is used {} times", i, uses[i]);
    }
    return {};
  }

 private:
  Status check_loops() const {
    std::vector<uint32_t> ends = {static_cast<uint32_t>(kernel_.body.size())};  // of those around
    uint32_t begin = 0;
    for (const Kernel::Loop& loop : kernel_.loops) {
      while (ends.size() > 1 && loop.begin >= ends.back()) {
        begin = ends.back();
        ends.pop_back();
      }
      const bool fits = loop.begin >= begin && loop.begin < loop.end && loop.end <= ends.back();
      if (!fits || loop.count < 2) {
        return fail("a loop of {} over %{} to %{}", loop.count, loop.begin, loop.end);
      }
      if (ends.size() > 2) return fail("the loop over %{} to %{} is in two", loop.begin, loop.end);
      begin = loop.begin;
      ends.push_back(loop.end);
    }
    return {};
  }

  /// The loops around an instruction, the outer one first.
  std::vector<uint32_t> path_of(size_t i) const {
    if (loops_[i] == kNoLoop) return {};
    const uint32_t outer = around_[loops_[i]];
    if (outer == kNoLoop) return {loops_[i]};
    return {outer, loops_[i]};
  }

  /// Turns of the innermost loop.
  int64_t count_at(size_t i) const {
    return loops_[i] == kNoLoop ? 1 : kernel_.loops[loops_[i]].count;
  }

  /// Likewise of all loops.
  int64_t runs_at(size_t i) const {
    int64_t runs = 1;
    for (const uint32_t loop : path_of(i)) runs *= kernel_.loops[loop].count;
    return runs;
  }

  /// Whether instruction `i` may take what `operand` is at the same place of as many turns.
  bool takes_element(size_t i, uint32_t operand) const {
    const std::vector<uint32_t> own = path_of(i);
    const std::vector<uint32_t> from = path_of(operand);
    if (from.size() > own.size()) return false;
    if (std::ranges::equal(from, std::span(own).first(from.size()))) return true;
    if (kernel_.body[operand].kind == Kind::Carried) return false;
    const auto alike = [&](size_t a, size_t b) {
      return kernel_.loops[from[a]].count == kernel_.loops[own[b]].count;
    };
    if (from.size() == 1) return alike(0, 0) || (own.size() == 2 && alike(0, 1));
    return alike(0, 0) && alike(1, 1);
  }

  /// The argument that a load or store goes through.
  Status check_argument(size_t i) const {
    const Instruction& instruction = kernel_.body[i];
    if (instruction.argument >= kernel_.arguments.size()) {
      return fail("%{}: there is no argument a{}", i, instruction.argument);
    }
    const Kernel::Argument& argument = kernel_.arguments[instruction.argument];
    if (argument.written != (instruction.kind == Kind::Store)) {
      return fail("%{}: a{} goes the other way", i, instruction.argument);
    }
    if (argument.product && (argument.written || !argument.vector)) {
      return fail("%{}: a{} is no product's result", i, instruction.argument);
    }
    if (argument.vector != instruction.vector) {
      return fail("%{}: a{} is {}a vector", i, instruction.argument, argument.vector ? "" : "not ");
    }
    const bool by_turn = !argument.written && argument.count == count_at(i);
    if (argument.count != runs_at(i) && !by_turn) {
      return fail("%{} runs {} times, a{} has {} elements", i, runs_at(i), instruction.argument,
                  argument.count);
    }
    return {};
  }

  Status check_operand(size_t i, size_t place) const {
    const Instruction& instruction = kernel_.body[i];
    const uint32_t operand = instruction.operands[place];
    const bool exists = operand < kernel_.body.size() && kernel_.body[operand].kind != Kind::Store;
    const bool is_next = instruction.kind == Kind::Carried && place == 1;
    if (!exists || (operand >= i) != is_next) {
      return fail("%{} takes %{}, which is no {} value", i, operand, is_next ? "later" : "earlier");
    }
    const uint32_t from = loops_[operand];
    const bool carried = kernel_.body[operand].kind == Kind::Carried;
    if (instruction.kind == Kind::Last) {
      if (carried && from != kNoLoop && around_[from] == loops_[i]) return {};
      return fail("%{} is no last value of a loop", i);
    }
    if (is_next && (carried || from != loops_[i])) {
      return fail("%{} takes %{} from an iteration that does not make it", i, operand);
    }
    if (takes_element(i, operand)) return {};
    return fail("%{} takes %{}, which is in a loop", i, operand);
  }

  /// Arity and shape of what the instruction computes.
  Status check_operation(size_t i) const {
    const Instruction& instruction = kernel_.body[i];
    const auto is_vector = [&](uint32_t id) { return kernel_.body[id].vector; };
    const size_t arity = arity_of(instruction);
    if (instruction.kind == Kind::Scalar && !is_scalar(instruction.op)) {
      return fail("%{} is no scalar op", i);
    }
    if (instruction.kind == Kind::Reduce) {
      if (!is_reduction(instruction.op)) return fail("%{} is no reduction", i);
      if (instruction.vector) return fail("%{}: a reduction gives one value per row", i);
      if (!kernel_.loops.empty() && instruction.op == Op::Var) {
        return fail("%{}: a kernel with loops has a variance", i);
      }
    }
    if (instruction.kind == Kind::Carried && loops_[i] == kNoLoop) {
      return fail("%{} is carried by no loop", i);
    }
    if (instruction.operands.size() != arity) {
      return fail("%{} takes {} operands, has {}", i, arity, instruction.operands.size());
    }
    const bool computes = instruction.kind == Kind::Scalar || instruction.kind == Kind::Carried ||
                          instruction.kind == Kind::Last;
    if (computes && std::ranges::any_of(instruction.operands, is_vector) != instruction.vector) {
      return fail("%{}: a scalar op is a vector if an operand is", i);
    }
    if (instruction.kind == Kind::Store && is_vector(instruction.operands[0]) &&
        !instruction.vector) {
      return fail("%{} stores a vector into one element", i);
    }
    return {};
  }

  static size_t arity_of(const Instruction& instruction) {
    switch (instruction.kind) {
      case Kind::Load:
      case Kind::Constant:
        return 0;
      case Kind::Scalar:
        return is_scalar(instruction.op) ? static_cast<size_t>(info(instruction.op).arity) : 0;
      case Kind::Carried:
        return 2;
      case Kind::Reduce:
      case Kind::Store:
      case Kind::Last:
        break;
    }
    return 1;
  }

  const Kernel& kernel_;
  std::vector<uint32_t> loops_;   // by instruction
  std::vector<uint32_t> around_;  // by loop
};

}  // namespace

Status verify_kernel(const Kernel& kernel) {
  return KernelVerifier(kernel).run();
}

}  // namespace rnnc
