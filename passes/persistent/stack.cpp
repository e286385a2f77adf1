// From each resident recurrence on, for as many of its sweep as come behind it, on copies of the
// plan:
// 1. What lies between two of them must be products of what the lower ones store, of which nothing
//    but the upper one's kernels reads the results. What does not depend on the lower ones goes
//    ahead, and what the upper one does not depend on goes behind both.
// 2. Such products become products of the phases that load their results, whose kernels are made
//    anew (ir/plan/plan.h: FusedLaunch). The phases are a side of the lower ones' launch.
// 3. Of the stacks that come about the tallest is taken that fits on the machine. Where one does
//    not, its layers are shared out over several, as equally as can be.
#include "passes/persistent/stack.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "ir/base/arithmetic.h"
#include "ir/base/launch_limits.h"
#include "ir/plan/buffer_uses.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/plan_verify_parts.h"
#include "passes/lower/kernel_builder.h"
#include "passes/lower/once_stages.h"
#include "passes/lower/unused_buffers.h"
#include "passes/persistent/merge_sums.h"
#include "passes/persistent/recurrence_buffers.h"

namespace rnnc {
namespace {

TouchedBuffers buffers_of(const Plan& plan, const Launch& launch) {
  TouchedBuffers buffers;
  buffers.add(plan, launch);
  return buffers;
}

RecurrenceLaunch& recurrence_of(Stage& stage) {
  return std::get<RecurrenceLaunch>(stage.launches[0]);
}

bool is_time_parallel(const Stage& stage) {
  return stage.domain == Domain::Sequence && stage.recurrence == RecurrenceClass::None;
}

// ---- Products as those of a phase ----

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

// ---- Two recurrences ----

/// Puts a recurrence on top of another one, which may be a stack.
class Joint {
 public:
  /// Stages of the plan. Between them is at most one.
  Joint(Plan& plan, size_t lower, size_t upper) : plan_(plan), lower_(lower), upper_(upper) {}

  /// The number of the stage that both have become; none if they cannot.
  std::optional<size_t> run() {
    const TouchedBuffers lower = buffers_of(plan_, plan_.stages[lower_].launches[0]);
    const TouchedBuffers upper = buffers_of(plan_, plan_.stages[upper_].launches[0]);
    if (!sort_between(lower, upper) || !is_exclusive()) return std::nullopt;
    if (intersect(upper.written, lower.written) || intersect(upper.written, lower.read)) {
      return std::nullopt;
    }
    turn_weights();
    RecurrenceLaunch& stack = recurrence_of(plan_.stages[lower_]);
    const std::vector<FusedLaunch> phases = recurrence_of(plan_.stages[upper_]).phases;
    stack.tile.sides.push_back(stack.phases.size());
    const std::vector<BufferId>& sums = recurrence_of(plan_.stages[upper_]).sums;
    stack.sums.insert(stack.sums.end(), sums.begin(), sums.end());
    for (const FusedLaunch& phase : phases) {
      PhaseBuilder builder(plan_, phase);
      for (const std::vector<GemmLaunch>& parts : products_) {
        if (!builder.take(parts)) return std::nullopt;
      }
      stack.phases.push_back(builder.finish());
    }
    join_stages();
    return lower_;
  }

 private:
  /// Step 1.
  bool sort_between(const TouchedBuffers& lower, const TouchedBuffers& upper) {
    if (upper_ == lower_ + 1) return true;
    TouchedBuffers stay, behind;  // of what is not ahead; of that, of what is behind
    const std::vector<Launch>& launches = plan_.stages[lower_ + 1].launches;
    for (size_t i = 0; i < launches.size(); ++i) {
      const Launch& launch = launches[i];
      const TouchedBuffers own = buffers_of(plan_, launch);
      if (are_independent(own, lower) && are_independent(own, stay)) {
        ahead_.push_back(launch);
        continue;
      }
      stay.add(plan_, launch);
      if (are_independent(own, upper)) {
        behind_.push_back(launch);
        behind.add(plan_, launch);
        continue;
      }
      const auto* gemm = std::get_if<GemmLaunch>(&launch);
      if (gemm == nullptr || gemm->weight.stride != 0 || !are_independent(own, behind) ||
          !add_product(*gemm)) {
        return false;
      }
      absorbed_.push_back({lower_ + 1, i});
    }
    return true;
  }

  bool add_product(const GemmLaunch& gemm) {
    if (!gemm.accumulate) {
      products_.push_back({gemm});
      return true;
    }
    const auto found = std::ranges::find_if(products_, [&](const std::vector<GemmLaunch>& parts) {
      const GemmLaunch& first = parts[0];
      return first.out.buffer == gemm.out.buffer && first.out.column == gemm.out.column &&
             first.n == gemm.n && first.blocks == gemm.blocks && first.repeats == gemm.repeats;
    });
    if (found == products_.end()) return false;
    found->push_back(gemm);
    return true;
  }

  /// Whether nothing but its products writes results, and nothing but the upper recurrence's
  /// kernels reads them.
  bool is_exclusive() const {
    if (products_.empty()) return true;
    const BufferUses uses(plan_);
    std::vector<LaunchPlace> both = absorbed_;
    both.push_back({upper_, 0});
    return std::ranges::all_of(products_, [&](const std::vector<GemmLaunch>& parts) {
      const BufferId id = parts[0].out.buffer;
      const Buffer& out = plan_.buffers[id];
      return out.role == Role::Temporary && out.extent == Extent::Chunk && uses.are_of(id, both) &&
             !is_multiplied(id);
    });
  }

  /// By a product of the upper recurrence, or by one of those between.
  bool is_multiplied(BufferId buffer) const {
    const auto is_left = [buffer](const auto& product) { return product.left.buffer == buffer; };
    const auto multiplies = [&](const FusedLaunch& phase) {
      return std::ranges::any_of(phase.products, is_left);
    };
    return std::ranges::any_of(products_,
                               [&](const std::vector<GemmLaunch>& parts) {
                                 return std::ranges::any_of(parts, is_left);
                               }) ||
           std::ranges::any_of(recurrence_of(plan_.stages[upper_]).phases, multiplies);
  }

  /// A phase's products have theirs by rows of k.
  void turn_weights() {
    std::vector<Launch> once;
    for (std::vector<GemmLaunch>& parts : products_) {
      for (GemmLaunch& part : parts) {
        if (!part.transposed) continue;
        part.weight = turn_weight(plan_, part, once);
        part.transposed = false;
      }
    }
    const size_t stages = plan_.stages.size();
    append_once(plan_, once);
    lower_ += plan_.stages.size() - stages;
    upper_ += plan_.stages.size() - stages;
  }

  void join_stages() {
    const auto at = [this](size_t index) {
      return plan_.stages.begin() + static_cast<std::ptrdiff_t>(index);
    };
    Stage& stage = plan_.stages[lower_];
    const Stage& upper = plan_.stages[upper_];
    stage.name += ", " + upper.name;
    stage.recurrence = std::max(stage.recurrence, upper.recurrence);
    stage.phases = std::max(stage.phases, upper.phases);
    plan_.stages.erase(at(lower_ + 1), at(upper_ + 1));
    const uint32_t sweep = stage.sweep;
    const auto has_parallel = [&](size_t index) {
      return index < plan_.stages.size() && is_time_parallel(plan_.stages[index]) &&
             plan_.stages[index].sweep == sweep;
    };
    if (!behind_.empty()) {
      if (!has_parallel(lower_ + 1)) plan_.stages.insert(at(lower_ + 1), Stage{.sweep = sweep});
      std::vector<Launch>& after = plan_.stages[lower_ + 1].launches;
      after.insert(after.begin(), behind_.begin(), behind_.end());
    }
    if (ahead_.empty()) return;
    if (lower_ == 0 || !has_parallel(lower_ - 1)) {
      plan_.stages.insert(at(lower_), Stage{.sweep = sweep});
      ++lower_;
    }
    std::vector<Launch>& before = plan_.stages[lower_ - 1].launches;
    before.insert(before.end(), ahead_.begin(), ahead_.end());
  }

  Plan& plan_;
  size_t lower_, upper_;
  // Of what is between them:
  std::vector<Launch> ahead_, behind_;
  std::vector<std::vector<GemmLaunch>> products_;  // those that are added up together
  std::vector<LaunchPlace> absorbed_;              // where those are
};

// ---- Stacks ----

/// The recurrence behind a stage, if there is but a stage of time-parallel work between.
std::optional<size_t> next_recurrence(const Plan& plan, size_t stage) {
  const auto is_at = [&](size_t i) {
    return i < plan.stages.size() && plan.stages[i].sweep == plan.stages[stage].sweep;
  };
  size_t next = stage + 1;
  if (is_at(next) && is_time_parallel(plan.stages[next])) ++next;
  return is_at(next) && is_resident(plan.stages[next]) ? std::optional(next) : std::nullopt;
}

/// A plan in which a stage is a stack, that has no tile yet.
struct Stack {
  Plan plan;
  size_t stage = 0;
};

/// Of one more layer each, from a stage on that is a recurrence.
std::vector<Stack> stacks_from(const Plan& plan, size_t stage) {
  std::vector<Stack> stacks = {{plan, stage}};
  while (true) {
    Stack taller = stacks.back();
    const std::optional<size_t> next = next_recurrence(taller.plan, taller.stage);
    const std::optional<size_t> made =
        next ? Joint(taller.plan, taller.stage, *next).run() : std::nullopt;
    if (!made) return stacks;
    taller.stage = *made;
    stacks.push_back(std::move(taller));
  }
}

/// Where it is too tall for a kernel, whatever the machine: why layers have several.
std::string limit_of(const Stack& stack) {
  const auto& launch = std::get<RecurrenceLaunch>(stack.plan.stages[stack.stage].launches[0]);
  const size_t layers = launch.tile.sides.size();
  const int64_t arrays = count_arrays(stack.plan, launch.phases, layers);
  if (arrays <= kMostArrays) return "";
  return fmt::format(
      "`{}` at batch {} runs its {} layers in several launches: the kernel of one would take {} "
      "arrays, and may take {}",
      stack.plan.name, stack.plan.batch, layers, arrays, kMostArrays);
}

/// Chooses the tile.
Status finish(Stack& stack, const Machine& machine, TileChoice choice) {
  Stage& stage = stack.plan.stages[stack.stage];
  RecurrenceLaunch& launch = recurrence_of(stage);
  const std::vector<Launch> once = merge_sums(stack.plan, launch.phases);
  if (Status status = verify_arrays(stack.plan, launch); !status) return status;
  choice.sides = launch.tile.sides;
  Result<RecurrenceTile> tile = choose_recurrence_tile(stack.plan, launch.phases, machine, choice);
  if (!tile) return tl::unexpected(tile.error());
  launch.tile = *std::move(tile);
  add_exchange(stack.plan, launch);
  launch.stream = kNoBuffer;  // all weights of a stack are on the chip
  stage.reason +=
      "; stacked: each layer on its own share of the GPU, the ones below some steps "
      "ahead";
  const Status status = verify_recurrence(stack.plan, launch);
  const size_t stages = stack.plan.stages.size();
  append_once(stack.plan, once);
  stack.stage += stack.plan.stages.size() - stages;
  remove_unread_copies(stack.plan);
  return status;
}

}  // namespace

Result<bool> run_stack(Plan& plan, const Machine& machine, const TileChoice& choice) {
  if (machine.kind != Machine::Kind::Cuda) return false;
  bool changed = false;
  std::string reason = "no recurrence of it reads another by products alone, at the same step";
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    if (!is_resident(plan.stages[i])) continue;
    std::vector<Stack> stacks = stacks_from(plan, i);
    const size_t layers = stacks.size();
    const std::string limit = limit_of(stacks.back());
    for (size_t parts = 1; parts < layers; ++parts) {
      Stack& stack = stacks[ceil_div(layers, parts) - 1];
      if (Status status = finish(stack, machine, choice); !status) {
        reason = fmt::format("{}: {}", stack.plan.stages[stack.stage].name, status.error().message);
        continue;
      }
      remove_unused_temporaries(stack.plan);
      if (stack.plan.note.empty()) stack.plan.note = limit;
      plan = std::move(stack.plan);
      i = stack.stage;
      changed = true;
      break;
    }
  }
  if (!changed && choice.strategy == Strategy::Stacked) return fail("{}", reason);
  return changed;
}

}  // namespace rnnc
