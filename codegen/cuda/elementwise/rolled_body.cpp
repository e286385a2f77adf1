// Instruction i is `v<i>`; what is carried from one iteration to the next a variable; what a later
// loop takes element by element an array `k<i>`.
#include "codegen/cuda/elementwise/rolled_body.h"

#include <numeric>

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

int64_t kept_elements(const Kernel& kernel) {
  const std::vector<bool> kept = kept_for_later_loops(kernel);
  const std::vector<int64_t> runs = runs_of(kernel);
  int64_t elements = 0;
  for (size_t i = 0; i < kept.size(); ++i) elements += kept[i] ? runs[i] : 0;
  return elements;
}

class BodyWriter : TextWriter {
 public:
  BodyWriter(const Kernel& kernel, int64_t arrays, const CudaBodyMemory& memory)
      : kernel_(kernel),
        memory_(memory),
        loops_(loops_of(kernel)),
        kept_(kept_for_later_loops(kernel)),
        unroll_(cuda_unroll(kernel, arrays)) {}

  std::string write() {
    uint32_t next = 0;
    for (const Kernel::Loop& loop : kernel_.loops) {
      for (; next < loop.begin; ++next) statement(next, "    ");
      write_loop(loop);
      next = loop.end;
    }
    for (; next < kernel_.body.size(); ++next) statement(next, "    ");
    return take_text();
  }

 private:
  void write_loop(const Kernel::Loop& loop) {
    for (uint32_t i = loop.begin; i < loop.end; ++i) {
      const Instruction& instruction = kernel_.body[i];
      if (instruction.kind == Kind::Carried) {
        line("    float v{} = {};", i, value(i, instruction.operands[0]));
      }
      if (kept_[i]) line("    float k{}[{}];", i, loop.count);
    }
    line("{}", unroll_);
    if (loop.descending) {
      line("    for (int l = {}; l >= 0; --l) {{", loop.count - 1);
    } else {
      line("    for (int l = 0; l < {}; ++l) {{", loop.count);
    }
    for (uint32_t i = loop.begin; i < loop.end; ++i) statement(i, "      ");
    for (uint32_t i = loop.begin; i < loop.end; ++i) {
      const Instruction& instruction = kernel_.body[i];
      if (instruction.kind != Kind::Carried) continue;
      line("      v{} = {};", i, value(i, instruction.operands[1]));
    }
    line("    }}");
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
    if (kept_[id]) line("{}k{}[l] = v{};", indent, id, id);
  }

  /// What `user` takes for an instruction.
  std::string value(uint32_t user, uint32_t id) const {
    const bool elsewhere = loops_[id] != kNoLoop && loops_[id] != loops_[user];
    return elsewhere ? fmt::format("k{}[l]", id) : cuda_value(kernel_, id);
  }

  std::string element(uint32_t id) const {
    if (loops_[id] == kNoLoop) return {};
    return fmt::format(" + l * {}", kernel_.body[id].vector ? kernel_.length : 1);
  }

  const Kernel& kernel_;
  const CudaBodyMemory& memory_;
  const std::vector<uint32_t> loops_;
  const std::vector<bool> kept_;
  const std::string unroll_;
};

}  // namespace

std::string cuda_rolled_body(const Kernel& kernel, int64_t arrays, const CudaBodyMemory& memory) {
  return BodyWriter(kernel, arrays, memory).write();
}

std::string cuda_unroll(const Kernel& kernel, int64_t arrays) {
  const std::vector<int64_t> runs = runs_of(kernel);
  const int64_t instructions = std::accumulate(runs.begin(), runs.end(), int64_t{0});
  const bool all =
      arrays + kept_elements(kernel) <= kMostArrayRegisters && instructions <= kMostUnrolled;
  return all ? "#pragma unroll" : "#pragma unroll 8";
}

}  // namespace rnnc
