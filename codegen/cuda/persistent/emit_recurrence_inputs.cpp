// Inputs that are copied to shared memory some steps ahead (ir/persistent/recurrence_inputs.h),
// where those of step t lie in place t % input_steps. The threads of a block share the copies, or
// where warps keep their sums to themselves those of a warp:
// 1. Before the steps each thread finds what it copies. If there are threads enough, each has but
//    every second or fourth step's, so that the others need not look.
// 2. They copy for the first steps.
// 3. At a step those of it are awaited before the barrier behind the products, and copies begin of
//    later ones, in the places of steps that all have passed.
#include <algorithm>

#include "codegen/cuda/device/kernel_text.h"
#include "codegen/cuda/persistent/recurrence_emitter.h"
#include "ir/base/arithmetic.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;
using Group = std::vector<const RecurrenceInput*>;

constexpr int kPrefetchSteps = 4;  // to the L2 cache, of the copy

int64_t granules_of(const Group& group) {
  int64_t granules = 0;
  for (const RecurrenceInput* input : group) granules += input->granules;
  return granules;
}

}  // namespace

bool RecurrenceEmitter::has_inputs(const Phase& phase) const {
  return !groups_of_inputs(phase).empty();
}

/// Of a phase, those that are copied together, one after the other.
std::vector<std::vector<const RecurrenceInput*>> RecurrenceEmitter::groups_of_inputs(
    const Phase& phase) const {
  std::vector<Group> groups;
  for (const RecurrenceInput& input : layout_.staged().inputs) {
    if (layout_.input(phase, input.argument) != &input) continue;
    if (!input.joins) groups.emplace_back();
    groups.back().push_back(&input);
  }
  return groups;
}

/// Steps that are copied together. Blocks that wait for others through memory copy at each step:
/// what comes at once is in the way of what they wait for (LSTM 16x1024 without its input product:
/// 1.20 us, in twos 1.27).
int64_t RecurrenceEmitter::steps_of_copy() const {
  if (layout_.exchange().step_bytes > 0) return 1;
  int64_t phases = 0;
  int64_t steps = tile_.input_steps / 2;
  for (const Phase& phase : phases_) {
    const std::vector<Group> groups = groups_of_inputs(phase);
    if (!groups.empty()) ++phases;
    for (const Group& group : groups) {
      while (steps > 1 && steps * granules_of(group) > layout_.staged().sharers) steps /= 2;
    }
  }
  return phases == 1 ? steps : 1;
}

void RecurrenceEmitter::first_inputs() {
  if (layout_.staged().inputs.empty()) return;
  line("  char* const inputs = reinterpret_cast<char*>(rnnc_shared) + {};", layout_.inputs());
  line("  const auto inputs_at = static_cast<unsigned>(__cvta_generic_to_shared(inputs));");
  for (size_t p = 0; p < phases_.size(); ++p) {
    const std::vector<Group> groups = groups_of_inputs(phases_[p]);
    for (size_t i = 0; i < groups.size(); ++i) find_copies(p, i, groups[i]);
  }
  line("#pragma unroll 1");
  line("  for (int step = 0; step < {0}; step += {1}) {{", tile_.input_steps - steps_of_copy(),
       steps_of_copy());
  for (size_t p = 0; p < phases_.size(); ++p) copy_inputs(p, "step");
  line("  }}");
}

void RecurrenceEmitter::copy_traits(size_t p, size_t index,
                                    const std::vector<const RecurrenceInput*>& group) {
  const Phase& phase = phases_[p];
  const RecurrenceInput& first = *group.front();
  const auto element = static_cast<int64_t>(size_of(phase.kernel->arguments[first.argument].dtype));
  traits_.constant("int", "kBytes", first.granule);
  traits_.constant("int", "kElementBytes", element);
  traits_.constant("bool", "kIsChecked", first.is_checked);
  const int64_t step_bytes = plan_.batch * access_of(phase, first.argument).stride * element;
  traits_.constant("long long", "kAdvance", (plan_.descending ? -1 : 1) * step_bytes);
  traits_.constant("long long", "kBack", first.is_earlier ? step_bytes : 0);
  traits_.constant("unsigned", "kSteps", tile_.input_steps);
  traits_.constant("unsigned", "kStepBytes", layout_.staged().step_bytes);
  traits_.constant("int", "kAhead", layout_.exchange().step_bytes > 0 ? kPrefetchSteps : 0);
  traits_.end(fmt::format("copy{}_{}", p, index), "rnnc_input");
}

/// The element of a row with which a block's copies begin.
std::string RecurrenceEmitter::begin_of(size_t p, const RecurrenceInput& input) {
  return input.multiple == 1 ? fmt::format("unit{}", p)
                             : fmt::format("unit{} / {}u * {}u", p, input.multiple, input.multiple);
}

/// Granules of the last warps' threads come first, as the elementwise work is of the first warps.
void RecurrenceEmitter::find_copies(size_t p, size_t index,
                                    const std::vector<const RecurrenceInput*>& group) {
  const Phase& phase = phases_[p];
  const RecurrenceInput& first = *group.front();
  const auto element = static_cast<int64_t>(size_of(phase.kernel->arguments[first.argument].dtype));
  const int64_t sharers = layout_.staged().sharers;
  const int64_t granules = granules_of(group);
  const int64_t copies = ceil_div(granules, sharers);
  copy_traits(p, index, group);
  line("  copy{}_{} copies{}_{}[{}];", p, index, p, index, copies);
  line("#pragma unroll");
  line("  for (unsigned i = 0; i < {}; ++i) {{", copies);
  line("    unsigned at = (i + 1) * {0}u - 1 - threadIdx.x % {0}u;", sharers);
  line("    const unsigned step = {};",
       copies > 1 ? std::string("0") : fmt::format("at / {}u", granules));
  line("    at = step < {}u ? at - step * {}u : 0xffffffffu;", steps_of_copy(), granules);
  for (const RecurrenceInput* input : group) {
    const int64_t across = input->granules / layout_.group_rows();
    const std::string_view type = cuda_element_type(phase.kernel->arguments[input->argument].dtype);
    const std::string begin = begin_of(p, *input);
    line("    {{");
    line("      const unsigned row = at / {}u;", across);
    line("      const unsigned byte = {}at % {}u * {}u;",
         tile_.own_sums ? fmt::format("threadIdx.x / 32u * {}u + ", across * input->granule) : "",
         across, input->granule);
    line("      if (at < {}u && first_row + row < row_end && {} + byte / {}u < unit_end{}) {{",
         input->granules, begin, element, p);
    const bool is_row = phase.kernel->arguments[input->argument].vector;
    line("        copies{}_{}[i].set(reinterpret_cast<const char*>({}{}) + byte,", p, index,
         array(type, true, phase.accesses[input->argument], "first_row + row"),
         is_row ? " + " + begin : "");
    line("                       inputs_at + {}u + row * {}u + byte, step, steps,", input->offset,
         input->row_bytes);
    line("                       launch.first_step);");
    line("      }}");
    line("      at -= {}u;  // of those before it, far away", input->granules);
    line("    }}");
  }
  line("  }}");
}

/// One group of copies, of a phase.
void RecurrenceEmitter::copy_inputs(size_t p, std::string_view step) {
  const std::vector<Group> groups = groups_of_inputs(phases_[p]);
  if (groups.empty()) return;
  for (size_t i = 0; i < groups.size(); ++i) {
    line("#pragma unroll");
    line("      for (const auto& input : copies{}_{}) input.copy({});", p, i, step);
  }
  line("    rnnc_end_copies();");
}

/// Whether something is done at the step, which is of the first lap.
std::string RecurrenceEmitter::copies_now() const {
  return steps_of_copy() == 1 ? "lap == 0"
                              : fmt::format("lap == 0 && t % {} == 0", steps_of_copy());
}

/// Until those of the step are there, as soon as all who copied them have passed a barrier.
void RecurrenceEmitter::await_inputs(size_t p) {
  if (!has_inputs(phases_[p])) return;
  // Later ones of all phases may be on their way, if all blocks have all phases.
  int64_t groups = 0;
  for (const Phase& phase : phases_) {
    if (!has_inputs(phase)) continue;
    ++groups;
    if (phase.blocks() < tile_.blocks) {
      groups = 1;
      break;
    }
  }
  // Where warps keep their sums, the next ones have begun (products).
  const int64_t begun = tile_.own_sums && !phases_[p].products.empty() ? 1 : 0;
  const int64_t later = tile_.input_steps / steps_of_copy() - 1;
  line("      if ({}) rnnc_wait_copies({});", copies_now(), later * groups - 1 + begun);
}

/// In place of those of steps that nobody needs any more.
void RecurrenceEmitter::inputs_ahead(size_t p) {
  if (!has_inputs(phases_[p])) return;
  if (tile_.own_sums) line("      rnnc_sync_warp();");
  line("      if ({}) {{", copies_now());
  line("      const int ahead = t + {};", tile_.input_steps - steps_of_copy());
  copy_inputs(p, "ahead");
  line("      }}");
}

/// Whether a load is of an input in shared memory, whose elements, or one number, are taken here
/// then.
bool RecurrenceEmitter::input_packet(size_t p, uint32_t id) {
  const Phase& phase = phases_[p];
  const Instruction& load = phase.kernel->body[id];
  if (load.kind != Kind::Load) return false;
  const RecurrenceInput* const input = layout_.input(phase, load.argument);
  if (input == nullptr) return false;
  const std::string_view type = cuda_element_type(phase.kernel->arguments[load.argument].dtype);
  const bool is_row = phase.kernel->arguments[load.argument].vector;
  const auto is_whole = [&phase](int64_t elements) { return elements % phase.span == 0; };
  line("        const auto packed{} = rnnc_packet<{}, {}, {}>::load(", id, type,
       span(phase, load.argument),
       !is_row ||
           (is_whole(phase.units) && (input->multiple == 1 || is_whole(phase.segment_length()))));
  line("            reinterpret_cast<const {}*>(inputs + now % {}u * {}u + {}u) +", type,
       tile_.input_steps, layout_.staged().step_bytes, input->offset);
  if (is_row) {
    const auto element =
        static_cast<int64_t>(size_of(phase.kernel->arguments[load.argument].dtype));
    const std::string before =
        input->multiple == 1 ? "" : fmt::format("unit{} % {}u + ", p, input->multiple);
    line("            (row - first_row) * {}u + {}column{});", input->row_bytes / element, before,
         p);
  } else {
    line("            (row - first_row));");
  }
  return true;
}

}  // namespace rnnc
