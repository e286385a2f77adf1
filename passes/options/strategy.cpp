#include "passes/options/strategy.h"

#include <algorithm>

#include "ir/plan/plan.h"

namespace rnnc {
namespace {

constexpr StrategyInfo kStrategies[] = {
    {Strategy::Block, "block", "no block of threads waits for another"},
    {Strategy::Cluster, "cluster", "blocks of a cluster exchange through their shared memory"},
    {Strategy::Grid, "grid", "blocks of the whole GPU exchange through memory"},
    {Strategy::Hybrid, "hybrid", "so do they, and weights without room on the chip are loaded"},
    {Strategy::SplitK, "split-k", "blocks of a grid, in clusters that share the k of products"},
    {Strategy::Stacked, "stacked", "layers in one launch, each on its own share of the GPU"},
    {Strategy::Loop, "loop", "recurrences without products step by step, in one launch"},
    {Strategy::Scan, "scan", "linear recurrences in tiles of time side by side"},
};

}  // namespace

std::span<const StrategyInfo> all_strategies() {
  return kStrategies;
}

Strategy strategy_of(const RecurrenceLaunch& launch) {
  if (launch.tile.sides.size() > 1) return Strategy::Stacked;
  if (launch.tile.clusters) return Strategy::Cluster;
  if (launch.tile.k_blocks > 1) return Strategy::SplitK;
  if (launch.tile.streamed_words > 0) return Strategy::Hybrid;
  return launch.exchange == kNoBuffer ? Strategy::Block : Strategy::Grid;
}

std::string_view to_string(Strategy strategy) {
  const auto* found = std::ranges::find(kStrategies, strategy, &StrategyInfo::strategy);
  return found == std::end(kStrategies) ? "any" : found->name;
}

std::optional<Strategy> parse_strategy(std::string_view name) {
  if (name == "any") return Strategy::Any;
  const auto* found = std::ranges::find(kStrategies, name, &StrategyInfo::name);
  return found == std::end(kStrategies) ? std::nullopt : std::optional(found->strategy);
}

tl::unexpected<Error> refuse_strategy(std::string_view name, int64_t batch, Strategy strategy,
                                      std::string_view reason) {
  return fail(
      "`{}` at batch {} cannot run with strategy `{}`: {} (leave the strategy out, and rnnc finds "
      "a way)",
      name, batch, to_string(strategy), reason);
}

}  // namespace rnnc
