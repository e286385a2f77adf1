#include "codegen/cuda/elementwise/state_kernel.h"

#include <algorithm>
#include <utility>

#include "codegen/cuda/device/kernel_text.h"
#include "codegen/cuda/elementwise/emit_kernel.h"
#include "codegen/cuda/elementwise/kernel_traits.h"
#include "ir/base/text_writer.h"
#include "ir/plan/kernel_facts.h"
#include "ir/plan/state_steps.h"

namespace rnnc {
namespace {

constexpr const char* kName = "rnnc_states";
constexpr uint32_t kMostInstances = 64;
constexpr uint32_t kMostBytes = 4096;  // of parameters: more make launches slower

constexpr std::string_view kHideStruct =
    R"(// Of a launch of a state's steps: which of its entries it is for, behind resets or not.
struct rnnc_state_hide {
  const unsigned char* resets;
  const int* lengths;
  rnnc_word first;
  rnnc_word call_steps;
  int steps;
  int place;
  int length;
  int turns;
  int reversed;
  int entries;  // 0: all; 1: in sight; 2: hidden
  int newest_first;  // whether those of the newest come from the step before the sequence's end
  int behind;  // steps behind its own
};)";

constexpr std::string_view kEntryInSight = R"(
// Of the thread's sequence, how many steps before its end are in sight, and by how many places its
// entries have turned. A block looks through the resets of one of its sequences after the other.
struct rnnc_entries {
  int visible = 0;
  int turned = 0;

  __device__ __forceinline__ void find(const rnnc_state_launch& launch, unsigned items) {
    __shared__ int newest;
    const rnnc_state_hide& hide = launch.hide;
    if (hide.entries == 0) return;
    rnnc_begin();  // the resets may be another kernel's
    const unsigned slice = blockIdx.y * launch.rows.per_slice;
    const unsigned first = slice + blockIdx.x * blockDim.x * items / hide.length;
    const unsigned end = slice + ((blockIdx.x + 1) * blockDim.x * items - 1) / hide.length + 1;
    const unsigned own = slice + (blockIdx.x * blockDim.x + threadIdx.x) * items / hide.length;
    const int most = hide.steps + hide.behind;
    for (unsigned row = first; row < min(end, launch.rows.count); ++row) {
      const rnnc_word all = hide.first + hide.call_steps;
      rnnc_word length = hide.lengths == nullptr ? all : max(hide.lengths[row], 0);
      if (length > all) length = all;
      __syncthreads();
      if (threadIdx.x == 0) newest = most;
      __syncthreads();
      for (int back = threadIdx.x; back + 1 < most && back < length; back += blockDim.x) {
        const rnnc_word t = length - 1 - back;
        const rnnc_word at = hide.reversed ? length - t : t;
        if (hide.reversed && t == 0) break;
        if (hide.resets[at * launch.rows.count + row] == 0) continue;
        atomicMin(&newest, back + 1);
        break;
      }
      __syncthreads();
      if (row != own) continue;
      const rnnc_word rest = length - hide.first;
      const rnnc_word past = hide.call_steps - (rest < 0 ? 0 : rest);
      visible = newest;
      turned = static_cast<int>(past % hide.steps);
      if (hide.turns < 0) turned = hide.steps - turned;
      if (hide.turns == 0) turned = 0;
    }
  }

  __device__ __forceinline__ bool has(const rnnc_state_hide& hide, int step) const {
    if (hide.entries == 0) return true;
    const int place = (hide.place - step + turned) % hide.steps;
    const int steps = hide.newest_first ? place + 1 : hide.steps + hide.behind - place;
    const bool in_sight = steps <= visible;
    return in_sight == (hide.entries == 1);
  }
};)";

class Emitter : TextWriter {
 public:
  Emitter(const Plan& plan, const std::vector<std::optional<KernelTraits>>& taken, size_t accesses)
      : plan_(plan), taken_(taken), accesses_(accesses) {}

  std::string emit(const CudaStatesShape& shape) {
    for (size_t i = 0; i < taken_.size(); ++i) {
      if (taken_[i]) part("{}", emit_cuda_function(plan_.kernels[i], i, *taken_[i]));
    }
    if (has_turns(plan_)) turn();
    if (has_hiding(plan_)) line("{}", kHideStruct);
    line("struct rnnc_state_launch {{");
    line("  rnnc_rows rows;");
    line("  unsigned kernel;");
    line("  unsigned {};", has_histories(plan_) ? "steps" : "unused");
    line("  rnnc_access access[{}];", accesses_);
    if (has_histories(plan_)) line("  rnnc_word apart[{}];  // from step to step", accesses_);
    if (has_turns(plan_)) line("  rnnc_state_turn turn;");
    if (has_hiding(plan_)) line("  rnnc_state_hide hide;");
    line("}};");
    if (has_histories(plan_)) access_of_step(shape);
    if (has_hiding(plan_)) part("{}", kEntryInSight);
    line("struct rnnc_state_launches {{");
    line("  rnnc_state_launch of[{}];", shape.most_instances);
    if (has_histories(plan_)) line("  rnnc_word steps;  // of all");
    line("}};");
    line("extern \"C\" __global__ void __launch_bounds__({})", shape.threads);
    line("{}(const __grid_constant__ rnnc_state_launches launches) {{", kName);
    if (has_histories(plan_)) {
      line("  const rnnc_state_launch* of = launches.of;");
      line("  rnnc_word before = 0;  // steps of those before it");
      if (has_hiding(plan_)) {
        line("  const rnnc_state_launch* seen = nullptr;");
        line("  rnnc_entries entries;");
      }
      line("  for (rnnc_word all = blockIdx.z; all < launches.steps; all += gridDim.z) {{");
      line("    while (all - before >= of->steps) before += of++->steps;");
      if (has_hiding(plan_)) {
        line("    if (of != seen) entries.find(*of, {}u);", shape.items);
        line("    seen = of;");
        line("    if (!entries.has(of->hide, static_cast<int>(all - before))) continue;");
      }
      line("    const auto step = static_cast<unsigned>(all - before);");
      line("    const rnnc_state_launch& launch = *of;");
    } else {
      line("  const rnnc_state_launch& launch = launches.of[blockIdx.z];");
    }
    line("  switch (launch.kernel) {{");
    for (size_t i = 0; i < taken_.size(); ++i) {
      if (!taken_[i]) continue;
      std::string arguments = "launch.rows";
      for (size_t a = 0; a < plan_.kernels[i].arguments.size(); ++a) {
        arguments += has_histories(plan_) ? fmt::format(", rnnc_of_step(launch, {}, step, {}u)", a,
                                                        plan_.kernels[i].length)
                                          : fmt::format(", launch.access[{}]", a);
      }
      const std::string call = fmt::format("{}({});", cuda_function_name(i), arguments);
      line("    case {}: {}", i, has_histories(plan_) ? call + " break;" : "return " + call);
    }
    line("  }}");
    if (has_histories(plan_)) line("  }}");
    line("}}");
    return take_text();
  }

 private:
  void turn() {
    line(
        "// Of the launch of a state's steps: which access is to the caller's array, and of how "
        "many");
    line("// steps; the first step's place by age, and bytes from it to the next older one.");
    line("struct rnnc_state_turn {{");
    line("  const int* lengths;");
    line("  rnnc_word first;");
    line("  rnnc_word call_steps;");
    line("  rnnc_word apart;");
    line("  int caller;");
    line("  int steps;");
    line("  int place;");
    line("  int ahead;");
    line("}};");
  }

  void access_of_step(const CudaStatesShape& shape) {
    if (has_turns(plan_)) {
      line("// Of the thread's sequence, whose steps past its end have turned the state's.");
    }
    line("static __device__ __forceinline__ rnnc_access rnnc_of_step(");
    line("    const rnnc_state_launch& launch, int access, unsigned step, unsigned length) {{");
    line("  rnnc_access moved = launch.access[access];");
    line("  moved.address += step * launch.apart[access];");
    if (has_turns(plan_)) turn_access(shape);
    line("  return moved;");
    line("}}");
  }

  void turn_access(const CudaStatesShape& shape) {
    line("  const rnnc_state_turn& turn = launch.turn;");
    line("  const int own = turn.place - static_cast<int>(step);");
    line("  const unsigned row = blockIdx.y * launch.rows.per_slice +");
    line("                       (blockIdx.x * {}u + threadIdx.x) * {}u / length;", shape.threads,
         shape.items);
    line(
        "  if (turn.steps == 0 || turn.caller != access || row >= launch.rows.count) return "
        "moved;");
    line("  const rnnc_word rest = turn.lengths[row] - turn.first;");
    line(
        "  const rnnc_word steps = rest < 0 ? 0 : rest < turn.call_steps ? rest : "
        "turn.call_steps;");
    line("  const rnnc_word by = (turn.call_steps - steps) % turn.steps;");
    line(
        "  const rnnc_word place = (own + (turn.ahead ? by : turn.steps - by)) % "
        "turn.steps;");
    line("  moved.address += (place - own) * turn.apart;");
  }

  const Plan& plan_;
  const std::vector<std::optional<KernelTraits>>& taken_;
  size_t accesses_;
};

/// Elements of a thread: one, but of histories, which are long, as many as all rows allow.
int items_of(const Plan& plan, const std::vector<std::optional<KernelTraits>>& taken) {
  int items = has_histories(plan) ? kMostPacket : 1;
  for (size_t i = 0; i < taken.size(); ++i) {
    if (!taken[i]) continue;
    while (items > 1 && (plan.kernels[i].length % items != 0 || taken[i]->packet % items != 0)) {
      items /= 2;
    }
  }
  return items;
}

}  // namespace

CudaStateKernel::CudaStateKernel(const Plan& plan)
    : plan_(plan), taken_(plan.kernels.size()), elsewhere_(plan.kernels.size(), false) {
  const std::vector<std::optional<KernelTraits>> traits = kernel_traits(plan);
  for (const Stage& stage : plan.stages) {
    for (const Launch& launch : stage.launches) {
      const auto* elementwise = std::get_if<ElementwiseLaunch>(&launch);
      if (elementwise != nullptr) elsewhere_[elementwise->kernel] = true;
    }
  }
  uint32_t launches = 0;  // at once
  for (const StatePlan& state : plan.states) {
    ++launches;  // of all of its steps
    for (const auto member : kStateLaunches) {
      const ElementwiseLaunch& launch = state.*member;
      if (launch.accesses.empty()) continue;
      const Kernel& kernel = plan.kernels[launch.kernel];
      RNNC_CHECK(!has_reductions(kernel), "a state begins or ends element by element");
      taken_[launch.kernel] = traits[launch.kernel];
      accesses_ = std::max(accesses_, kernel.arguments.size());
      shape_.threads = static_cast<uint32_t>(cuda_kernel_shape(kernel).threads);
    }
  }
  if (accesses_ == 0) return;
  shape_.items = items_of(plan, taken_);
  for (std::optional<KernelTraits>& own : taken_) {
    if (own) own->items = shape_.items;
  }
  size_t bytes = sizeof(CudaRows) + 2 * sizeof(uint32_t) + accesses_ * sizeof(CudaAccess);
  const auto add = [&bytes](size_t more) {
    return static_cast<uint32_t>(std::exchange(bytes, bytes + more));
  };
  if (has_histories(plan)) shape_.apart = add(accesses_ * sizeof(int64_t));
  if (has_turns(plan)) shape_.turn = add(sizeof(CudaStateTurn));
  if (has_hiding(plan)) shape_.hide = add(sizeof(CudaStateHide));
  shape_.instance_bytes = static_cast<uint32_t>(bytes);
  shape_.most_instances =
      std::min({launches, kMostInstances, std::max(1U, kMostBytes / shape_.instance_bytes)});
  shape_.bytes = shape_.most_instances * shape_.instance_bytes;
  if (has_histories(plan)) shape_.bytes += sizeof(int64_t);
}

void CudaStateKernel::add_to(CudaModule& module) const {
  if (shape_.most_instances == 0) return;
  module.source += '\n';
  module.source += Emitter(plan_, taken_, accesses_).emit(shape_);
  module.states = module.add({kName, shape_});
}

}  // namespace rnnc
