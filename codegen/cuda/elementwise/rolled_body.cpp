// Instruction i is `v<i>`; what is carried from one iteration to the next a variable; what a later
// loop takes element by element an array `k<i>`. Loops count `l`, those in loops `m`.
#include "codegen/cuda/elementwise/rolled_body.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "codegen/cuda/device/kernel_text.h"
#include "ir/base/text_writer.h"
#include "ir/plan/kernel_facts.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

/// Arrays are in registers if all loops are unrolled. Of 255 that a thread may have…
constexpr int64_t kMostArrayRegisters = 144;
/// …and of so many instructions, which NVRTC compiles within seconds.
constexpr int64_t kMostUnrolled = 4096;
constexpr std::string_view kUnrollAll = "#pragma unroll";

int64_t kept_elements(const Kernel& kernel) {
  const std::vector<int64_t> kept = kept_for_later_loops(kernel);
  return std::accumulate(kept.begin(), kept.end(), int64_t{0});
}

class BodyWriter : TextWriter {
 public:
  BodyWriter(const Kernel& kernel, int64_t arrays, const CudaBodyMemory& memory)
      : kernel_(kernel),
        memory_(memory),
        loops_(loops_of(kernel)),
        around_(loops_around(kernel)),
        kept_(kept_for_later_loops(kernel)),
        unroll_(cuda_unroll(kernel, arrays)) {}

  std::string write() {
    write_part(kNoLoop, "    ");
    return take_text();
  }

 private:
  /// A turn of a loop, or all.
  void write_part(uint32_t loop, const std::string& indent) {
    visit_loop(
        kernel_, loop, [&](uint32_t i) { statement(i, indent); },
        [&](uint32_t inner) { write_loop(inner, indent); });
  }

  void write_loop(uint32_t id, const std::string& indent) {
    const Kernel::Loop& loop = kernel_.loops[id];
    const bool is_inner = around_[id] != kNoLoop;
    for (uint32_t i = loop.begin; i < loop.end; ++i) {
      const Instruction& instruction = kernel_.body[i];
      if (loops_[i] == id && instruction.kind == Kind::Carried) {
        line("{}float v{} = {};", indent, i, value(i, instruction.operands[0]));
      }
      // What all turns of an outer loop have made is there behind it.
      if (kept_[i] > 0 && !is_inner) line("{}float k{}[{}];", indent, i, kept_[i]);
    }
    line("{}", unroll(id));
    const char turn = is_inner ? 'm' : 'l';
    if (loop.descending) {
      line("{}for (int {} = {}; {} >= 0; --{}) {{", indent, turn, loop.count - 1, turn, turn);
    } else {
      line("{}for (int {} = 0; {} < {}; ++{}) {{", indent, turn, turn, loop.count, turn);
    }
    write_part(id, indent + "  ");
    for (uint32_t i = loop.begin; i < loop.end; ++i) {
      const Instruction& instruction = kernel_.body[i];
      if (loops_[i] != id || instruction.kind != Kind::Carried) continue;
      line("{}  v{} = {};", indent, i, value(i, instruction.operands[1]));
    }
    line("{}}}", indent);
  }

  /// Of loops around others whole turns stay as they are, unless all are unrolled.
  std::string unroll(uint32_t loop) const {
    const bool is_outer = std::ranges::count(around_, loop) > 0;
    return is_outer && unroll_ != kUnrollAll ? "#pragma unroll 1" : unroll_;
  }

  void statement(uint32_t id, std::string_view indent) {
    const Instruction& instruction = kernel_.body[id];
    switch (instruction.kind) {
      case Kind::Constant:
      case Kind::Carried:
        return;
      case Kind::Store:
        line("{}{}", indent, memory_.store(id, element(id), value(id, instruction.operands[0])));
        return;
      case Kind::Load:
        line("{}const float v{} = {};", indent, id, memory_.load(id, element(id)));
        break;
      case Kind::Last:
        line("{}const float v{} = v{};", indent, id, instruction.operands[0]);
        break;
      case Kind::Scalar:
        line("{}const float v{} = {};", indent, id,
             cuda_scalar_text(instruction.op, [&](size_t operand) {
               return value(id, instruction.operands.at(operand));
             }));
        break;
      case Kind::Reduce:
        RNNC_CHECK(false, "a kernel with loops has no reductions");
    }
    if (kept_[id] > 0) line("{}k{}[{}] = v{};", indent, id, turn_of(id, id, kept_[id]), id);
  }

  /// What `user` takes for an instruction.
  std::string value(uint32_t user, uint32_t id) const {
    const bool around = loops_[user] != kNoLoop && around_[loops_[user]] == loops_[id];
    const bool elsewhere = loops_[id] != kNoLoop && loops_[id] != loops_[user] && !around;
    if (!elsewhere) return cuda_value(kernel_, id);
    return fmt::format("k{}[{}]", id, turn_of(user, id, kept_[id]));
  }

  /// Of `count` elements that instruction `id` has or touches in the loops around it, the one that
  /// `user` means: the turn of one loop, or of both.
  std::string turn_of(uint32_t user, uint32_t id, int64_t count) const {
    const uint32_t loop = loops_[id];
    if (loop == kNoLoop) return {};
    if (around_[loop] == kNoLoop) {
      const bool inner = around_[loops_[user]] != kNoLoop;
      return inner && kernel_.loops[loops_[user]].count == count ? "m" : "l";
    }
    const int64_t turns = kernel_.loops[loop].count;
    return count == turns ? "m" : fmt::format("(l * {} + m)", turns);
  }

  std::string element(uint32_t id) const {
    return turn_of(id, id, kernel_.arguments[kernel_.body[id].argument].count);
  }

  const Kernel& kernel_;
  const CudaBodyMemory& memory_;
  const std::vector<uint32_t> loops_;
  const std::vector<uint32_t> around_;  // by loop
  const std::vector<int64_t> kept_;
  const std::string unroll_;
};

}  // namespace

std::string cuda_rolled_body(const Kernel& kernel, int64_t arrays, const CudaBodyMemory& memory) {
  return BodyWriter(kernel, arrays, memory).write();
}

std::string cuda_element_offset(const Kernel& kernel, bool vector, const std::string& element) {
  if (element.empty()) return {};
  return fmt::format(" + {} * {}", element, vector ? kernel.length : 1);
}

std::string cuda_unroll(const Kernel& kernel, int64_t arrays) {
  const std::vector<int64_t> runs = runs_of(kernel);
  const int64_t instructions = std::accumulate(runs.begin(), runs.end(), int64_t{0});
  const bool all =
      arrays + kept_elements(kernel) <= kMostArrayRegisters && instructions <= kMostUnrolled;
  return std::string(all ? kUnrollAll : "#pragma unroll 8");
}

}  // namespace rnnc
