// Resident recurrences.
#include <algorithm>

#include "ir/plan/launches/define_launch_kind.h"
#include "ir/plan/launches/kernel_calls.h"
#include "ir/plan/launches/kernel_launches.h"
#include "ir/plan/plan_verify_parts.h"
#include "ir/plan/tile_text.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<RecurrenceLaunch> = "resident on";
template <>
inline constexpr Where kPlace<RecurrenceLaunch> = Where::Recurrence;

namespace {

// details := (',' detail)*
// detail := PROPERTY | 'exchange in' bN | 'stream in' bN | 'totals in' bN
//         | 'begins in' X 's and steps in' X 's'
//
// PROPERTY as in ir/plan/tile_text.cpp
void parse_details(PlanScanner& in, RecurrenceLaunch& launch) {
  while (in.take(",")) {
    if (in.take("exchange in")) {
      launch.exchange = in.buffer();
    } else if (in.take("stream in")) {
      launch.stream = in.buffer();
    } else if (in.take("totals in")) {
      launch.sums.push_back(in.buffer());
    } else if (in.take("begins in")) {
      launch.tile.start_seconds = in.number<double>();
      in.expect("s and steps in");
      launch.tile.step_seconds = in.number<double>();
      in.expect("s");
    } else if (!parse_property(in, launch.tile)) {
      in.expected("something that a resident recurrence has");
    }
  }
}

/// "16 units", or where phases differ "16 and 8 units".
std::string join_units(const std::vector<int64_t>& units) {
  const bool same = std::ranges::count(units, units[0]) == std::ssize(units);
  return same ? plural(units[0], "unit") : fmt::format("{} units", fmt::join(units, " and "));
}

/// How it runs, in words.
std::string strategy_of(const RecurrenceLaunch& launch) {
  const RecurrenceTile& tile = launch.tile;
  const int64_t sides = std::ssize(tile.sides);
  // Blocks wait for those of their cluster, for no others, or for others of the launch.
  const std::string_view kind = tile.clusters                  ? "clusters, "
                                : launch.exchange == kNoBuffer ? "blocks alone, "
                                                               : "grid of ";
  const std::string sharing =
      tile.k_blocks > 1 ? fmt::format(", k shared by {}", tile.k_blocks) : std::string();
  return fmt::format("resident: {}{}{} x {} of {} warps, {} at once, {} per block{}", kind,
                     sides == 1 ? "" : plural(sides, "side") + " x ", plural(tile.groups, "group"),
                     plural(tile.blocks, "block"), tile.warps, plural(tile.rows, "row"),
                     join_units(tile.units), sharing);
}

}  // namespace

std::string text_of(const Plan& plan, const RecurrenceLaunch& launch) {
  const RecurrenceTile& tile = launch.tile;
  std::string details;
  if (launch.exchange != kNoBuffer) details += fmt::format(", exchange in b{}", launch.exchange);
  if (launch.stream != kNoBuffer) details += fmt::format(", stream in b{}", launch.stream);
  for (const BufferId sum : launch.sums) details += fmt::format(", totals in b{}", sum);
  if (tile.start_seconds != 0 || tile.step_seconds != 0) {
    details +=
        fmt::format(", begins in {} s and steps in {} s", tile.start_seconds, tile.step_seconds);
  }
  std::string text = shape_text(tile) + properties_text(tile);
  if (!details.empty()) text += ",\n     " + details.substr(1);
  const size_t sides = tile.sides.size();
  size_t side = 0;
  for (size_t i = 0; i <= launch.phases.size(); ++i) {
    for (; side < sides && tile.sides[side] <= i; ++side) {
      if (sides > 1) text += fmt::format("\n     side {}:", side);
    }
    if (i == launch.phases.size()) break;
    text += "\n      ";
    if (i < tile.units.size()) text += fmt::format("units of {}: ", tile.units[i]);
    text += fmt::format("{} {}", kFusedOpening, text_of(plan, launch.phases[i], 6));
  }
  return text;
}

void parse(PlanScanner& in, RecurrenceLaunch& launch) {
  RecurrenceTile& tile = launch.tile;
  const int64_t sides = parse_shape(in, tile);
  parse_details(in, launch);
  if (sides > 1) tile.sides.clear();
  while (!in.failed()) {
    if (sides > 1 && in.take("side")) {
      if (in.count() != std::ssize(tile.sides)) in.complain("sides do not follow one another");
      in.expect(":");
      tile.sides.push_back(launch.phases.size());
      continue;
    }
    const bool has_units = in.take("units of");
    if (has_units) {
      if (tile.units.size() != launch.phases.size()) in.complain("an earlier phase has no units");
      tile.units.push_back(in.count());
      in.expect(":");
      in.expect(kFusedOpening);
    } else if (!in.take(kFusedOpening)) {
      break;
    }
    parse(in, launch.phases.emplace_back());
  }
  if (std::ssize(tile.sides) != sides) {
    in.complain(fmt::format("{} sides instead of {}", tile.sides.size(), sides));
  }
}

void add_touches(const Plan& plan, const RecurrenceLaunch& launch, std::vector<Touch>& result) {
  for (const FusedLaunch& phase : launch.phases) add_touches(plan, phase, result);
  if (launch.exchange != kNoBuffer) {
    const int64_t width = plan.buffers[launch.exchange].width;
    result.push_back({{.buffer = launch.exchange, .stride = width}, width, true});
  }
  if (launch.stream != kNoBuffer) {
    result.push_back({{.buffer = launch.stream}, plan.buffers[launch.stream].width, true});
  }
}

Status verify(LaunchVerifier& in, const RecurrenceLaunch& launch) {
  if (in.where() != Where::Recurrence) return fail("a recurrence is not alone in its stage");
  for (size_t i = 0; i < launch.phases.size(); ++i) {
    if (Status status = verify(in, launch.phases[i]); !status) {
      return fail("phase {}: {}", i, status.error().message);
    }
  }
  return verify_recurrence(in.plan(), launch);
}

std::vector<BufferId> sums_of(const RecurrenceLaunch& launch) {
  return launch.sums;
}

LaunchWork work_of(const Plan& plan, const RecurrenceLaunch& launch, int64_t rows) {
  LaunchWork work;
  for (const FusedLaunch& phase : launch.phases) {
    const LaunchWork one = work_of(plan, phase, rows);
    work.products += one.products;
    work.elementwise += one.elementwise;
    work.width += one.width;
  }
  return work;
}

LaunchWords describe(const LaunchNames& in, const RecurrenceLaunch& launch) {
  LaunchWords words;
  words.kind = "recurrence";
  words.looks = LaunchWords::Looks::Product;
  std::vector<std::string> phases;
  int products = 0;
  for (const FusedLaunch& phase : launch.phases) {
    LaunchWords one = phase.products.empty()
                          ? describe(in, ElementwiseLaunch{phase.kernel, phase.accesses})
                          : describe(in, phase);
    for (const std::string& name : one.weights) add_once(words.weights, name);
    for (const auto& [name, times] : one.operations) add_operation(name, times, words);
    for (const FusedLaunch::Product& product : phase.products) {
      products += static_cast<int>(product.members);
    }
    describe_earlier(in, phase.accesses, phase.earlier, words);
    phases.push_back(std::move(one.what));
  }
  words.summary =
      fmt::format("{} + {}, {}", plural(products, "product"),
                  plural(operation_count(words), "operation"), plural(std::ssize(phases), "phase"));
  words.strategy = strategy_of(launch);
  words.what = fmt::format("{}", fmt::join(phases, ", then "));
  const RecurrenceTile& tile = launch.tile;
  if (tile.sides.size() > 1) {
    words.notes.push_back(
        {"stacked",
         fmt::format("{} recurrences side by side, each on {} of its own: they go through "
                     "the steps like stations of a pipeline",
                     tile.sides.size(), plural(tile.groups * tile.blocks, "block"))});
  }
  if (!launch.sums.empty()) {
    words.notes.push_back(
        {"fused",
         "adds up over the steps what it stores, for each sequence: totals of one operand"});
  }
  std::string fused = fmt::format("{} steps in one launch, weights on the chip", in.plan().chunk);
  if (tile.streamed_words > 0) {
    constexpr int64_t kBytesOfWord = 4;
    fused += fmt::format(" but for {:.1f} MiB, which are loaded from the cache at each step",
                         static_cast<double>(stream_width(tile) * kBytesOfWord) / (1 << 20));
  }
  if (tile.split) fused += "; f32 products in three parts on tensor cores";
  words.notes.push_back({"fused", std::move(fused)});
  return words;
}

template struct LaunchKind<RecurrenceLaunch>;

}  // namespace rnnc
