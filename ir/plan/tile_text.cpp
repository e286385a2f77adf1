#include "ir/plan/tile_text.h"

#include <fmt/ranges.h>

#include <set>
#include <span>

#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

constexpr std::string_view kStreamed = "from memory";
constexpr std::string_view kKWarps = "warps along k";
constexpr std::string_view kKBlocks = "blocks along k";
constexpr std::string_view kOwnSums = "sums in their warps";
constexpr std::string_view kSplit = "split products";
constexpr std::string_view kInputs = "inputs of";
constexpr std::string_view kInputSteps = "steps in shared memory";
constexpr std::string_view kClusters = "in clusters";

}  // namespace

std::string shape_text(const RecurrenceTile& tile) {
  const size_t sides = tile.sides.size();
  return fmt::format("{}{} x {} blocks of {} warps, {} rows at once",
                     sides == 1 ? "" : fmt::format("{} sides of ", sides), tile.groups, tile.blocks,
                     tile.warps, tile.rows);
}

int64_t parse_shape(PlanScanner& in, RecurrenceTile& tile) {
  int64_t sides = 1;
  tile.groups = in.count();
  if (in.take("sides of")) {
    sides = tile.groups;
    tile.groups = in.count();
  }
  in.expect("x");
  tile.blocks = in.count();
  in.expect("blocks of");
  tile.warps = in.count();
  tile.k_warps = tile.warps;
  in.expect("warps ,");
  tile.rows = in.count();
  in.expect("rows at once");
  return sides;
}

std::string properties_text(const RecurrenceTile& tile) {
  std::string text = fmt::format(", weights in {} registers", tile.weight_registers);
  if (tile.streamed_words > 0) text += fmt::format(", {} {}", tile.streamed_words, kStreamed);
  if (tile.k_warps != tile.warps) text += fmt::format(", {} {}", tile.k_warps, kKWarps);
  if (tile.k_blocks > 1) text += fmt::format(", {} {}", tile.k_blocks, kKBlocks);
  if (tile.own_sums) text += fmt::format(", {}", kOwnSums);
  if (tile.split) text += fmt::format(", {}", kSplit);
  if (tile.input_steps > 0) {
    text += fmt::format(", {} {} {}", kInputs, tile.input_steps, kInputSteps);
  }
  if (tile.clusters) text += fmt::format(", {}", kClusters);
  return text;
}

bool parse_property(PlanScanner& in, RecurrenceTile& tile) {
  if (in.take("weights in")) {
    tile.weight_registers = in.count();
    in.expect("registers");
  } else if (in.take(kInputs)) {
    tile.input_steps = in.count();
    in.expect(kInputSteps);
  } else if (in.take(kOwnSums)) {
    tile.own_sums = true;
  } else if (in.take(kSplit)) {
    tile.split = true;
  } else if (in.take(kClusters)) {
    tile.clusters = true;
  } else if (in.sees_number()) {
    const int64_t count = in.count();
    if (in.take(kStreamed)) {
      tile.streamed_words = count;
    } else if (in.take(kKBlocks)) {
      tile.k_blocks = count;
    } else {
      in.expect(kKWarps);
      tile.k_warps = count;
    }
  } else {
    return false;
  }
  return true;
}

std::string to_string(const RecurrenceTile& tile) {
  std::set<std::string> units;  // of sides; alike ones once
  for (size_t i = 0; i < tile.sides.size(); ++i) {
    const auto [begin, end] = side_at(tile.sides, i, tile.units.size());
    const auto of_side = std::span(tile.units).subspan(begin, end - begin);
    units.insert(fmt::format("{}", fmt::join(of_side, " and ")));
  }
  return fmt::format("{}, units {}{}", shape_text(tile), fmt::join(units, " or "),
                     properties_text(tile));
}

}  // namespace rnnc
