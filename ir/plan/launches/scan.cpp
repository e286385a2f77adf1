// Linear recurrences, tiles of time side by side: call 'carrying' … ['with' aN, … 'a step earlier']
// ['adding up' aN, …] 'in tiles of' …, and rounds
//
// round := ('sum' | 'max' | 'min') 'of' aN, … [', bounded'] ':' %N … ';' %N …
//
// with the loads of its states, then coefficients and offsets.
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "ir/base/arithmetic.h"
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"
#include "ir/plan/launches/kernel_calls.h"
#include "ir/plan/launches/kernel_launches.h"
#include "ir/plan/launches/loop_carries.h"
#include "ir/plan/plan_words.h"
#include "ir/plan/scan_exchange.h"
#include "ir/plan/scan_structure.h"

namespace rnnc {

template <>
inline constexpr std::string_view kOpening<ScanLaunch> = "scan";
template <>
inline constexpr Where kPlace<ScanLaunch> = Where::Loop;

namespace {

using Kind = Instruction::Kind;

constexpr int kPoints = 8;           // at which forms are compared with the body
constexpr double kPrecision = 1e-6;  // of all terms' sizes together

std::string values_text(const std::vector<uint32_t>& values) {
  std::string text;
  for (const uint32_t value : values) text += fmt::format(" %{}", value);
  return text;
}

std::vector<uint32_t> parse_values(PlanScanner& in, size_t end) {
  std::vector<uint32_t> values;
  uint32_t value = 0;
  while (in.take_id('%', end, value)) values.push_back(value);
  return values;
}

void parse_round(PlanScanner& in, ScanLaunch& launch, Semiring semiring) {
  ScanRound round = {.semiring = semiring, .states = {}, .coefficients = {}, .offsets = {}};
  in.expect("of");
  do {
    if (in.take("bounded")) {
      round.bounded = true;
      break;
    }
    const uint32_t load = in.id('a', launch.accesses.size());
    const auto carry = std::ranges::find(launch.carries, load, &LoopCarry::load);
    if (carry == launch.carries.end()) in.complain(fmt::format("a{} is not carried", load));
    round.states.push_back(static_cast<uint32_t>(carry - launch.carries.begin()));
  } while (!in.failed() && in.take(","));
  in.expect(":");
  if (in.failed()) return;
  const size_t end = in.plan().kernels[launch.kernel].body.size();
  round.coefficients = parse_values(in, end);
  in.expect(";");
  round.offsets = parse_values(in, end);
  launch.rounds.push_back(std::move(round));
}

/// The body of a step against the forms of its rounds.
class FormCheck {
 public:
  FormCheck(const Kernel& kernel, const ScanLaunch& launch) : kernel_(kernel), launch_(launch) {}

  Status run() {
    std::vector<bool> known(launch_.carries.size(), false);
    for (size_t i = 0; i < launch_.rounds.size(); ++i) {
      const Status status = check_round(launch_.rounds[i], known);
      if (!status) return fail("round {}: {}", i, status.error().message);
    }
    if (std::ranges::count(known, false) > 0) return fail("a carry is in no round");
    for (int point = 0; point < kPoints; ++point) {
      if (Status status = compare(); !status) return status;
    }
    return {};
  }

 private:
  /// `known`: states of earlier rounds, and then of this one too.
  Status check_round(const ScanRound& round, std::vector<bool>& known) {
    const size_t m = round.states.size();
    if (m == 0 || m > kMostScanStates) return fail("{} states", m);
    if (round.coefficients.size() != m * m || round.offsets.size() != m) {
      return fail("{} coefficients and {} offsets of {} states", round.coefficients.size(),
                  round.offsets.size(), m);
    }
    for (const auto* values : {&round.coefficients, &round.offsets}) {
      for (const uint32_t id : *values) {
        if (id >= kernel_.body.size() || kernel_.body[id].kind == Kind::Store) {
          return fail("%{} is no value", id);
        }
        if (depends_on_others(id, known))
          return fail("%{} depends on states of no earlier round", id);
      }
    }
    for (const uint32_t state : round.states) {
      if (state >= known.size() || known[state]) return fail("state {} is in another too", state);
      known[state] = true;
    }
    return {};
  }

  bool depends_on_others(uint32_t id, const std::vector<bool>& known) const {
    std::vector<bool> wanted(kernel_.body.size(), false);
    wanted[id] = true;
    for (size_t i = id + 1; i-- > 0;) {
      if (!wanted[i]) continue;
      for (const uint32_t operand : kernel_.body[i].operands) wanted[operand] = true;
    }
    for (size_t carry = 0; carry < known.size(); ++carry) {
      if (!known[carry] && wanted[load_of(carry)]) return true;
    }
    return false;
  }

  size_t load_of(size_t carry) const { return use_of(Kind::Load, launch_.carries[carry].load); }
  size_t next_of(size_t carry) const {
    return kernel_.body[use_of(Kind::Store, launch_.carries[carry].store)].operands[0];
  }
  size_t use_of(Kind kind, uint32_t argument) const {
    return static_cast<size_t>(std::ranges::find_if(kernel_.body,
                                                    [&](const Instruction& instruction) {
                                                      return instruction.kind == kind &&
                                                             instruction.argument == argument;
                                                    }) -
                               kernel_.body.begin());
  }

  /// At a random point.
  Status compare() {
    std::vector<double> values;
    for (const Instruction& instruction : kernel_.body) {
      const auto operand = [&](size_t i) {
        return i < instruction.operands.size() ? values[instruction.operands[i]] : 0.0;
      };
      values.push_back(instruction.kind == Kind::Load       ? normal_(random_)
                       : instruction.kind == Kind::Constant ? instruction.value
                       : instruction.kind == Kind::Store
                           ? operand(0)
                           : evaluate(instruction.op, operand(0), operand(1), operand(2)));
    }
    for (const ScanRound& round : launch_.rounds) {
      for (size_t row = 0; row < round.states.size(); ++row) {
        if (Status status = compare(round, row, values); !status) return status;
      }
    }
    return {};
  }

  Status compare(const ScanRound& round, size_t row, const std::vector<double>& values) const {
    double sum = values[round.offsets[row]];
    double size = 1;
    for (size_t i = 0; i < round.states.size(); ++i) {
      const double coefficient = values[round.coefficients[row * round.states.size() + i]];
      const double state = values[load_of(round.states[i])];
      sum = joined(round.semiring, sum, coefficient, state);
      size += std::abs(coefficient * state);
    }
    const uint32_t carry = round.states[row];
    const double next = values[next_of(carry)];
    if (!std::isfinite(sum) || !std::isfinite(next)) return {};
    if (std::abs(sum - next) <= kPrecision * (size + std::abs(next))) return {};
    return fail("the form of a{} gives {} where the kernel gives {}", launch_.carries[carry].load,
                sum, next);
  }

  static double joined(Semiring semiring, double sum, double coefficient, double state) {
    if (semiring == Semiring::SumProduct) return sum + coefficient * state;
    return evaluate(semiring == Semiring::MaxPlus ? Op::Max : Op::Min, sum, coefficient + state, 0);
  }

  const Kernel& kernel_;
  const ScanLaunch& launch_;
  std::mt19937 random_{1};
  std::normal_distribution<double> normal_;
};

/// Tiles run in any order: what one stores none may load.
Status check_apart(const Plan& plan, const ScanLaunch& launch) {
  const Kernel& kernel = plan.kernels[launch.kernel];
  std::set<uint32_t> carried;
  for (const LoopCarry& carry : launch.carries) {
    if (kernel.length > 1 && !kernel.arguments[carry.load].vector) {
      return fail("a{} is carried for all elements of a row", carry.load);
    }
    carried.insert({carry.load, carry.store});
  }
  for (uint32_t load = 0; load < launch.accesses.size(); ++load) {
    for (uint32_t store = 0; store < launch.accesses.size(); ++store) {
      const bool both = !kernel.arguments[load].written && kernel.arguments[store].written &&
                        launch.accesses[load].buffer == launch.accesses[store].buffer;
      if (both && (!carried.contains(load) || !carried.contains(store))) {
        return fail("a{} loads what a{} stores", load, store);
      }
    }
  }
  return {};
}

bool has_partials(const ScanLaunch& launch) {
  return launch.exchange != kNoBuffer && !launch.totals.empty();
}

Status check_totals(const Plan& plan, const ScanLaunch& launch) {
  const Kernel& kernel = plan.kernels[launch.kernel];
  std::set<uint32_t> seen;
  for (const uint32_t i : launch.totals) {
    const Access& access = launch.accesses[i];
    const bool carried = std::ranges::count(launch.carries, i, &LoopCarry::store) > 0;
    if (!kernel.arguments[i].written || !kernel.arguments[i].vector || carried ||
        !seen.insert(i).second) {
      return fail("a{} is nothing to add up", i);
    }
    for (const uint32_t other : seen) {
      const Access& there = launch.accesses[other];
      const bool meets = other != i && there.buffer == access.buffer &&
                         std::abs(there.column - access.column) < kernel.length;
      if (meets) return fail("a{} and a{} are added up in one place", other, i);
    }
    if (plan.buffers[access.buffer].extent != Extent::Invariant ||
        kernel.arguments[i].dtype != compute_type(plan.dtype)) {
      return fail("a{} is added up in {}", i, plan.buffers[access.buffer].name);
    }
  }
  for (uint32_t i = 0; i < launch.accesses.size(); ++i) {
    const bool invariant = plan.buffers[launch.accesses[i].buffer].extent == Extent::Invariant;
    if (kernel.arguments[i].written && invariant && !seen.contains(i)) {
      return fail("a{} is stored where every step stores it", i);
    }
  }
  if (!has_partials(launch)) {
    return launch.partials == kNoBuffer ? Status() : fail("partials of nothing");
  }
  if (launch.partials >= plan.buffers.size()) return fail("totals of a scan have no partials");
  const Buffer& buffer = plan.buffers[launch.partials];
  const bool fits = buffer.extent == Extent::Invariant && buffer.dtype == DType::f32 &&
                    buffer.placement == Placement::Workspace &&
                    buffer.width == scan_partials_width(plan, launch);
  return fits ? Status() : fail("b{} has no room for what tiles add up", launch.partials);
}

Status check_exchange(const Plan& plan, const ScanLaunch& launch) {
  if (launch.warps < 1 || launch.steps_of_warp < 1) return fail("tiles of no steps");
  if (launch.exchange == kNoBuffer) {
    return launch.warps == 1 ? Status() : fail("tiles of several warps have no exchange");
  }
  const int64_t length = plan.kernels[launch.kernel].length;
  if (launch.group < 1 || launch.items < 1 || launch.items > launch.warps ||
      length % launch.items != 0) {
    return fail("{} channels of {} for each thread, in groups of {}", launch.items, length,
                launch.group);
  }
  const Buffer& buffer = plan.buffers[launch.exchange];
  const bool fits = buffer.extent == Extent::Chunk && buffer.dtype == DType::f32 &&
                    buffer.history == 0 && buffer.width == scan_exchange_width(plan, launch);
  return fits ? Status() : fail("b{} is no exchange of this scan", launch.exchange);
}

}  // namespace

int64_t scan_exchange_words(const Kernel& kernel, const std::vector<ScanRound>& rounds,
                            int64_t group) {
  int64_t words = 0;
  for (const ScanRound& round : rounds) {
    const auto m = std::ssize(round.states);
    words += m + (group > 1 ? std::ssize(own_coefficients(kernel, round)) + m : 0);
  }
  return words;
}

int64_t scan_exchange_width(const Plan& plan, const ScanLaunch& launch) {
  const Kernel& kernel = plan.kernels[launch.kernel];
  const int64_t words = scan_exchange_words(kernel, launch.rounds, launch.group);
  return 1 + ceil_div(kernel.length * words, launch.tile_steps());
}

int64_t scan_partials_width(const Plan& plan, const ScanLaunch& launch) {
  const int64_t tiles = ceil_div(plan.chunk, launch.tile_steps());
  return tiles * plan.batch * std::ssize(launch.totals) * plan.kernels[launch.kernel].length;
}

void fit_scan_partials(Plan& plan) {
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      const auto* const scan = std::get_if<ScanLaunch>(&launch);
      if (scan == nullptr || scan->partials == kNoBuffer) continue;
      plan.buffers[scan->partials].width = scan_partials_width(plan, *scan);
    }
  }
}

std::string text_of(const Plan& plan, const ScanLaunch& launch) {
  std::string text =
      fmt::format("{} carrying {}{}{} in tiles of {} x {} steps",
                  call_text(plan, launch.kernel, launch.accesses), carries_text(launch.carries),
                  earlier_text(launch.earlier), arguments_text(" adding up ", launch.totals),
                  launch.warps, launch.steps_of_warp);
  if (launch.exchange != kNoBuffer) {
    text += fmt::format(" x {} channels in groups of {}, exchange in b{}", launch.items,
                        launch.group, launch.exchange);
  }
  if (launch.partials != kNoBuffer) text += fmt::format(", partials in b{}", launch.partials);
  for (const ScanRound& round : launch.rounds) {
    text += fmt::format("\n      {} of ", word_of(kSemiringWords, round.semiring));
    for (const uint32_t state : round.states) {
      text +=
          fmt::format("{}a{}", state == round.states[0] ? "" : ", ", launch.carries[state].load);
    }
    text += fmt::format("{}:{};{}", round.bounded ? ", bounded" : "",
                        values_text(round.coefficients), values_text(round.offsets));
  }
  return text;
}

void parse(PlanScanner& in, ScanLaunch& launch) {
  parse_call(in, launch.kernel, launch.accesses);
  parse_carries(in, launch.accesses.size(), launch.carries);
  parse_earlier(in, launch.accesses.size(), launch.earlier);
  if (in.take("adding up")) launch.totals = parse_arguments(in, launch.accesses.size());
  in.expect("in tiles of");
  launch.warps = in.count();
  in.expect("x");
  launch.steps_of_warp = in.count();
  in.expect("steps");
  if (in.take("x")) {
    launch.items = in.count();
    in.expect("channels in groups of");
    launch.group = in.count();
    in.expect(", exchange in");
    launch.exchange = in.buffer();
    if (in.take(", partials in")) launch.partials = in.buffer();
  }
  Semiring semiring = Semiring::SumProduct;
  while (!in.failed() && in.take_word_of(kSemiringWords, semiring)) {
    parse_round(in, launch, semiring);
  }
}

void add_touches(const Plan& plan, const ScanLaunch& launch, std::vector<Touch>& result) {
  const int64_t length = plan.kernels[launch.kernel].length;
  for (const uint32_t i : launch.totals) result.push_back({launch.accesses[i], length, false});
  add_arguments(plan, launch.kernel, launch.accesses, result);
  if (launch.exchange != kNoBuffer) {
    const int64_t width = plan.buffers[launch.exchange].width;
    result.push_back({{.buffer = launch.exchange, .stride = width}, width, true});
  }
  if (launch.partials != kNoBuffer) {
    result.push_back({{.buffer = launch.partials}, plan.buffers[launch.partials].width, true});
  }
}

Status verify(LaunchVerifier& in, const ScanLaunch& launch) {
  Status status = check_carries(in, launch.kernel, launch.accesses, launch.carries);
  if (status) status = check_apart(in.plan(), launch);
  if (status) status = FormCheck(in.plan().kernels[launch.kernel], launch).run();
  if (status) status = check_earlier(in.plan(), launch.kernel, launch.accesses, launch.earlier);
  if (status && !launch.earlier.empty() && launch.exchange == kNoBuffer) {
    status = fail("a scan without an exchange reads no earlier steps");
  }
  if (status) status = check_exchange(in.plan(), launch);
  if (status) status = check_totals(in.plan(), launch);
  if (!status) return status;
  std::vector<TypedTouch> touches = in.arguments(launch.kernel, launch.accesses);
  for (const uint32_t i : launch.totals) {
    const Kernel& kernel = in.plan().kernels[launch.kernel];
    touches.push_back({launch.accesses[i], kernel.length, kernel.arguments[i].dtype, false});
  }
  if (launch.partials != kNoBuffer) {
    const int64_t width = in.plan().buffers[launch.partials].width;
    touches.push_back({{.buffer = launch.partials}, width, DType::f32, true});
  }
  if (launch.exchange != kNoBuffer) {
    const int64_t width = in.plan().buffers[launch.exchange].width;
    touches.push_back({{.buffer = launch.exchange, .stride = width}, width, DType::f32, true});
  }
  return in.check_touches(touches, 1);
}

/// The forms are part of the kernel; composing them and going on from there are a few operations
/// more.
LaunchWork work_of(const Plan& plan, const ScanLaunch& launch, int64_t rows) {
  double composing = 0;
  const Kernel& kernel = plan.kernels[launch.kernel];
  for (const ScanRound& round : launch.rounds) {
    const auto m = static_cast<double>(round.states.size());
    const bool scaled = structure_of(kernel, round) == ScanStructure::Scaled;
    const auto coefficients = static_cast<double>(own_coefficients(kernel, round).size());
    composing += scaled ? 2 * (m + 1) : 2 * m * (coefficients + m);
  }
  return {.elementwise = static_cast<double>(rows) *
                         (flops_of(kernel) + composing * static_cast<double>(kernel.length))};
}

std::vector<BufferId> sums_of(const ScanLaunch& launch) {
  std::vector<BufferId> sums;
  for (const uint32_t i : launch.totals) {
    const BufferId id = launch.accesses[i].buffer;
    if (std::ranges::count(sums, id) == 0) sums.push_back(id);
  }
  return sums;
}

bool fills_sum(const Plan& plan, const ScanLaunch& launch) {
  const Buffer& sum = plan.buffers[launch.accesses[launch.totals[0]].buffer];
  return std::ssize(launch.totals) * plan.kernels[launch.kernel].length == sum.width;
}

LaunchWords describe(const LaunchNames& in, const ScanLaunch& launch) {
  LaunchWords words = describe(in, ElementwiseLaunch{launch.kernel, launch.accesses});
  words.kind = "scan";
  words.summary = fmt::format("scan of {}", plural(operation_count(words), "operation"));
  words.strategy =
      fmt::format("a scan: tiles of {} steps side by side{}, which hand their states on",
                  launch.tile_steps(), in.on_cpu() ? ", shared out among threads" : "");
  describe_earlier(in, launch.accesses, launch.earlier, words);
  if (!launch.totals.empty()) {
    words.notes.push_back({"fused", fmt::format("adds up {} over the steps, tile by tile",
                                                plural(std::ssize(launch.totals), "value"))});
  }
  std::vector<std::string> rounds;
  for (const ScanRound& round : launch.rounds) {
    const std::string_view semiring = round.semiring == Semiring::SumProduct ? "(+, *)"
                                      : round.semiring == Semiring::MaxPlus  ? "(max, +)"
                                                                             : "(min, +)";
    rounds.push_back(fmt::format("{} over {}{}", plural(std::ssize(round.states), "state"),
                                 semiring, round.bounded ? ", coefficients at most 1" : ""));
  }
  words.notes.push_back(
      {"fused", fmt::format("{} steps in one launch, {}: {}", in.plan().chunk,
                            plural(std::ssize(rounds), "round"), fmt::join(rounds, "; "))});
  return words;
}

template struct LaunchKind<ScanLaunch>;

}  // namespace rnnc
