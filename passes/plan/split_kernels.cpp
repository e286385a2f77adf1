// 1. Cut the body into pieces of instructions that follow each other, each cut where the fewest
//    values cross it.
// 2. A value that crosses one has a place of its own, of the compute type, in a buffer of the
//    launch. Constants, and loads of what the launch does not write, are made anew instead.
// 3. Each piece is a launch in the place of the one that there was.
// 4. Kernels that no launch runs any more go.
#include "passes/plan/split_kernels.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "ir/plan/state_steps.h"
#include "passes/lower/kernel_builder.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

/// Of a piece, which may be half as long where fewer values cross the cut. NVRTC takes less than half
/// as long for two kernels of 240 instructions as for one of 480; a CPU's threads meet after each.
struct PieceLimits {
  size_t instructions;
  size_t arrays;
};
constexpr PieceLimits kCpuPiece = {512, 192};
constexpr PieceLimits kGpuPiece = {320, 128};

class KernelSplitter {
 public:
  KernelSplitter(Plan& plan, const Stage& stage, const ElementwiseLaunch& launch,
                 const PieceLimits& most)
      : plan_(plan),
        stage_(stage),
        launch_(launch),
        kernel_(plan.kernels[launch.kernel]),
        most_(most) {
    const std::vector<Instruction>& body = kernel_.body;
    for (const Instruction& instruction : body) {
      if (instruction.kind == Kind::Store) written_.insert(buffer_of(instruction));
    }
    last_use_.assign(body.size(), 0);
    for (uint32_t id = 0; id < body.size(); ++id) {
      for (const uint32_t operand : body[id].operands) last_use_[operand] = id;
    }
  }

  std::vector<Launch> split() {
    find_cuts();
    add_buffer();
    std::vector<Launch> pieces;
    for (size_t i = 0; i + 1 < cuts_.size(); ++i) pieces.push_back(piece(cuts_[i], cuts_[i + 1]));
    return pieces;
  }

 private:
  BufferId buffer_of(const Instruction& instruction) const {
    return launch_.accesses[instruction.argument].buffer;
  }

  bool is_made_anew(const Instruction& instruction) const {
    return instruction.kind == Kind::Constant ||
           (instruction.kind == Kind::Load && !written_.contains(buffer_of(instruction)));
  }

  // ---- Step 1 ----

  void find_cuts() {
    const std::vector<Instruction>& body = kernel_.body;
    std::vector<size_t> crossing(body.size() + 1, 0);  // by cut, in front of an instruction
    std::vector<int64_t> change(body.size() + 2, 0);
    for (uint32_t id = 0; id < body.size(); ++id) {
      if (is_made_anew(body[id]) || last_use_[id] == 0) continue;
      ++change[id + 1];
      --change[last_use_[id] + 1];
    }
    int64_t count = 0;
    for (size_t cut = 0; cut <= body.size(); ++cut) {
      count += change[cut];
      crossing[cut] = static_cast<size_t>(count);
    }
    cuts_ = {0};
    while (body.size() - cuts_.back() > most_.instructions || arrays(cuts_.back()) < body.size()) {
      const size_t begin = cuts_.back();
      const size_t end = std::min({begin + most_.instructions, arrays(begin), body.size() - 1});
      size_t best = end;
      for (size_t cut = end; cut > begin + (end - begin) / 2; --cut) {
        if (crossing[cut] < crossing[best]) best = cut;
      }
      cuts_.push_back(best);
    }
    cuts_.push_back(body.size());
  }

  /// The end of the longest piece from there on that has no more arrays than may be, but for what it
  /// hands on.
  size_t arrays(size_t begin) const {
    std::set<uint32_t> taken;  // from earlier pieces
    size_t own = 0;
    for (size_t id = begin; id < kernel_.body.size(); ++id) {
      const Instruction& instruction = kernel_.body[id];
      if (instruction.kind == Kind::Load || instruction.kind == Kind::Store) ++own;
      for (const uint32_t operand : instruction.operands) {
        if (operand < begin && kernel_.body[operand].kind != Kind::Constant) taken.insert(operand);
      }
      if (id > begin && own + taken.size() > most_.arrays) return id;
    }
    return kernel_.body.size();
  }

  size_t piece_of(uint32_t id) const {
    return static_cast<size_t>(std::ranges::upper_bound(cuts_, id) - cuts_.begin());
  }

  // ---- Step 2 ----

  bool crosses(uint32_t id) const {
    return !is_made_anew(kernel_.body[id]) && piece_of(last_use_[id]) > piece_of(id);
  }

  void add_buffer() {
    // Rows of a matrix that does not change lie one behind the other, those of steps side by side.
    const bool is_of_steps = is_of_sweeps(stage_.domain);
    const int64_t rows = is_of_steps ? 1 : launch_.once_rows;
    places_.assign(kernel_.body.size(), {});
    Buffer buffer;
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      if (!crosses(id)) continue;
      const int64_t elements = kernel_.body[id].vector ? kernel_.length : 1;
      places_[id] = {.buffer = static_cast<BufferId>(plan_.buffers.size()),
                     .column = buffer.width,
                     .stride = elements};
      buffer.width += rows * elements;
    }
    if (buffer.width == 0) return;
    buffer.name = kernel_.name + "@pieces";
    buffer.dtype = compute_type(plan_.dtype);
    if (is_of_steps) {
      for (Access& place : places_) place.stride = buffer.width;
    } else {
      buffer.extent = Extent::Invariant;
    }
    if (stage_.domain == Domain::Once) buffer.placement = Placement::Program;
    if (stage_.domain == Domain::Sequence) {
      buffer.extent = Extent::Chunk;
      buffer.sweep = stage_.sweep;
      buffer.lag = stage_.lag;
    }
    plan_.buffers.push_back(std::move(buffer));
  }

  // ---- Step 3 ----

  ElementwiseLaunch piece(size_t begin, size_t end) {
    KernelBuilder builder(plan_, kernel_.length);
    std::map<uint32_t, uint32_t> made;  // by instruction of the whole
    const auto make = [&](uint32_t id) {
      const auto found = made.find(id);
      return found != made.end() ? found->second : made[id] = operand(id, builder);
    };
    for (uint32_t id = static_cast<uint32_t>(begin); id < end; ++id) {
      const Instruction& instruction = kernel_.body[id];
      switch (instruction.kind) {
        case Kind::Constant:
          break;  // where it is needed
        case Kind::Load:
          if (!is_made_anew(instruction)) made[id] = load(instruction, builder);
          break;
        case Kind::Scalar: {
          std::vector<uint32_t> operands;
          std::ranges::transform(instruction.operands, std::back_inserter(operands), make);
          made[id] = builder.scalar(instruction.op, std::move(operands));
          break;
        }
        case Kind::Reduce:
          made[id] = builder.reduce(instruction.op, make(instruction.operands[0]));
          break;
        case Kind::Store:
          builder.store(launch_.accesses[instruction.argument],
                        kernel_.arguments[instruction.argument].vector,
                        make(instruction.operands[0]));
          break;
        case Kind::Carried:
        case Kind::Last:
          RNNC_CHECK(false, "kernels with loops stay as they are");
      }
      if (instruction.kind != Kind::Store && crosses(id)) {
        builder.store(places_[id], instruction.vector, made.at(id));
      }
    }
    return builder.finish(launch_.once_rows);
  }

  /// What an earlier piece, or none, has.
  uint32_t operand(uint32_t id, KernelBuilder& builder) const {
    const Instruction& instruction = kernel_.body[id];
    if (instruction.kind == Kind::Constant) return builder.constant(instruction.value);
    if (is_made_anew(instruction)) return load(instruction, builder);
    return builder.load(places_[id], instruction.vector);
  }

  uint32_t load(const Instruction& instruction, KernelBuilder& builder) const {
    return builder.load(launch_.accesses[instruction.argument],
                        kernel_.arguments[instruction.argument].vector);
  }

  Plan& plan_;
  const Stage& stage_;
  const ElementwiseLaunch launch_;
  const Kernel kernel_;
  const PieceLimits most_;
  std::set<BufferId> written_;
  std::vector<uint32_t> last_use_;  // by instruction
  std::vector<size_t> cuts_;        // where pieces begin, and the end of the last one
  std::vector<Access> places_;      // by instruction that crosses a cut
};

// ---- Step 4 ----

/// All places where the plan says which kernel a launch runs.
template <typename Visit>
void for_each_kernel_of(Plan& plan, const Visit& visit) {
  for (Stage& stage : plan.stages) {
    for (Launch& launch : stage.launches) {
      std::visit(
          [&](auto& one) {
            if constexpr (requires { one.kernel; }) visit(one.kernel);
            if constexpr (requires { one.phases; }) {
              for (FusedLaunch& phase : one.phases) visit(phase.kernel);
            }
          },
          launch);
    }
  }
  for (StatePlan& state : plan.states) {
    for (const auto member : kStateLaunches) {
      ElementwiseLaunch& launch = state.*member;
      if (!launch.accesses.empty()) visit(launch.kernel);
    }
  }
}

/// Of these, those that no launch runs go; others keep their order.
void drop_unused(Plan& plan, const std::set<uint32_t>& kernels) {
  std::vector<bool> used(plan.kernels.size(), false);
  for_each_kernel_of(plan, [&](uint32_t kernel) { used[kernel] = true; });
  std::vector<uint32_t> renamed;
  std::vector<Kernel> rest;
  for (uint32_t i = 0; i < plan.kernels.size(); ++i) {
    renamed.push_back(static_cast<uint32_t>(rest.size()));
    if (used[i] || !kernels.contains(i)) rest.push_back(std::move(plan.kernels[i]));
  }
  plan.kernels = std::move(rest);
  for_each_kernel_of(plan, [&](uint32_t& kernel) { kernel = renamed[kernel]; });
}

}  // namespace

bool is_too_long(const Kernel& kernel) {
  return kernel.body.size() > kMostInstructions || kernel.arguments.size() > kMostArguments;
}

bool run_split_kernels(Plan& plan, const Machine& machine) {
  const PieceLimits& most = machine.kind == Machine::Kind::Cpu ? kCpuPiece : kGpuPiece;
  std::set<uint32_t> split;
  for (Stage& stage : plan.stages) {
    std::vector<Launch> launches;
    for (Launch& launch : stage.launches) {
      const auto* elementwise = std::get_if<ElementwiseLaunch>(&launch);
      const Kernel* kernel = elementwise == nullptr ? nullptr : &plan.kernels[elementwise->kernel];
      if (kernel == nullptr || !kernel->loops.empty() || !is_too_long(*kernel)) {
        launches.push_back(std::move(launch));
        continue;
      }
      split.insert(elementwise->kernel);
      std::ranges::move(KernelSplitter(plan, stage, *elementwise, most).split(),
                        std::back_inserter(launches));
    }
    stage.launches = std::move(launches);
  }
  if (!split.empty()) drop_unused(plan, split);
  return !split.empty();
}

}  // namespace rnnc
