#include "runtime/explain/describe_launch.h"

#include <algorithm>
#include <set>

#include "ir/plan/kernel_facts.h"

namespace rnnc::explain {
namespace {

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

using Operations = std::vector<std::pair<std::string, int>>;

void add_operations(Operations& operations, const std::string& name, int times) {
  const auto found = std::ranges::find(operations, name, &Operations::value_type::first);
  if (found == operations.end()) {
    operations.emplace_back(name, times);
  } else {
    found->second += times;
  }
}

/// Scalar ops and reductions of a kernel with how many of each, in order of appearance.
Operations operations_of(const Kernel& kernel) {
  Operations operations;
  for (const Instruction& instruction : kernel.body) {
    if (instruction.kind != Instruction::Kind::Scalar &&
        instruction.kind != Instruction::Kind::Reduce) {
      continue;
    }
    add_operations(operations, std::string(info(instruction.op).name), 1);
  }
  return operations;
}

int operation_count(const LaunchInfo& info) {
  int count = 0;
  for (const auto& [name, times] : info.operations) count += times;
  return count;
}

/// "16 units", or where phases differ "16 and 8 units".
std::string join_units(const std::vector<int64_t>& units) {
  const bool same = std::ranges::count(units, units[0]) == std::ssize(units);
  return same ? plural(units[0], "unit") : fmt::format("{} units", fmt::join(units, " and "));
}

/// Elements of a row that an argument has.
int64_t length_of(const Kernel& kernel, size_t argument) {
  return kernel.arguments[argument].vector ? kernel.length : 1;
}

/// Most kernels read a few arrays; of those that read many some will do.
std::string first_names(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  if (names.size() <= kMost + 1) return join_names(names);
  return fmt::format("{} and {} more", join_names({names.begin(), names.begin() + kMost}),
                     names.size() - kMost);
}

}  // namespace

std::string plural(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string join_names(const std::vector<std::string>& names) {
  if (names.size() < 2) return names.empty() ? "" : names.front();
  size_t common = names.front().rfind('.') + 1;  // 0 where there is no dot
  while (common > 0 && !std::ranges::all_of(names, [&](const std::string& name) {
           return name.starts_with(names.front().substr(0, common));
         })) {
    common = common < 2 ? 0 : names.front().rfind('.', common - 2) + 1;
  }
  const bool numbers = std::ranges::any_of(names, [&](const std::string& name) {
    return common < name.size() && name[common] >= '0' && name[common] <= '9';
  });
  if (common == 0 || numbers) return fmt::format("{}", fmt::join(names, ", "));
  std::vector<std::string> rest;
  for (const std::string& name : names) rest.push_back(name.substr(common));
  return fmt::format("{}{{{}}}", names.front().substr(0, common), fmt::join(rest, ", "));
}

LaunchDescriber::LaunchDescriber(const Plan& plan, Machine::Kind machine)
    : plan_(plan), machine_(machine) {
  for (const Stage& stage : plan.stages) {
    if (stage.domain != Domain::Once) continue;
    for (const Launch& launch : stage.launches) {
      if (const auto* kernel = std::get_if<ElementwiseLaunch>(&launch)) add_part(*kernel);
      if (const auto* copy = std::get_if<CopyLaunch>(&launch)) add_part(*copy);
      if (const auto* split = std::get_if<SplitLaunch>(&launch)) add_part(*split);
    }
  }
}

void LaunchDescriber::add_part(const CopyLaunch& launch) {
  const int64_t begin = launch.target.column;
  std::string name = join_names(weights_in(launch.source, launch.rows * launch.columns));
  if (launch.transposed) name += "^T";
  const int64_t row = launch.by_rows() ? launch.target.stride : launch.columns;
  parts_[launch.target.buffer].push_back({begin, begin + launch.rows * row, name});
}

/// A weight is named as it was, whatever its parts are.
void LaunchDescriber::add_part(const SplitLaunch& launch) {
  const std::vector<std::string> names =
      weights_in(launch.source, launch.once_rows * launch.source.stride);
  const int64_t width = plan_.buffers[launch.target.buffer].width;
  for (const std::string& name : names) {
    parts_[launch.target.buffer].push_back({0, width, name});
  }
}

/// Rows of a weight that a kernel moves as they are, farther apart.
void LaunchDescriber::add_part(const ElementwiseLaunch& launch) {
  const Kernel& kernel = plan_.kernels[launch.kernel];
  if (kernel.body.size() != 2 || kernel.body[0].kind != Instruction::Kind::Load) return;
  const auto span = [&](const Access& access) {
    return (launch.once_rows - 1) * access.stride + kernel.length;
  };
  const Access& source = launch.accesses[kernel.body[0].argument];
  const Access& target = launch.accesses[kernel.body[1].argument];
  parts_[target.buffer].push_back(
      {target.column, target.column + span(target), join_names(weights_in(source, span(source)))});
}

LaunchInfo LaunchDescriber::describe(const Stage& stage, const Launch& launch) const {
  LaunchInfo info = std::visit([&](const auto& one) { return describe_as(stage, one); }, launch);
  for (const Touch& touch : outer_touches(stage, launch)) {
    add_once(touch.write ? info.writes : info.reads, value(stage, touch.access, touch.count));
  }
  if (const auto* copy = std::get_if<CopyLaunch>(&launch)) {
    info.writes = {array(copy->target.buffer)};
  } else {
    add_hoisted(stage, info);
  }
  if (const auto* split = std::get_if<SplitLaunch>(&launch)) {
    info.writes = {plan_.buffers[split->target.buffer].name};
  }
  return info;
}

std::vector<Touch> LaunchDescriber::outer_touches(const Stage& stage, const Launch& launch) const {
  std::vector<Touch> all = touches(plan_, launch);
  if (!std::holds_alternative<RecurrenceLaunch>(launch)) return all;
  std::set<BufferId> written;
  for (const Touch& touch : all) {
    if (touch.write) written.insert(touch.access.buffer);
  }
  std::erase_if(all, [&](const Touch& touch) {
    return !touch.write && written.contains(touch.access.buffer) && delay(stage, touch.access) == 0;
  });
  return all;
}

std::vector<std::string> LaunchDescriber::weights_in(const Access& weight, int64_t count) const {
  std::vector<std::string> names;
  if (const auto found = parts_.find(weight.buffer); found != parts_.end()) {
    for (const Part& part : found->second) {
      const bool inside = part.begin < weight.column + count && part.end > weight.column;
      if (inside) add_once(names, part.name);
    }
  }
  if (names.empty()) names.push_back(plan_.buffers[weight.buffer].name);
  return names;
}

std::string LaunchDescriber::value(const Stage& stage, const Access& access, int64_t count) const {
  const Buffer& buffer = plan_.buffers[access.buffer];
  if (buffer.extent == Extent::Invariant) return join_names(weights_in(access, count));
  if (buffer.extent == Extent::Batch) return buffer.name;
  const int64_t steps = delay(stage, access);
  if (steps > 0) return fmt::format("{}[t-{}]", buffer.name, steps);
  // What is earlier by its name: "saved c[t-1]".
  return buffer.name.ends_with(']') && buffer.name.find("[t-") != std::string::npos
             ? buffer.name
             : buffer.name + "[t]";
}

std::string LaunchDescriber::array(BufferId id) const {
  return join_names(weights_in({.buffer = id}, plan_.buffers[id].width));
}

int64_t LaunchDescriber::delay(const Stage& stage, const Access& access) const {
  const Buffer& buffer = plan_.buffers[access.buffer];
  // What stages of other lags wrote lies chunks back.
  const int64_t chunks =
      buffer.extent == Extent::Chunk ? int64_t{stage.lag} - int64_t{buffer.lag} : 0;
  return access.delay - chunks * plan_.chunk;
}

std::string LaunchDescriber::rows(const Stage& stage, int64_t once_rows) const {
  switch (stage.domain) {
    case Domain::Once:
    case Domain::Last:
      return plural(once_rows, "row");
    case Domain::Sequence:
      return plural(plan_.chunk * plan_.batch, "row");
    case Domain::Step:
      break;
  }
  return plural(plan_.batch, "row");
}

void LaunchDescriber::add_kernel(uint32_t kernel, LaunchInfo& info) const {
  info.operations = operations_of(plan_.kernels[kernel]);
  const int count = operation_count(info);
  if (count > 1) info.notes.push_back({"fused", fmt::format("{} operations in one kernel", count)});
}

void LaunchDescriber::add_hoisted(const Stage& stage, LaunchInfo& info) const {
  if (stage.domain == Domain::Last) return;
  if (stage.domain == Domain::Once) {
    info.notes.push_back({"hoisted", "of params alone: once a call, and kept while they stay"});
  } else if (stage.domain == Domain::Sequence && stage.recurrence == RecurrenceClass::None &&
             plan_.chunk > 1) {
    info.notes.push_back(
        {"hoisted",
         fmt::format("waits for no step: all {} steps of a chunk at once", plan_.chunk)});
  }
}

// ---- One kind of launch each ----

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const ElementwiseLaunch& launch) const {
  LaunchInfo info;
  info.kind = "elementwise";
  const Kernel& kernel = plan_.kernels[launch.kernel];
  info.strategy =
      has_reductions(kernel) ? "a kernel of rows, with reductions" : "elementwise kernel";
  add_kernel(launch.kernel, info);
  std::vector<std::string> written;
  std::vector<std::string> read;
  for (size_t i = 0; i < launch.accesses.size(); ++i) {
    add_once(kernel.arguments[i].written ? written : read,
             value(stage, launch.accesses[i], length_of(kernel, i)));
  }
  info.what = join_names(written);
  if (!read.empty()) info.what += " from " + first_names(read);
  if (info.operations.empty()) info.strategy = "elementwise kernel that moves values";
  info.summary = fmt::format("kernel of {}", plural(operation_count(info), "operation"));
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const GemmLaunch& launch) const {
  LaunchInfo info;
  info.kind = "product";
  info.weights = weights_in(launch.weight, weight_rows(launch).span());
  const bool library = machine_ == Machine::Kind::Cuda;
  info.strategy = fmt::format("{}, {} x {} x {}{}{}{}",
                              stage.domain == Domain::Step ? "GEMM in each step"
                              : launch.tf32                ? "library GEMM of parts in TF32"
                              : library                    ? "library GEMM"
                                                           : "packed GEMM",
                              rows(stage, launch.once_rows), launch.n, launch.k,
                              launch.blocks > 1 ? fmt::format(", {} blocks", launch.blocks) : "",
                              launch.repeats > 1 ? fmt::format(", {} of them", launch.repeats) : "",
                              launch.accumulate ? ", added to what is there" : "");
  info.summary = plural(static_cast<int64_t>(info.weights.size()), "product");
  info.what = fmt::format("{} @ {}", join_names(info.weights),
                          value(stage, launch.left, launch.k * launch.blocks));
  if (info.weights.size() > 1) {
    info.notes.push_back(
        {"merged", fmt::format("{} in one, of {} stacked", plural(info.weights.size(), "product"),
                               join_names(info.weights))});
  }
  if (launch.accumulate) info.notes.push_back({"merged", "adds to a sum in its place"});
  if (launch.tf32) {
    info.notes.push_back(
        {"split", "of f32 in three parts on tensor cores, within 2^-21 of each product"});
  }
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const FusedLaunch& launch) const {
  LaunchInfo info;
  info.kind = "fused";
  const Kernel& kernel = plan_.kernels[launch.kernel];
  std::vector<std::string> terms;
  std::vector<std::string> sizes;
  int64_t products = 0;
  for (const FusedLaunch::Product& product : launch.products) {
    const std::vector<std::string> weights =
        weights_in(product.weight, product.members * kernel.length * product.k);
    for (const std::string& name : weights) add_once(info.weights, name);
    terms.push_back(fmt::format("{} @ {}", join_names(weights),
                                value(stage, product.left, product.k * product.blocks)));
    sizes.push_back(
        fmt::format("{} x {}{}", product.members * kernel.length, product.k,
                    product.blocks > 1 ? fmt::format(", {} blocks", product.blocks) : ""));
    products += product.members;
  }
  info.strategy =
      fmt::format("fused step product, {} x {}", rows(stage, 1), fmt::join(sizes, " and "));
  add_kernel(launch.kernel, info);
  std::vector<std::string> written;
  for (size_t i = 0; i < launch.accesses.size(); ++i) {
    if (kernel.arguments[i].written)
      add_once(written, value(stage, launch.accesses[i], length_of(kernel, i)));
  }
  info.what = fmt::format("{} from {}", join_names(written), fmt::join(terms, " and "));
  info.summary = fmt::format("{} + {}", plural(products, "product"),
                             plural(operation_count(info), "operation"));
  if (products > 1) {
    info.notes.push_back({"merged", fmt::format("{} in one, of {}", plural(products, "product"),
                                                join_names(info.weights))});
  }
  info.notes.push_back(
      {"fused", "the elementwise work follows each product where it is: no result in memory"});
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const LoopLaunch& launch) const {
  LaunchInfo info = describe_as(stage, ElementwiseLaunch{launch.kernel, launch.accesses});
  info.kind = "loop";
  info.summary = fmt::format("loop of {}", plural(operation_count(info), "operation"));
  info.strategy = machine_ == Machine::Kind::Cpu
                      ? "a loop over the steps of a chunk, whose sequences and vectors of channels "
                        "threads share out"
                      : "a loop over the steps of a chunk, one thread per sequence and channel";
  info.notes.push_back(
      {"fused", fmt::format("{} steps in one launch, {} carried in registers", plan_.chunk,
                            plural(static_cast<int64_t>(launch.carries.size()), "state"))});
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const ScanLaunch& launch) const {
  LaunchInfo info = describe_as(stage, ElementwiseLaunch{launch.kernel, launch.accesses});
  info.kind = "scan";
  info.summary = fmt::format("scan of {}", plural(operation_count(info), "operation"));
  info.strategy = fmt::format(
      "a scan: tiles of {} steps side by side{}, which hand their states on", launch.tile_steps(),
      machine_ == Machine::Kind::Cpu ? ", shared out among threads" : "");
  std::vector<std::string> rounds;
  for (const ScanRound& round : launch.rounds) {
    const std::string_view semiring = round.semiring == Semiring::SumProduct ? "(+, *)"
                                      : round.semiring == Semiring::MaxPlus  ? "(max, +)"
                                                                             : "(min, +)";
    rounds.push_back(fmt::format("{} over {}{}",
                                 plural(static_cast<int64_t>(round.states.size()), "state"),
                                 semiring, round.bounded ? ", coefficients at most 1" : ""));
  }
  info.notes.push_back(
      {"fused", fmt::format("{} steps in one launch, {}: {}", plan_.chunk,
                            plural(std::ssize(rounds), "round"), fmt::join(rounds, "; "))});
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const RecurrenceLaunch& launch) const {
  LaunchInfo info;
  info.kind = "recurrence";
  std::vector<std::string> phases;
  int products = 0;
  for (const FusedLaunch& phase : launch.phases) {
    LaunchInfo one = phase.products.empty()
                         ? describe_as(stage, ElementwiseLaunch{phase.kernel, phase.accesses})
                         : describe_as(stage, phase);
    for (const std::string& name : one.weights) add_once(info.weights, name);
    for (const auto& [name, times] : one.operations) add_operations(info.operations, name, times);
    for (const FusedLaunch::Product& product : phase.products) {
      products += static_cast<int>(product.members);
    }
    phases.push_back(std::move(one.what));
  }
  info.summary = fmt::format("{} + {}, {}", plural(products, "product"),
                             plural(operation_count(info), "operation"),
                             plural(static_cast<int64_t>(phases.size()), "phase"));
  const RecurrenceTile& tile = launch.tile;
  const auto sides = static_cast<int64_t>(tile.sides.size());
  const std::string of_sides = sides == 1 ? "" : plural(sides, "side") + " x ";
  // Blocks wait for those of their cluster, for no others, or for others of the launch.
  const std::string_view kind = tile.clusters                  ? "clusters, "
                                : launch.exchange == kNoBuffer ? "blocks alone, "
                                                               : "grid of ";
  info.strategy = fmt::format("resident: {}{}{} x {} of {} warps, {} at once, {} per block", kind,
                              of_sides, plural(tile.groups, "group"), plural(tile.blocks, "block"),
                              tile.warps, plural(tile.rows, "row"), join_units(tile.units));
  info.what = fmt::format("{}", fmt::join(phases, ", then "));
  if (sides > 1) {
    info.notes.push_back(
        {"stacked",
         fmt::format("{} recurrences side by side, each on {} of its own: they go through "
                     "the steps like stations of a pipeline",
                     sides, plural(tile.groups * tile.blocks, "block"))});
  }
  std::string fused = fmt::format("{} steps in one launch, weights on the chip", plan_.chunk);
  if (tile.streamed_words > 0) {
    constexpr int64_t kBytesOfWord = 4;
    fused += fmt::format(" but for {:.1f} MiB, which are loaded from the cache at each step",
                         static_cast<double>(stream_width(tile) * kBytesOfWord) / (1 << 20));
  }
  if (tile.split) fused += "; f32 products in three parts on tensor cores";
  info.notes.push_back({"fused", std::move(fused)});
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage&, const CopyLaunch& launch) const {
  LaunchInfo info;
  info.kind = info.summary = "copy";
  info.strategy = launch.transposed ? "transposing copy" : "copy";
  info.weights = weights_in(launch.source, launch.rows * launch.columns);
  info.what = "a copy of " + join_names(info.weights);
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const ReverseLaunch& launch) const {
  LaunchInfo info;
  info.kind = info.summary = "reverse";
  info.strategy = "copy, each sequence from its last step to its first";
  info.what = value(stage, launch.source, launch.width) + " backwards";
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const EarlierLaunch& launch) const {
  LaunchInfo info;
  info.kind = info.summary = "earlier";
  info.strategy = "copy, each step from the one before it";
  info.what = value(stage, launch.source, launch.width) + " a step earlier";
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage&, const MaskLaunch& launch) const {
  LaunchInfo info;
  info.kind = info.summary = "mask";
  info.strategy = "mask";
  info.what = launch.kind == MaskLaunch::Kind::Valid ? "1 for steps that a sequence has, else 0"
                                                     : "1 where a sequence begins anew, else 0";
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const RowsLaunch& launch) const {
  LaunchInfo info;
  info.kind = info.summary = "rows";
  info.strategy = "copy, each row from where its integer says";
  info.weights = weights_in(launch.table, launch.count * launch.width);
  info.what = fmt::format("rows of {} named by {}", join_names(info.weights),
                          value(stage, launch.index, 1));
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const RowTotalLaunch& launch) const {
  LaunchInfo info;
  info.kind = info.summary = "add rows";
  info.strategy = "sum in the order of the steps, for each row of the table";
  info.what = fmt::format("{} added to rows named by {}", value(stage, launch.value, launch.width),
                          value(stage, launch.index, 1));
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const RealLaunch& launch) const {
  LaunchInfo info;
  info.kind = info.summary = "real";
  info.strategy = "conversion";
  info.what = value(stage, launch.source, 1) + " as a number";
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const SplitLaunch& launch) const {
  LaunchInfo info;
  info.kind = info.summary = "split";
  info.strategy = "kernel that parts f32 for tensor cores";
  if (launch.weight) {
    info.weights = weights_in(launch.source, launch.once_rows * launch.source.stride);
    info.what = "parts of " + join_names(info.weights);
  } else {
    info.what = "parts of " + value(stage, launch.source, launch.length);
  }
  return info;
}

LaunchInfo LaunchDescriber::describe_as(const Stage& stage, const TotalLaunch& launch) const {
  LaunchInfo info;
  info.kind = info.summary = "total";
  const std::string left = value(stage, launch.left, launch.blocks * launch.m);
  const std::string of = stage.domain == Domain::Last ? plural(plan_.batch, "row") : rows(stage, 1);
  if (launch.right.buffer == kNoBuffer) {
    info.strategy = fmt::format("sum over {}", of);
    info.what = "sum of " + left;
    return info;
  }
  info.strategy = fmt::format("GEMM over {}, {} x {}{}{}", of, launch.m, launch.n,
                              launch.blocks > 1 ? fmt::format(", {} blocks", launch.blocks) : "",
                              launch.in_parts ? ", f32 in parts on tensor cores" : "");
  info.what =
      fmt::format("sum of {} times {}", left, value(stage, launch.right, launch.blocks * launch.n));
  return info;
}

}  // namespace rnnc::explain
