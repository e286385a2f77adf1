// Launches with the same kernel, rounds, tiles and invariant arguments share an emitted kernel.
#include "codegen/cuda/elementwise/scan_kernels.h"

#include <algorithm>

#include "codegen/cuda/device/prelude.h"
#include "codegen/cuda/elementwise/emit_scan.h"
#include "codegen/cuda/elementwise/kernel_traits.h"
#include "codegen/cuda/elementwise/total_kernel.h"
#include "ir/plan/scan_values.h"
#include "ir/plan/waves.h"

namespace rnnc {
namespace {

constexpr int64_t kWordsOfState = 8;
constexpr int64_t kValuesOfFewWarps = 160;  // of a thread, four blocks beside each other

/// Of many channels blocks come and go, each of which mostly waits: for its ticket, its inputs, the
/// states before it. So many fit beside each other without keeping what they need in memory. (What
/// is added up takes the place of maps, which are done with by then.)
int64_t blocks_of(const ScanLaunch& launch, const ScanTraits& traits) {
  if (launch.warps > kWarpsOfManyChannels) return 1;
  const auto made = std::ranges::count_if(traits.made_in, [](int round) { return round >= 0; });
  const auto of_step = std::ranges::count(traits.kept, true) + made;
  const auto states = std::ssize(launch.carries) - 1;
  const int64_t values = launch.items * (launch.steps_of_warp * of_step + kWordsOfState * states);
  if (launch.warps < kWarpsOfManyChannels) {
    const auto of_channel = std::ranges::count(traits.invariant, true);  // totals among them
    return values + of_channel <= kValuesOfFewWarps ? 4 : 3;
  }
  if (launch.items > 1) return values <= kFewValues ? 4 : 2;
  return values <= kFewValues ? 4 : values <= 2 * kFewValues ? 3 : values <= 3 * kFewValues ? 2 : 1;
}

/// Of 16 bits short ones, but for a scan of one round that divides: quotients of all steps side by
/// side take registers that are not there. (One H100, minLSTM at 8x4096x1536 in bf16: 4.5 ps an
/// element, with 120 bytes of registers in memory, where whole functions took 3.4.)
Precision precision_of(const Plan& plan, const ScanLaunch& launch) {
  const bool divides =
      std::ranges::any_of(plan.kernels[launch.kernel].body, [](const Instruction& instruction) {
        return instruction.kind == Instruction::Kind::Scalar && instruction.op == Op::Div;
      });
  if (divides && launch.rounds.size() < 2) return Precision::Whole;
  return precision_of(plan.dtype);
}

ScanTraits traits_of(const Plan& plan, const ScanLaunch& launch) {
  ScanTraits traits = {.carries = launch.carries,
                       .rounds = launch.rounds,
                       .warps = launch.warps,
                       .steps_of_warp = launch.steps_of_warp,
                       .items = static_cast<int>(launch.items),
                       .group = static_cast<int>(launch.group),
                       .invariant = {},
                       .earlier = std::vector<bool>(launch.accesses.size(), false),
                       .totals = launch.totals,
                       .kept = scan_values(plan, launch),
                       .made_in = scan_values_of_rounds(plan, launch),
                       .bytes = {},
                       .strides = {},
                       .rows = plan.batch,
                       .precision = precision_of(plan, launch),
                       .descending = plan.descending};
  for (const uint32_t i : launch.earlier) traits.earlier[i] = true;
  for (const Access& access : launch.accesses) {
    const Buffer& buffer = plan.buffers[access.buffer];
    traits.invariant.push_back(buffer.extent == Extent::Invariant);
    traits.bytes.push_back(elements_per_step(plan, buffer) *
                           static_cast<int64_t>(size_of(buffer.dtype)));
    traits.strides.push_back(access.stride);
    if (traits.items > 1 && buffer.placement == Placement::Caller) traits.aligned = false;
  }
  traits.blocks = blocks_of(launch, traits);
  return traits;
}

}  // namespace

void add_scan_kernels(const Plan& plan, CudaModule& module) {
  struct Known {
    uint32_t kernel = 0;  // of the plan
    ScanTraits traits;
    uint32_t index = 0;  // in the module
  };
  std::vector<Known> known;
  for_each_launch_of<ScanLaunch>(plan, [&](LaunchId id, const ScanLaunch& launch) {
    const Kernel& kernel = plan.kernels[launch.kernel];
    const ScanTraits traits = traits_of(plan, launch);
    auto found = std::ranges::find_if(known, [&](const Known& one) {
      return one.kernel == launch.kernel && one.traits == traits;
    });
    if (found == known.end()) {
      if (known.empty()) module.source += kCudaScan;
      const std::string name = fmt::format("scan{}", known.size());
      const CudaScanShape shape = {.length = kernel.length / traits.items,
                                   .threads = static_cast<uint32_t>(32 * launch.warps),
                                   .tile_steps = launch.tile_steps()};
      module.source += '\n' + emit_scan_kernel(kernel, traits, name);
      known.push_back({launch.kernel, traits, module.add({name, shape})});
      found = known.end() - 1;
    }
    std::vector<Access> accesses = launch.accesses;
    accesses.push_back({.buffer = launch.exchange});
    if (launch.partials != kNoBuffer) {
      accesses.push_back({.buffer = launch.partials});
      need_total_kernel(module);
    }
    module.of(id) = {found->index, std::move(accesses)};
  });
}

}  // namespace rnnc
