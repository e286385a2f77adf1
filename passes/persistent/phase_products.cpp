// Of each phase the kernel is made anew: results that it loaded are arguments that products make.
#include "passes/persistent/phase_products.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "passes/lower/kernel_builder.h"
#include "passes/lower/once_stages.h"

namespace rnnc {
namespace {

/// A phase whose kernel takes results of products in the place of loads. Where it does nothing with
/// a result but add it to one of its own products', they are one result.
class PhaseBuilder {
 public:
  PhaseBuilder(Plan& plan, const FusedLaunch& phase)
      : plan_(plan), phase_(phase), kernel_(plan.kernels[phase.kernel]) {}

  /// False if the phase loads of the results what cannot be a result of its own. `parts`: products
  /// that are added up, the first and those that accumulate.
  bool take(std::span<const GemmLaunch> parts) {
    const GemmLaunch& gemm = parts[0];
    std::map<int64_t, uint32_t> loaded;  // column of the results → argument
    for (uint32_t i = 0; i < phase_.accesses.size(); ++i) {
      if (kernel_.arguments[i].product || phase_.accesses[i].buffer != gemm.out.buffer) continue;
      if (!is_result(gemm, i)) return false;
      loaded.emplace(phase_.accesses[i].column - gemm.out.column, i);
    }
    std::optional<uint32_t> next;  // the result that the next member would be added to
    for (const auto& [column, argument] : loaded) {
      const std::optional<Sum> sum = sum_of(argument);
      Taken* const last = taken_.empty() ? nullptr : &taken_.back();
      const bool joins =
          last != nullptr && last->parts.data() == parts.data() && last->is_sum == bool(sum) &&
          column == last->column + last->members * kernel_.length && (!sum || sum->result == next);
      if (joins) {
        ++last->members;
      } else {
        taken_.push_back({parts, column, 1, sum ? sum->result : 0, sum.has_value()});
      }
      if (sum) {
        next = sum->result + 1;
        sums_.emplace(argument, *sum);
      }
    }
    return true;
  }

  /// What was taken comes before the phase's own products: what it reads is there earlier.
  FusedLaunch finish() {
    if (taken_.empty()) return phase_;
    std::vector<uint32_t> arguments(kernel_.arguments.size());  // old → new
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (kernel_.arguments[i].product) arguments[i] = add(kernel_.arguments[i], {});
    }
    std::map<std::pair<BufferId, int64_t>, uint32_t> results;
    for (const Taken& taken : taken_) {
      const Access& out = taken.parts[0].out;
      uint32_t first = taken.is_sum ? arguments[taken.result] : 0;
      for (uint32_t m = 0; !taken.is_sum && m < taken.members; ++m) {
        const uint32_t argument =
            add({.dtype = compute_type(plan_.dtype), .vector = true, .product = true}, Access{});
        if (m == 0) first = argument;
        results[{out.buffer, out.column + taken.column + m * kernel_.length}] = argument;
      }
      for (const GemmLaunch& part : taken.parts) {
        Access weight = part.weight;
        weight.column += taken.column * part.k;
        made_.products.push_back({part.left, weight, part.k, part.blocks, first, taken.members});
      }
    }
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      if (kernel_.arguments[i].product || sums_.contains(i)) continue;
      const Access& access = phase_.accesses[i];
      const auto result = results.find({access.buffer, access.column});
      arguments[i] = result == results.end() ? add(kernel_.arguments[i], access) : result->second;
    }
    for (FusedLaunch::Product product : phase_.products) {
      product.first_argument = arguments[product.first_argument];
      made_.products.push_back(product);
    }
    kernel_.arguments = std::move(arguments_);
    rewrite(arguments);
    made_.kernel = add_kernel(plan_, std::move(kernel_));
    return std::move(made_);
  }

 private:
  /// An instruction that adds a loaded value to a product's result and is the one user of both.
  struct Sum {
    uint32_t result = 0;  // argument
    uint32_t load = 0, result_load = 0, add = 0;
  };
  struct Taken {
    std::span<const GemmLaunch> parts;
    int64_t column = 0;  // of their results
    uint32_t members = 0;
    uint32_t result = 0;  // of a sum: the argument
    bool is_sum = false;
  };

  bool is_result(const GemmLaunch& gemm, size_t argument) const {
    const Access& access = phase_.accesses[argument];
    const int64_t behind = access.column - gemm.out.column;
    const bool whole = gemm.blocks == 1 ||
                       (gemm.n * gemm.blocks == kernel_.length && behind % kernel_.length == 0);
    return whole && !kernel_.arguments[argument].written && kernel_.arguments[argument].vector &&
           access.delay == 0 && behind >= 0 &&
           behind + kernel_.length <= gemm.n * gemm.blocks * gemm.repeats;
  }

  std::optional<Sum> sum_of(uint32_t argument) const {
    const std::vector<uint32_t> loads = loads_of(argument);
    if (loads.size() != 1) return std::nullopt;
    const std::vector<uint32_t> users = users_of(loads[0]);
    if (users.size() != 1 || kernel_.body[users[0]].op != Op::Add ||
        kernel_.body[users[0]].kind != Instruction::Kind::Scalar) {
      return std::nullopt;
    }
    const std::vector<uint32_t>& operands = kernel_.body[users[0]].operands;
    const uint32_t other = operands[0] == loads[0] ? operands[1] : operands[0];
    const Instruction& load = kernel_.body[other];
    if (load.kind != Instruction::Kind::Load || !kernel_.arguments[load.argument].product ||
        loads_of(load.argument).size() != 1 || users_of(other).size() != 1) {
      return std::nullopt;
    }
    return Sum{load.argument, loads[0], other, users[0]};
  }

  std::vector<uint32_t> loads_of(uint32_t argument) const {
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      const Instruction& one = kernel_.body[id];
      if (one.kind == Instruction::Kind::Load && one.argument == argument) ids.push_back(id);
    }
    return ids;
  }

  /// Once for each operand.
  std::vector<uint32_t> users_of(uint32_t value) const {
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      ids.insert(ids.end(),
                 static_cast<size_t>(std::ranges::count(kernel_.body[id].operands, value)), id);
    }
    return ids;
  }

  uint32_t add(const Kernel::Argument& argument, const Access& access) {
    arguments_.push_back(argument);
    made_.accesses.push_back(access);
    return static_cast<uint32_t>(arguments_.size() - 1);
  }

  /// The body, with new arguments, and without sums that products make themselves.
  void rewrite(const std::vector<uint32_t>& arguments) {
    std::map<uint32_t, uint32_t> in_place;  // of a sum: the result's load
    std::set<uint32_t> gone;
    for (const auto& [argument, sum] : sums_) {
      in_place[sum.add] = sum.result_load;
      gone.insert({sum.load, sum.add});
    }
    std::vector<uint32_t> ids;  // old → new
    std::vector<Instruction> body;
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      const auto other = in_place.find(id);
      ids.push_back(other == in_place.end() ? static_cast<uint32_t>(body.size())
                                            : ids[other->second]);
      if (gone.contains(id)) continue;
      Instruction instruction = kernel_.body[id];
      const bool has_argument = instruction.kind == Instruction::Kind::Load ||
                                instruction.kind == Instruction::Kind::Store;
      if (has_argument) instruction.argument = arguments[instruction.argument];
      for (uint32_t& operand : instruction.operands) operand = ids[operand];
      body.push_back(std::move(instruction));
    }
    kernel_.body = std::move(body);
  }

  Plan& plan_;
  const FusedLaunch& phase_;
  Kernel kernel_;
  std::vector<Taken> taken_;
  std::map<uint32_t, Sum> sums_;  // by the argument that is loaded
  std::vector<Kernel::Argument> arguments_;
  FusedLaunch made_;
};

}  // namespace

bool is_time_parallel(const Stage& stage) {
  return stage.domain == Domain::Sequence && stage.recurrence == RecurrenceClass::None;
}

bool PhaseProducts::add(const GemmLaunch& gemm) {
  if (gemm.weight.stride != 0) return false;
  if (!gemm.accumulate) {
    products_.push_back({gemm});
  } else {
    const auto found = std::ranges::find_if(products_, [&](const std::vector<GemmLaunch>& parts) {
      const GemmLaunch& first = parts[0];
      return first.out.buffer == gemm.out.buffer && first.out.column == gemm.out.column &&
             first.n == gemm.n && first.blocks == gemm.blocks && first.repeats == gemm.repeats;
    });
    if (found == products_.end()) return false;
    found->push_back(gemm);
  }
  return true;
}

bool PhaseProducts::make(BufferId buffer) const {
  return std::ranges::any_of(products_, [buffer](const std::vector<GemmLaunch>& parts) {
    return parts[0].out.buffer == buffer;
  });
}

std::vector<Launch> PhaseProducts::turn_weights(Plan& plan) {
  std::vector<Launch> once;
  for (std::vector<GemmLaunch>& parts : products_) {
    for (GemmLaunch& part : parts) {
      if (!part.transposed) continue;
      part.weight = turn_weight(plan, part, once);
      part.transposed = false;
    }
  }
  return once;
}

std::optional<std::vector<FusedLaunch>> PhaseProducts::as_products_of(
    Plan& plan, std::span<const FusedLaunch> phases) const {
  std::vector<FusedLaunch> made;
  for (const FusedLaunch& phase : phases) {
    PhaseBuilder builder(plan, phase);
    for (const std::vector<GemmLaunch>& parts : products_) {
      if (!builder.take(parts)) return std::nullopt;
    }
    made.push_back(builder.finish());
  }
  return made;
}

}  // namespace rnnc
