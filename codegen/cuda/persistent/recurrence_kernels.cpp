// Launches whose code is the same but for the name share a shape.
#include "codegen/cuda/persistent/recurrence_kernels.h"

#include <algorithm>
#include <map>

#include "codegen/cuda/device/prelude.h"
#include "codegen/cuda/persistent/emit_recurrence.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {

CudaRecurrenceKernels::CudaRecurrenceKernels(const Plan& plan) {
  std::map<RecurrenceFunction, uint32_t> known;  // index of the shape
  for (const Stage& stage : plan.stages) {
    for (const Launch& one : stage.launches) {
      const auto* launch = std::get_if<RecurrenceLaunch>(&one);
      if (launch == nullptr) continue;
      const RecurrenceTile& tile = launch->tile;
      Parameters& parameters = parameters_[launch];
      std::vector<RecurrenceLayout> sides;
      int64_t shared_bytes = 0;
      for (size_t i = 0; i < tile.sides.size(); ++i) {
        const RecurrenceLayout& side = sides.emplace_back(plan, *launch, i);
        shared_bytes = std::max(shared_bytes, side.shared_bytes());
        parameters.accesses.insert(parameters.accesses.end(), side.accesses().begin(),
                                   side.accesses().end());
      }
      const auto [found, is_new] = known.try_emplace(emit_recurrence_function(plan, tile, sides),
                                                     static_cast<uint32_t>(shapes_.size()));
      parameters.shape = found->second;
      most_accesses_ = std::max(most_accesses_, parameters.accesses.size());
      if (!is_new) {
        double& step = shapes_[parameters.shape].step_seconds;
        step = std::min(step, tile.step_seconds);
        continue;
      }
      const std::string name = fmt::format("r{}", shapes_.size());
      shapes_.push_back({.name = name,
                         .threads = static_cast<uint32_t>(32 * tile.warps),
                         .shared_bytes = static_cast<uint32_t>(shared_bytes),
                         .blocks = static_cast<uint32_t>(all_blocks(tile)),
                         .cluster = static_cast<uint32_t>(tile.clusters ? tile.blocks : 1),
                         .step_seconds = tile.step_seconds});
      if (code_.empty()) {
        code_ += fmt::format("\nconstexpr unsigned long long kWatchdogSeconds = {};\n",
                             RNNC_WATCHDOG_SECONDS);
        code_ += kCudaRecurrence;
      }
      code_ += '\n';
      code_ += found->first.text(name);
    }
  }
}

}  // namespace rnnc
