// 1. A fused launch is a phase as it is, an elementwise launch one without products.
// 2. A product whose results only one elementwise launch reads becomes part of that one's phase:
//    its kernel is made anew, with the results in the place of what it loaded.
// 3. Any other product is a phase that stores its results.
#include "passes/persistent/recurrence_phases.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/plan/buffer_uses.h"
#include "ir/plan/plan_touches.h"
#include "passes/lower/kernel_builder.h"

namespace rnnc {
namespace {

int64_t length_of(const GemmLaunch& gemm) {
  return gemm.n * gemm.blocks;
}

/// Results of `length` elements each that the product is made of; 0 if it is not.
int64_t results_of(const GemmLaunch& gemm, int64_t length) {
  if (gemm.blocks == 1 && gemm.n % length == 0) return gemm.repeats * (gemm.n / length);
  return length_of(gemm) == length ? gemm.repeats : 0;
}

/// Step 3: the repeats are the members.
FusedLaunch storing_phase(Plan& plan, const GemmLaunch& gemm) {
  FusedLaunch phase;
  const auto members = static_cast<uint32_t>(gemm.repeats);
  phase.products.push_back({gemm.left, gemm.weight, gemm.k, gemm.blocks, 0, members});
  KernelBuilder builder(plan, length_of(gemm));
  std::vector<uint32_t> results;
  for (uint32_t i = 0; i < members; ++i) results.push_back(builder.product());
  Access out = gemm.out;
  for (uint32_t result : results) {
    if (gemm.accumulate) {
      result = builder.scalar(Op::Add, {builder.load(out, /*vector=*/true), result});
    }
    builder.store(out, /*vector=*/true, result);
    out.column += length_of(gemm);
  }
  ElementwiseLaunch kernel = builder.finish();
  phase.kernel = kernel.kernel;
  phase.accesses = std::move(kernel.accesses);
  return phase;
}

class Phases {
 public:
  Phases(Plan& plan, size_t stage)
      : plan_(plan), index_(stage), stage_(plan.stages[stage]), uses_(plan) {}

  Result<std::vector<FusedLaunch>> run() {
    if (const uint32_t reach = reach_of(stage_); reach > 1) {
      return fail("it reads its states {} steps back", reach);
    }
    for (size_t i = 0; i < stage_.launches.size(); ++i) {
      const Launch& launch = stage_.launches[i];
      if (const auto* fused = std::get_if<FusedLaunch>(&launch)) {
        phases_.push_back(*fused);
      } else if (const auto* kernel = std::get_if<ElementwiseLaunch>(&launch)) {
        phases_.push_back(elementwise_phase(i, *kernel));
      } else if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
        if (gemm->transposed) return fail("a product takes its weights transposed");
        if (const std::optional<size_t> reader = only_reader(i, *gemm)) {
          absorbed_[*reader].push_back(gemm);
        } else {
          phases_.push_back(storing_phase(plan_, *gemm));
        }
      } else {
        return fail("it has a launch that is no product");
      }
    }
    return std::move(phases_);
  }

 private:
  /// How far back the stage reads what it stores.
  uint32_t reach_of(const Stage& stage) const {
    std::set<BufferId> stored;
    std::map<BufferId, uint32_t> reach;
    for (const Launch& launch : stage.launches) {
      for (const Touch& touch : touches(plan_, launch)) {
        if (touch.write) stored.insert(touch.access.buffer);
        uint32_t& delay = reach[touch.access.buffer];
        delay = std::max(delay, touch.access.delay);
      }
    }
    uint32_t longest = 0;
    for (const BufferId buffer : stored) longest = std::max(longest, reach[buffer]);
    return longest;
  }

  /// Step 2: the launch behind product `i` whose kernel loads whole results of it, if nothing else
  /// reads them.
  std::optional<size_t> only_reader(size_t i, const GemmLaunch& gemm) const {
    const Buffer& out = plan_.buffers[gemm.out.buffer];
    if (gemm.accumulate || out.extent != Extent::Batch || out.role != Role::Temporary) {
      return std::nullopt;
    }
    std::optional<LaunchPlace> reader;
    for (const BufferUse& use : uses_.of(gemm.out.buffer)) {
      if (use.place == LaunchPlace{index_, i}) continue;
      if (!use.place || (reader && reader != use.place)) return std::nullopt;
      reader = use.place;
    }
    if (!reader || reader->stage != index_ || reader->launch < i) return std::nullopt;
    const auto* launch = std::get_if<ElementwiseLaunch>(&stage_.launches[reader->launch]);
    if (launch == nullptr || !loads_whole_results(*launch, gemm)) return std::nullopt;
    return reader->launch;
  }

  bool loads_whole_results(const ElementwiseLaunch& launch, const GemmLaunch& gemm) const {
    const Kernel& kernel = plan_.kernels[launch.kernel];
    const int64_t results = results_of(gemm, kernel.length);
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const Access& access = launch.accesses[i];
      if (access.buffer != gemm.out.buffer) continue;
      const int64_t behind = access.column - gemm.out.column;
      if (kernel.arguments[i].written || !kernel.arguments[i].vector || behind < 0 ||
          behind % kernel.length != 0 || behind / kernel.length >= results) {
        return false;
      }
    }
    return results > 0;
  }

  /// Results come first among the arguments, a product's one after the other.
  FusedLaunch elementwise_phase(size_t index, const ElementwiseLaunch& launch) {
    FusedLaunch phase = {.kernel = launch.kernel, .accesses = launch.accesses, .products = {}};
    const auto absorbed = absorbed_.find(index);
    if (absorbed == absorbed_.end()) return phase;
    Kernel kernel;
    kernel.length = plan_.kernels[launch.kernel].length;
    phase.accesses.clear();
    std::map<std::pair<BufferId, int64_t>, uint32_t> results;  // column → argument
    for (const GemmLaunch* gemm : absorbed->second) {
      const auto first = static_cast<uint32_t>(kernel.arguments.size());
      const auto members = static_cast<uint32_t>(results_of(*gemm, kernel.length));
      phase.products.push_back({gemm->left, gemm->weight, gemm->k, gemm->blocks, first, members});
      for (uint32_t m = 0; m < members; ++m) {
        results[{gemm->out.buffer, gemm->out.column + m * kernel.length}] = first + m;
        kernel.arguments.push_back(
            {.dtype = compute_type(plan_.dtype), .vector = true, .product = true});
        phase.accesses.emplace_back();
      }
    }
    const Kernel& old = plan_.kernels[launch.kernel];
    std::vector<uint32_t> arguments;  // old index → new index
    for (size_t i = 0; i < old.arguments.size(); ++i) {
      const auto result = results.find({launch.accesses[i].buffer, launch.accesses[i].column});
      if (result != results.end()) {
        arguments.push_back(result->second);
        continue;
      }
      arguments.push_back(static_cast<uint32_t>(kernel.arguments.size()));
      kernel.arguments.push_back(old.arguments[i]);
      phase.accesses.push_back(launch.accesses[i]);
    }
    kernel.body = old.body;
    for (Instruction& instruction : kernel.body) {
      const bool has_argument = instruction.kind == Instruction::Kind::Load ||
                                instruction.kind == Instruction::Kind::Store;
      if (has_argument) instruction.argument = arguments[instruction.argument];
    }
    phase.kernel = static_cast<uint32_t>(plan_.kernels.size());
    kernel.name = fmt::format("elementwise_{}", plan_.kernels.size());
    plan_.kernels.push_back(std::move(kernel));
    return phase;
  }

  Plan& plan_;
  const size_t index_;
  const Stage& stage_;  // of that index
  const BufferUses uses_;
  std::map<size_t, std::vector<const GemmLaunch*>> absorbed_;  // by the launch that reads
  std::vector<FusedLaunch> phases_;
};

}  // namespace

Result<std::vector<FusedLaunch>> recurrence_phases(Plan& plan, size_t stage) {
  return Phases(plan, stage).run();
}

}  // namespace rnnc
