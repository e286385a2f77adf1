/// How the blocks of threads of a recurrence work together, for who wants to say so instead of leaving
/// it to the cost model: of a resident one (passes/persistent/resident.h), or one without products.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ir/base/status.h"

namespace rnnc {

struct RecurrenceLaunch;  // ir/plan/plan.h

enum class Strategy : uint8_t {
  Any,      // what is fastest by the cost model
  Block,    // none waits for another: one makes whole rows, or blocks of block-diagonal weights
  Cluster,  // those of a cluster wait for each other, on GPUs of sm_90, sm_100 and sm_103
  Grid,     // all that share rows wait for each other, through memory
  Hybrid,   // so do they, and load at each step weights that find no room on the chip
  SplitK,   // so do they, and those of a cluster share the k of products, likewise
  Stacked,  // layers that read each other share one launch: wherever they can, at least two
  // Of recurrences without products; others run as if nothing was asked for.
  Loop,  // step by step, in one launch
  Scan,  // if linear, tiles of time side by side: all of them, at least one
};

/// Whether it is about recurrences without products.
constexpr bool is_of_loops(Strategy strategy) {
  return strategy == Strategy::Loop || strategy == Strategy::Scan;
}

struct StrategyInfo {
  Strategy strategy;
  std::string_view name;     // "cluster", as on the command line
  std::string_view summary;  // for people: one line
};
/// All but Any.
std::span<const StrategyInfo> all_strategies();

/// Of a launch that has its buffers; not Any.
Strategy strategy_of(const RecurrenceLaunch& launch);

std::string_view to_string(Strategy strategy);  // "any" too
std::optional<Strategy> parse_strategy(std::string_view name);

/// The error of a program `name` that cannot run with it at this batch size.
tl::unexpected<Error> refuse_strategy(std::string_view name, int64_t batch, Strategy strategy,
                                      std::string_view reason);

}  // namespace rnnc
