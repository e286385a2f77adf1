// 1. For each loop, prove that the states of its kernel go on by affine maps
//    (passes/affine/affine_forms.h), of few states at a time. What it stores none of its loads may
//    read, but for what it carries.
// 2. Give the kernel what the proof added to its body: a copy of it, if others run it too.
// 3. Choose the length of its tiles, and give the scan an exchange on a GPU.
// 4. On a GPU, what a launch copies for scans alone, each step from the one before, they read where
//    it lies.
// 5. What totals read of their steps they add up themselves (passes/plan/scan_totals.h).
#include "passes/plan/scans.h"

#include <algorithm>
#include <optional>

#include "ir/base/arithmetic.h"
#include "ir/plan/buffer_uses.h"
#include "ir/plan/scan_exchange.h"
#include "ir/plan/scan_structure.h"
#include "ir/plan/scan_values.h"
#include "passes/affine/affine_forms.h"
#include "passes/lower/unused_buffers.h"
#include "passes/plan/scan_totals.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

// Measured on an H100, MinGRU and others from their gates' pre-activations.
//
// Of what a thread keeps of its steps (ir/plan/scan_values.h), registers: many leave room for few
// blocks beside each other, which is right where there are few channels, since states pass through
// long tiles faster.
constexpr int64_t kMostWords = 48;
constexpr int64_t kMostWordsOfFew = 64;
constexpr int64_t kMostWordsOfPairs = 80;
constexpr int64_t kFewChannels = 4096;
// Where a thread has room for four steps alone, it has eight, of one channel, and half of the warps
// are enough for as long a tile: what a thread does once, for its channel or for its map, counts for
// twice as many steps. (Backward halves, 8x1024x1536 in bf16 on an H200, us for four times as many
// steps: RWKV-4 634, so 556; S4D 1947, so 1536.)
constexpr int64_t kStepsOfFewWarps = 8;
// Pairs of channels load twice as much at once, and take the registers of two. (8x4096x1536 in
// bf16, ps an element in pairs and without: minGRU 2.35 and 2.49, minLSTM 3.49 and 3.31, a complex
// LRU 3.98 and 3.48.)
constexpr int64_t kMostValuesOfPairs = 2;
constexpr int64_t kMostInputsOfPairs = 2;
// Of 16 bits a pair's inputs take no more registers than one's, and where there are many arrays
// half as many loads and stores count for more than what is computed. (Backward halves, us a call
// in pairs and without: minGRU 227 and 257, HGRN 331 and 396, RG-LRU 403 and 449, a complex LRU 325
// and 458, minLSTM 360 and 357, QRNN 340 and 335.)
constexpr int64_t kLeastArraysOfPairs = 6;
constexpr size_t kMostCarriesOfPairs = 3;
// A thread's steps are written out, some of each several times. So many instructions of the kernel
// compile in a few seconds, sixteen times as many in more than a minute.
constexpr int64_t kMostCode = 2048;
// So many tiles side by side are on their way at once. Of their channels' each, those of a group
// wait for the first at the same time, but compose the maps between.
constexpr int64_t kTilesAtOnce = 256;
constexpr int64_t kMostGroup = 16;
// A warp's maps of more states would not all find room in shared memory.
constexpr size_t kMostStatesOfManyWarps = 2;

// On a CPU: bytes of a row's tile, which stay in a core's second level cache from one pass over
// them to the next, and its steps, which are worth a hand-over to other threads.
constexpr int64_t kTileBytes = int64_t{128} << 10;
constexpr int64_t kLeastTileSteps = 16;
constexpr int64_t kMostTileSteps = 1024;

class ScanMaker {
 public:
  ScanMaker(Plan& plan, const LoopLaunch& loop, const Machine& machine)
      : plan_(plan),
        loop_(loop),
        kernel_(plan.kernels[loop.kernel]),
        on_cpu_(machine.kind == Machine::Kind::Cpu) {}

  /// Changes nothing but the plan's kernels and buffers, and these only if it is one.
  Result<ScanLaunch> run() {
    if (Status status = check_apart(); !status) return tl::unexpected(status.error());
    const auto forms = find_affine_forms(kernel_.body, states());
    if (!forms) return fail("{}", forms.error().why);
    for (const ScanRound& round : forms->rounds) {
      const size_t m = round.states.size();
      if (m > kMostScanStates) {
        return fail("{} of its states need each other, and a scan takes at most {}", m,
                    kMostScanStates);
      }
    }
    ScanLaunch scan = {.accesses = loop_.accesses,
                       .carries = loop_.carries,
                       .earlier = {},
                       .totals = {},
                       .rounds = forms->rounds};
    if (on_cpu_) {
      scan.kernel = kernel_with(forms->instructions);
      scan.warps = 1;
      scan.steps_of_warp = steps_in_cache();
      return scan;
    }
    std::vector<Instruction> body = forms->instructions;
    scan.rounds = join_rounds(scan.rounds, body);
    scan.kernel = kernel_with(body);
    choose_tile(scan);
    scan.exchange = static_cast<BufferId>(plan_.buffers.size());
    plan_.buffers.push_back({.name = "exchange",
                             .dtype = DType::f32,
                             .extent = Extent::Chunk,
                             .width = scan_exchange_width(plan_, scan)});
    return scan;
  }

 private:
  std::vector<CarriedState> states() const {
    std::vector<CarriedState> states(loop_.carries.size());
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      const Instruction& instruction = kernel_.body[id];
      for (size_t i = 0; i < states.size(); ++i) {
        if (instruction.kind == Kind::Load && instruction.argument == loop_.carries[i].load) {
          states[i].loads.push_back(id);
        }
        if (instruction.kind == Kind::Store && instruction.argument == loop_.carries[i].store) {
          states[i].next = instruction.operands[0];
        }
      }
    }
    return states;
  }

  bool is_carried(uint32_t argument) const {
    return std::ranges::any_of(loop_.carries, [&](const LoopCarry& carry) {
      return carry.load == argument || carry.store == argument;
    });
  }

  Status check_apart() const {
    if (loop_.carries.size() > kMostProvedStates) {
      return fail("it has {} states", loop_.carries.size());
    }
    for (uint32_t i = 0; i < loop_.accesses.size(); ++i) {
      if (is_carried(i)) {
        if (kernel_.length > 1 && !kernel_.arguments[i].vector) {
          return fail("one of its states is the same for all elements");
        }
        continue;
      }
      if (on_cpu_ && kernel_.length > 1 && kernel_.arguments[i].written &&
          !kernel_.arguments[i].vector) {
        return fail("it stores a value that is the same for all elements");
      }
      for (uint32_t store = 0; store < loop_.accesses.size(); ++store) {
        if (!kernel_.arguments[i].written && kernel_.arguments[store].written &&
            loop_.accesses[i].buffer == loop_.accesses[store].buffer) {
          return fail("it reads at a step what it stores at an earlier one");
        }
      }
    }
    return {};
  }

  /// On a GPU: states that decay alike, such as a sum and its weights, go in one round; each has an
  /// exchange. `body` gets a zero.
  std::vector<ScanRound> join_rounds(const std::vector<ScanRound>& rounds,
                                     std::vector<Instruction>& body) const {
    std::vector<ScanRound> joined;
    for (const ScanRound& round : rounds) {
      if (joined.empty() || !decay_alike(joined.back(), round, body)) {
        joined.push_back(round);
        continue;
      }
      ScanRound& before = joined.back();
      before.bounded = before.bounded && round.bounded;
      before.states.push_back(round.states[0]);
      before.offsets.push_back(round.offsets[0]);
      const size_t m = before.states.size();
      const uint32_t diagonal = round.coefficients[0];
      before.coefficients.assign(m * m, constant_of(zero_of(round.semiring), body));
      for (size_t i = 0; i < m; ++i) before.coefficients[i * m + i] = diagonal;
    }
    return joined;
  }

  /// Whether states of `round`, which comes behind `before`, could be in it as well.
  bool decay_alike(const ScanRound& before, const ScanRound& round,
                   const std::vector<Instruction>& body) const {
    if (before.semiring != round.semiring || round.states.size() > 1 ||
        before.states.size() >= kMostScanStates || before.states.back() > round.states[0]) {
      return false;
    }
    Kernel kernel = kernel_;
    kernel.body = body;
    return structure_of(kernel, before) == ScanStructure::Scaled &&
           before.coefficients[0] == round.coefficients[0] &&
           !needs(round.offsets[0], before.states, body);
  }

  /// Whether an instruction needs one of these states' values before the step.
  bool needs(uint32_t id, const std::vector<uint32_t>& states,
             const std::vector<Instruction>& body) const {
    std::vector<bool> needed(id + 1, false);
    needed[id] = true;
    for (size_t i = id + 1; i-- > 0;) {
      if (!needed[i]) continue;
      for (const uint32_t operand : body[i].operands) needed[operand] = true;
      if (body[i].kind != Kind::Load) continue;
      const auto loads = [&](uint32_t state) {
        return loop_.carries[state].load == body[i].argument;
      };
      if (std::ranges::any_of(states, loads)) return true;
    }
    return false;
  }

  static uint32_t constant_of(double value, std::vector<Instruction>& body) {
    const Instruction constant = {.kind = Kind::Constant, .value = value, .operands = {}};
    const auto known = std::ranges::find(body, constant);
    const auto id = static_cast<uint32_t>(known - body.begin());
    if (known == body.end()) body.push_back(constant);
    return id;
  }

  uint32_t kernel_with(const std::vector<Instruction>& body) {
    if (body.size() == kernel_.body.size()) return loop_.kernel;
    Kernel kernel = kernel_;
    kernel.name += "_scan";
    kernel.body = body;
    plan_.kernels.push_back(std::move(kernel));
    return static_cast<uint32_t>(plan_.kernels.size() - 1);
  }

  bool changes(uint32_t argument) const {
    return plan_.buffers[loop_.accesses[argument].buffer].extent != Extent::Invariant &&
           !is_carried(argument);
  }

  /// The same for all numbers of threads, so that these change no bits.
  int64_t steps_in_cache() const {
    int64_t bytes = 1;
    for (uint32_t i = 0; i < loop_.accesses.size(); ++i) {
      if (!changes(i)) continue;
      bytes += (kernel_.arguments[i].vector ? kernel_.length : 1) *
               static_cast<int64_t>(size_of(plan_.dtype));
    }
    int64_t steps = kMostTileSteps;
    while (steps > kLeastTileSteps && steps * bytes > kTileBytes) steps /= 2;
    return steps;
  }

  void choose_tile(ScanLaunch& scan) const {
    const int64_t channels = plan_.batch * kernel_.length;
    const bool few = channels < kFewChannels;
    size_t states = 1;
    for (const ScanRound& round : scan.rounds) states = std::max(states, round.states.size());
    const std::vector<bool> kept = scan_values(plan_, scan);
    const int64_t values = std::max<int64_t>(std::ranges::count(kept, true), 1);
    const bool narrow = size_of(plan_.dtype) < size_of(DType::f32);
    const bool pairs = narrow && arrays(true) + arrays(false) >= kLeastArraysOfPairs
                           ? scan.carries.size() <= kMostCarriesOfPairs
                           : states == 1 && values <= kMostValuesOfPairs &&
                                 arrays(false) <= kMostInputsOfPairs && !has_roots();
    scan.items = pairs && channels >= 64 && can_pair() ? 2 : 1;
    scan.warps = few && states <= kMostStatesOfManyWarps ? 16 : kWarpsOfManyChannels;
    scan.steps_of_warp = scan.items > 1 && !few ? 8 : 16;
    const int64_t most = few ? kMostWordsOfFew : scan.items > 1 ? kMostWordsOfPairs : kMostWords;
    const int64_t words = words_of_step(scan, kept);
    while (scan.steps_of_warp > 4 && scan.steps_of_warp * words > most) scan.steps_of_warp /= 2;
    const int64_t code = scan.items * std::ssize(plan_.kernels[scan.kernel].body);
    while (scan.steps_of_warp > 1 && scan.steps_of_warp * code > kMostCode) scan.steps_of_warp /= 2;
    const bool fits = kStepsOfFewWarps * std::ssize(plan_.kernels[scan.kernel].body) <= kMostCode;
    if (!few && scan.steps_of_warp < kStepsOfFewWarps && fits) {
      scan.items = 1;
      scan.warps = kWarpsOfManyChannels / 2;
      scan.steps_of_warp = kStepsOfFewWarps;
    }
    const int64_t of_channels = ceil_div(channels, 32 * scan.items);
    scan.group = std::clamp<int64_t>(kTilesAtOnce / of_channels, 1, kMostGroup);
  }

  /// Registers for what is kept of a step: those of 16 bits are kept as they were loaded.
  int64_t words_of_step(const ScanLaunch& scan, const std::vector<bool>& kept) const {
    int64_t words = 0;
    for (size_t id = 0; id < kept.size(); ++id) {
      if (!kept[id]) continue;
      const Instruction& value = plan_.kernels[scan.kernel].body[id];
      const bool narrow = value.kind == Kind::Load &&
                          size_of(kernel_.arguments[value.argument].dtype) < size_of(DType::f32);
      words += narrow ? 1 : scan.items;
    }
    return std::max<int64_t>(words, 1);
  }

  /// Rows that it loads of a step, or stores.
  int64_t arrays(bool written) const {
    int64_t count = 0;
    for (uint32_t i = 0; i < loop_.accesses.size(); ++i) {
      const Kernel::Argument& argument = kernel_.arguments[i];
      const bool varies = plan_.buffers[loop_.accesses[i].buffer].extent != Extent::Invariant;
      if (varies && argument.vector && argument.written == written && !is_carried(i)) ++count;
    }
    return count;
  }

  /// They branch in f32, so that a thread's wait for each other: more threads do better.
  bool has_roots() const {
    return std::ranges::any_of(kernel_.body, [](const Instruction& one) {
      return one.kind == Kind::Scalar && one.op == Op::Sqrt;
    });
  }

  bool can_pair() const {
    if (kernel_.length % 2 != 0) return false;
    for (size_t i = 0; i < loop_.accesses.size(); ++i) {
      const Access& access = loop_.accesses[i];
      if (kernel_.arguments[i].vector && (access.column % 2 != 0 || access.stride % 2 != 0)) {
        return false;
      }
    }
    return true;
  }

  Plan& plan_;
  const LoopLaunch& loop_;
  const Kernel kernel_;  // as it was
  const bool on_cpu_;
};

/// What copies for an argument of a scan each step from the one before, if the scan can read that
/// where it lies.
const EarlierLaunch* copy_of(const Plan& plan, const ScanLaunch& scan, uint32_t argument,
                             const BufferUses& uses) {
  const Access& access = scan.accesses[argument];
  if (plan.buffers[access.buffer].extent != Extent::Chunk || access.delay > 0) return nullptr;
  const std::optional<LaunchPlace> writer = uses.only_writer(access.buffer);
  if (!writer) return nullptr;
  const Launch& launch = plan.stages[writer->stage].launches[writer->launch];
  const auto* const copy = std::get_if<EarlierLaunch>(&launch);
  return copy != nullptr && copy->source.delay == 0 ? copy : nullptr;
}

void read_in_place(Plan& plan) {
  const BufferUses uses(plan);
  for (Stage& stage : plan.stages) {
    auto* const scan =
        stage.launches.size() == 1 ? std::get_if<ScanLaunch>(&stage.launches[0]) : nullptr;
    if (scan == nullptr || scan->exchange == kNoBuffer) continue;
    for (uint32_t i = 0; i < scan->accesses.size(); ++i) {
      const EarlierLaunch* const copy = copy_of(plan, *scan, i, uses);
      if (copy == nullptr) continue;
      const int64_t column = scan->accesses[i].column - copy->target.column;
      scan->accesses[i] = copy->source;
      scan->accesses[i].column += column;
      scan->earlier.push_back(i);
    }
  }
  remove_unread_earlier_steps(plan);
}

}  // namespace

ScanChanges run_scans(Plan& plan, const Machine& machine) {
  ScanChanges changes;
  for (Stage& stage : plan.stages) {
    if (stage.launches.size() != 1) continue;
    const auto* const loop = std::get_if<LoopLaunch>(&stage.launches[0]);
    if (loop == nullptr) continue;
    Result<ScanLaunch> scan = ScanMaker(plan, *loop, machine).run();
    if (scan) {
      stage.launches[0] = *std::move(scan);
      ++changes.made;
    } else if (changes.refusal.empty()) {
      changes.refusal = stage.name + ": " + scan.error().message;
    }
  }
  if (changes.made > 0) {
    read_in_place(plan);
    add_up_in_scans(plan);
  }
  return changes;
}

}  // namespace rnnc
