// 1. For each scan find the totals whose elements are all its stores, side by side.
// 2. A store that nothing else reads goes to the total instead. Next to any other the kernel has
//    one more of the same value.
// 3. Elementwise launches that other totals alone read become part of the kernel, if it loads what
//    they do, but for a row at most.
// 4. What the scan adds up it has in the order of where it goes, so that neighbours stay together.
// 5. The totals go, and what nobody reads any more.
#include "passes/plan/scan_totals.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/base/launch_limits.h"
#include "ir/plan/buffer_uses.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/plan_touches.h"
#include "ir/plan/scan_exchange.h"
#include "passes/lower/unused_buffers.h"
#include "passes/plan/stored_parts.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

// Rows that a scan loads for totals alone: each stays in registers through its steps.
constexpr int kMostMoreRows = 1;

/// What a launch stores of a total's elements.
struct Part {
  uint32_t argument = 0;
  Access sum;  // where it is added up
};

bool has_room(const Kernel& kernel, size_t more) {
  return std::ssize(kernel.arguments) + static_cast<int64_t>(more) <= kMostArrays;
}

class TotalAdder {
 public:
  explicit TotalAdder(Plan& plan) : plan_(plan), uses_(plan) {}

  void run() {
    for (size_t stage = 0; stage < plan_.stages.size(); ++stage) {
      const std::vector<Launch>& launches = plan_.stages[stage].launches;
      if (launches.size() == 1 && std::holds_alternative<ScanLaunch>(launches[0])) add_up(stage);
    }
    if (taken_.empty()) return;
    remove_taken();
    remove_unused_temporaries(plan_);
  }

 private:
  const Launch& launch_at(LaunchPlace place) const {
    return plan_.stages[place.stage].launches[place.launch];
  }

  /// Of the sweep's launches over whole chunks those of a kind that are still there.
  template <typename L>
  std::vector<LaunchPlace> launches_of(uint32_t sweep) const {
    std::vector<LaunchPlace> places;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      if (plan_.stages[s].domain != Domain::Sequence || plan_.stages[s].sweep != sweep) continue;
      for (size_t i = 0; i < plan_.stages[s].launches.size(); ++i) {
        const bool is_one = std::holds_alternative<L>(plan_.stages[s].launches[i]);
        if (is_one && !taken_.contains({s, i})) places.push_back({s, i});
      }
    }
    return places;
  }

  void add_up(size_t stage) {
    const uint32_t sweep = plan_.stages[stage].sweep;
    auto scan = std::get<ScanLaunch>(launch_at({stage, 0}));
    Kernel kernel = plan_.kernels[scan.kernel];
    std::vector<Part> parts;
    for (const LaunchPlace place : launches_of<TotalLaunch>(sweep)) {
      const std::vector<Part> own = parts_of(place, {stage, 0}, kernel, scan.accesses);
      if (own.empty() || !fits(own, place, scan, kernel)) continue;
      parts.insert(parts.end(), own.begin(), own.end());
      taken_.insert(place);
    }
    for (const Part& part : parts) take(part, scan, kernel);
    for (const LaunchPlace place : launches_of<ElementwiseLaunch>(sweep)) {
      take_terms(place, scan, kernel);
    }
    if (scan.totals.empty()) return;
    finish(scan, std::move(kernel));
    plan_.stages[stage].launches[0] = std::move(scan);
  }

  // ---- What the scan stores ----

  /// What a launch stores of a total, in the order of its columns; none if something else makes a
  /// part of it.
  std::vector<Part> parts_of(LaunchPlace place, LaunchPlace maker, const Kernel& kernel,
                             const std::vector<Access>& accesses) const {
    const auto& total = std::get<TotalLaunch>(launch_at(place));
    if (uses_.only_writer(total.left.buffer) != maker) return {};
    const KernelCall call{kernel, accesses};
    std::vector<Part> parts;
    for (const StoredPart& stored : stored_parts(total, {&call, 1})) {
      parts.push_back({stored.argument, total.out});
      parts.back().sum.column += stored.column;
    }
    return parts;
  }

  bool fits(const std::vector<Part>& parts, LaunchPlace total, const ScanLaunch& scan,
            const Kernel& kernel) const {
    return has_room(kernel, parts.size()) || std::ranges::none_of(parts, [&](const Part& part) {
             return is_read(scan.accesses[part.argument], kernel.length, {total});
           });
  }

  /// Whether launches but totals of `apart` read any of so many columns, or the caller does.
  bool is_read(const Access& access, int64_t length, const std::set<LaunchPlace>& apart) const {
    if (plan_.buffers[access.buffer].placement == Placement::Caller) return true;
    const int64_t begin = access.column;
    for (const BufferUse& use : uses_.of(access.buffer)) {
      if (use.write || (use.place && apart.contains(*use.place))) continue;
      if (!use.place) return true;
      const Launch& launch = plan_.stages[use.place->stage].launches[use.place->launch];
      for (const Touch& touch : touches(plan_, launch)) {
        const bool meets = touch.access.buffer == access.buffer && !touch.write &&
                           touch.access.column < begin + length &&
                           begin < touch.access.column + touch.count;
        if (meets) return true;
      }
    }
    return false;
  }

  void take(const Part& part, ScanLaunch& scan, Kernel& kernel) {
    const Access store = scan.accesses[part.argument];
    const DType compute = compute_type(plan_.dtype);
    const bool is_taken = std::ranges::count(scan.totals, part.argument) > 0;
    if (!is_taken && plan_.buffers[store.buffer].history == 0 &&
        !is_read(store, kernel.length, taken_)) {
      kernel.arguments[part.argument].dtype = compute;
      scan.accesses[part.argument] = part.sum;
      scan.totals.push_back(part.argument);
      return;
    }
    add_total(stored_value(kernel, part.argument), part.sum, scan, kernel);
  }

  void add_total(uint32_t value, const Access& sum, ScanLaunch& scan, Kernel& kernel) const {
    const auto argument = static_cast<uint32_t>(kernel.arguments.size());
    kernel.body.push_back(
        {.kind = Kind::Store, .vector = true, .argument = argument, .operands = {value}});
    kernel.arguments.push_back(
        {.dtype = compute_type(plan_.dtype), .vector = true, .written = true});
    scan.accesses.push_back(sum);
    scan.totals.push_back(argument);
  }

  // ---- What other launches make for totals alone ----

  /// The whole work of a launch, if totals alone read it, and of rows it loads hardly any that the
  /// scan does not.
  void take_terms(LaunchPlace place, ScanLaunch& scan, Kernel& kernel) {
    const auto& launch = std::get<ElementwiseLaunch>(launch_at(place));
    const Kernel& terms = plan_.kernels[launch.kernel];
    if (terms.length != kernel.length || !terms.loops.empty() || has_reductions(terms)) return;
    std::set<LaunchPlace> totals;
    std::vector<Part> parts;
    for (const LaunchPlace total : launches_of<TotalLaunch>(plan_.stages[place.stage].sweep)) {
      const std::vector<Part> own = parts_of(total, place, terms, launch.accesses);
      if (own.empty()) continue;
      totals.insert(total);
      parts.insert(parts.end(), own.begin(), own.end());
    }
    if (parts.empty() || !has_room(kernel, terms.arguments.size())) return;
    int more = 0;
    for (uint32_t i = 0; i < terms.arguments.size(); ++i) {
      const Access& access = launch.accesses[i];
      if (terms.arguments[i].written) {
        if (is_read(access, terms.length, totals)) return;
      } else if (!load_of(access, terms.arguments[i], scan, kernel) && !is_invariant(access)) {
        if (!can_load(access, scan) || ++more > kMostMoreRows) return;
      }
    }
    const std::vector<uint32_t> ids = append(launch, terms, scan, kernel);
    for (const Part& part : parts) {
      add_total(ids[stored_value(terms, part.argument)], part.sum, scan, kernel);
    }
    taken_.insert(place);
    taken_.insert(totals.begin(), totals.end());
  }

  /// A caller's row, which is there before any launch is.
  bool can_load(const Access& access, const ScanLaunch& scan) const {
    const Buffer& buffer = plan_.buffers[access.buffer];
    return buffer.role == Role::Input && access.delay == 0 && scan.items == 1;
  }

  bool is_invariant(const Access& access) const {
    return plan_.buffers[access.buffer].extent == Extent::Invariant;
  }

  /// The scan's instruction that loads the same at each step.
  static std::optional<uint32_t> load_of(const Access& access, const Kernel::Argument& as,
                                         const ScanLaunch& scan, const Kernel& kernel) {
    for (uint32_t id = 0; id < kernel.body.size(); ++id) {
      const uint32_t i = kernel.body[id].argument;
      if (kernel.body[id].kind != Kind::Load || scan.accesses[i] != access) continue;
      const bool moves = std::ranges::count(scan.earlier, i) > 0 ||
                         std::ranges::count(scan.carries, i, &LoopCarry::load) > 0;
      if (!moves && kernel.arguments[i].vector == as.vector) return id;
    }
    return std::nullopt;
  }

  /// All that the launch computes. Gives the scan's instructions, of its own.
  static std::vector<uint32_t> append(const ElementwiseLaunch& launch, const Kernel& terms,
                                      ScanLaunch& scan, Kernel& kernel) {
    std::vector<uint32_t> ids;
    for (const Instruction& one : terms.body) {
      ids.push_back(0);
      if (one.kind == Kind::Store) continue;
      Instruction own = one;
      if (one.kind == Kind::Load) {
        const Access& access = launch.accesses[one.argument];
        const Kernel::Argument& as = terms.arguments[one.argument];
        if (const auto known = load_of(access, as, scan, kernel)) {
          ids.back() = *known;
          continue;
        }
        own.argument = static_cast<uint32_t>(kernel.arguments.size());
        kernel.arguments.push_back(as);
        scan.accesses.push_back(access);
      }
      for (uint32_t& operand : own.operands) operand = ids[operand];
      const auto same = std::ranges::find(kernel.body, own);
      ids.back() = static_cast<uint32_t>(same - kernel.body.begin());
      if (same == kernel.body.end()) kernel.body.push_back(std::move(own));
    }
    return ids;
  }

  // ---- The scan as it is then ----

  void finish(ScanLaunch& scan, Kernel kernel) {
    std::ranges::sort(scan.totals, {}, [&](uint32_t i) {
      return std::pair(scan.accesses[i].buffer, scan.accesses[i].column);
    });
    kernel.name += "_adding_up";
    scan.kernel = static_cast<uint32_t>(plan_.kernels.size());
    plan_.kernels.push_back(std::move(kernel));
    if (scan.exchange == kNoBuffer) return;
    scan.partials = static_cast<BufferId>(plan_.buffers.size());
    plan_.buffers.push_back({.name = "partials",
                             .dtype = DType::f32,
                             .extent = Extent::Invariant,
                             .width = scan_partials_width(plan_, scan)});
  }

  void remove_taken() {
    for (auto place = taken_.rbegin(); place != taken_.rend(); ++place) {
      std::vector<Launch>& launches = plan_.stages[place->stage].launches;
      launches.erase(launches.begin() + static_cast<std::ptrdiff_t>(place->launch));
    }
    std::erase_if(plan_.stages, [](const Stage& stage) { return stage.launches.empty(); });
  }

  Plan& plan_;
  const BufferUses uses_;
  std::set<LaunchPlace> taken_;  // totals, and what is made for them
};

}  // namespace

void add_up_in_scans(Plan& plan) {
  TotalAdder(plan).run();
}

}  // namespace rnnc
