// A thread has one or two neighbouring elements of a row and runs all steps:
//
// 1. Load what no step changes, and the carries.
// 2. Load the packets of the first `depth` steps into queues.
// 3. `depth` steps at a time: take a step's packets out of the queues, put those of `depth` steps
//    later in their places, and do the step's work. The body is unrolled, so that queues are
//    registers and loads of `depth` steps are always on their way. A long body is not: its own
//    loads are enough, and copies of it would take minutes to compile.
// 4. The steps that are left; store the carries.
#include "codegen/cuda/elementwise/emit_loop.h"

#include <algorithm>
#include <bit>

#include "codegen/cuda/device/kernel_text.h"
#include "ir/base/text_writer.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

/// Of registers that a thread has for what is on its way: 32768 threads then keep an H200's memory
/// busy.
constexpr uint64_t kBytesAhead = 256;
constexpr uint64_t kBytesOfRegister = 4;
constexpr uint64_t kLeastDepth = 4;
constexpr uint64_t kGreatestDepth = 64;
/// Machine instructions of `depth` steps, roughly: more are not in a multiprocessor's instruction
/// caches, and are fetched anew each time.
constexpr uint64_t kMostCode = 1280;
constexpr int kCodeOfLoad = 2;
constexpr int kCodeOfStore = 3;
/// Instructions of a step that is not copied.
constexpr size_t kLongStep = 256;

class LoopEmitter : TextWriter {
 public:
  LoopEmitter(const Kernel& kernel, const LoopTraits& traits, const CudaKernelShape& shape,
              std::string_view name)
      : kernel_(kernel),
        traits_(traits),
        shape_(shape),
        name_(name),
        carried_(kernel.arguments.size(), false) {
    for (const LoopCarry& carry : traits.carries) {
      carried_[carry.load] = true;
      carried_[carry.store] = true;
    }
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < kernel.arguments.size(); ++i) {
      if (!is_queued(i)) continue;
      queued_.push_back(i);
      const uint64_t packet = size_of(kernel.arguments[i].dtype) * static_cast<uint64_t>(items(i));
      bytes += std::max<uint64_t>(packet, kBytesOfRegister);
    }
    depth_ = std::clamp(std::bit_ceil(kBytesAhead / std::max<uint64_t>(bytes, 1)), kLeastDepth,
                        kGreatestDepth);
    while (depth_ > kLeastDepth && depth_ * code_of_step() > kMostCode) depth_ /= 2;
    if (kernel.body.size() > kLongStep) depth_ = 1;
  }

  std::string emit() {
    if (!traits_.aligned) line("template <bool Aligned>");
    line("static __device__ __forceinline__ void {}_run({}, unsigned row, unsigned e) {{", name_,
         parameters("&"));
    arrays();
    step();
    loop();
    line("}}");
    entry();
    return take_text();
  }

 private:
  const Kernel::Argument& argument(uint32_t index) const { return kernel_.arguments[index]; }
  bool is_queued(uint32_t index) const {
    return !argument(index).written && !carried_[index] && !traits_.invariant[index];
  }
  int items(uint32_t index) const { return argument(index).vector ? traits_.items : 1; }

  uint64_t code_of_step() const {
    int code = 0;
    for (const Instruction& instruction : kernel_.body) {
      if (instruction.kind == Kind::Load && is_queued(instruction.argument)) code += kCodeOfLoad;
      if (instruction.kind == Kind::Store && !carried_[instruction.argument]) code += kCodeOfStore;
      if (instruction.kind != Kind::Scalar) continue;
      code += info(instruction.op).flops + info(instruction.op).specials;
    }
    return static_cast<uint64_t>(code * traits_.items);
  }

  std::string parameters(std::string_view reference) const {
    return fmt::format("const rnnc_rows{} rows, int steps{}", reference,
                       cuda_access_parameters(kernel_.arguments.size(), reference));
  }

  /// Step 1, and what every argument needs: its packet type `t`, address `a` and distance `d` from
  /// step to step; packets of carries `n` and of invariant values `i`.
  void arrays() {
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      const bool written = argument(i).written;
      const std::string type = cuda_array_type(argument(i));
      line("  typedef rnnc_packet<{}, {}, {}> t{};", cuda_element_type(argument(i).dtype), items(i),
           items(i) == 1 || traits_.aligned ? "true" : "Aligned", i);
      line("  {}* const a{} = rnnc_row<{}>(rows.frame, p{}, row){};", type, i, type, i,
           argument(i).vector ? " + e" : "");
      if (is_queued(i) || (written && !carried_[i])) {
        line("  const rnnc_word d{} = {}rows.count * p{}.stride;", i,
             traits_.descending ? "-1ll * " : "", i);
      } else if (!written) {
        line("  {}t{} {}{} = t{}::load(a{});", carried_[i] ? "" : "const ", i,
             carried_[i] ? "n" : "i", i, i, i);
      }
    }
  }

  /// A function of the step and its queued packets `x`.
  void step() {
    line("  const auto step = [&](rnnc_word t{}) {}{{", for_queued(", const t{0}& x{0}"),
         depth_ == 1 ? "__attribute__((always_inline)) " : "");
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      if (argument(i).written) line("    t{} o{} = {{}};", i, i);
    }
    line("#pragma unroll");
    line("    for (int x = 0; x < {}; ++x) {{", traits_.items);
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) statement(id);
    line("    }}");
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      if (!argument(i).written || carried_[i]) continue;
      line("    {}o{}.store(a{} + t * d{});", argument(i).vector ? "" : "if (e == 0) ", i, i, i);
    }
    for (const LoopCarry& carry : traits_.carries) {
      line("    n{} = o{};", carry.load, carry.store);
    }
    line("  }};");
  }

  /// `format` for each queued argument, one after the other.
  std::string for_queued(std::string_view format) const {
    std::string text;
    for (const uint32_t i : queued_) text += fmt::format(fmt::runtime(format), i);
    return text;
  }

  void statement(uint32_t id) {
    const Instruction& instruction = kernel_.body[id];
    const uint32_t i = instruction.argument;
    switch (instruction.kind) {
      case Kind::Load:
        line("      const float v{} = {}{}.get({});", id,
             carried_[i]            ? "n"
             : traits_.invariant[i] ? "i"
                                    : "x",
             i, items(i) == 1 ? "0" : "x");
        break;
      case Kind::Scalar:
        line("      const float v{} = {};", id, cuda_scalar_text(kernel_, id));
        break;
      case Kind::Store:
        line("      {}o{}.set({}, {});", items(i) < traits_.items ? "if (x == 0) " : "", i,
             items(i) == 1 ? "0" : "x", cuda_value(kernel_, instruction.operands[0]));
        break;
      case Kind::Constant:
        break;
      case Kind::Reduce:
      case Kind::Carried:
      case Kind::Last:
        RNNC_CHECK(false, "no reductions and no loops in this kernel");
    }
  }

  /// Steps 2 to 4.
  void loop() {
    for (const uint32_t i : queued_) line("  t{} q{}[{}];", i, i, depth_);
    line("#pragma unroll");
    line("  for (int d = 0; d < {}; ++d) {{", depth_);
    for (const uint32_t i : queued_) {
      line("    q{}[d] = t{}::load(a{} + min(d, steps - 1) * d{});", i, i, i, i);
    }
    line("  }}");
    line("  int t = 0;");
    line("  for (; t + {} <= steps; t += {}) {{", depth_, depth_);
    line("#pragma unroll");
    line("    for (int d = 0; d < {}; ++d) {{", depth_);
    if (!queued_.empty()) line("      const int later = min(t + d + {}, steps - 1);", depth_);
    for (const uint32_t i : queued_) {
      line("      const t{} x{} = q{}[d];", i, i, i);
      line("      q{}[d] = t{}::load(a{} + later * d{});", i, i, i, i);
    }
    line("      step(t + d{});", for_queued(", x{0}"));
    line("    }}");
    line("  }}");
    if (depth_ > 1) {
      line("#pragma unroll");
      line("  for (int d = 0; d < {}; ++d) {{", depth_);
      line("    if (t + d < steps) step(t + d{});", for_queued(", q{0}[d]"));
      line("  }}");
    }
    for (const LoopCarry& carry : traits_.carries) {
      line("  {}n{}.store(a{});", argument(carry.store).vector ? "" : "if (e == 0) ", carry.load,
           carry.store);
    }
  }

  void entry() {
    line("extern \"C\" __global__ void __launch_bounds__({})", shape_.threads);
    line("{}({}) {{", name_, parameters(""));
    line("  const unsigned i = blockIdx.x * {}u + threadIdx.x;", shape_.threads);
    line("  const unsigned slice_row = i / {}u;", shape_.length);
    line("  const unsigned e = i % {}u * {}u;", shape_.length, traits_.items);
    line("  const unsigned row = blockIdx.y * rows.per_slice + slice_row;");
    line("  const bool due = rnnc_is_due(rows);");
    line("  rnnc_begin();");
    line("  if (!due || slice_row >= rows.per_slice || row >= rows.count) return;");
    std::string arguments = "rows, steps";
    for (size_t i = 0; i < kernel_.arguments.size(); ++i) arguments += fmt::format(", p{}", i);
    arguments += ", row, e";
    if (traits_.aligned) {
      line("  {}_run({});", name_, arguments);
    } else {
      line("  const bool aligned = {};", cuda_are_rows_aligned(kernel_, traits_.items));
      line("  if (aligned) {{");
      line("    {}_run<true>({});", name_, arguments);
      line("  }} else {{");
      line("    {}_run<false>({});", name_, arguments);
      line("  }}");
    }
    line("}}");
  }

  const Kernel& kernel_;
  const LoopTraits& traits_;
  const CudaKernelShape& shape_;
  std::string_view name_;
  std::vector<bool> carried_;     // by argument
  std::vector<uint32_t> queued_;  // arguments whose packets come through queues
  uint64_t depth_ = 1;
};

}  // namespace

std::string emit_loop_kernel(const Kernel& kernel, const LoopTraits& traits,
                             const CudaKernelShape& shape, std::string_view name) {
  return LoopEmitter(kernel, traits, shape, name).emit();
}

}  // namespace rnnc
