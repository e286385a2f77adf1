// 1. Instructions of level p need the results of p reductions in a row. Each loop, and what stands
//    before, between and behind loops, runs level by level: what a level reduces is joined by the
//    block behind it, all at one barrier.
// 2. Of a loop with reductions, some iterations run each level before the next one begins, so that
//    they share that barrier and what they load is under way together; unless an iteration
//    needs what the one before it has made of a reduction.
// 3. Threads behind the row's end do what the first one does, but for storing and reducing.
#include "codegen/cuda/elementwise/emit_rolled_row.h"

#include <algorithm>
#include <set>

#include "codegen/cuda/device/kernel_abi.h"
#include "codegen/cuda/device/kernel_text.h"
#include "codegen/cuda/elementwise/reductions.h"
#include "codegen/cuda/elementwise/rolled_body.h"
#include "ir/base/text_writer.h"
#include "ir/plan/kernel_facts.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

/// Iterations that run level by level; of long bodies fewer, whose values fit the registers.
constexpr int kAtOnce = 8;
constexpr uint32_t kLongBody = 32;
constexpr int kAtOnceOfLongBodies = 2;

class RolledRowEmitter : TextWriter {
 public:
  RolledRowEmitter(const Kernel& kernel, size_t index)
      : kernel_(kernel),
        body_(kernel.body),
        shape_(cuda_kernel_shape(kernel)),
        name_(cuda_kernel_name(index)),
        loops_(loops_of(kernel)),
        kept_(kept_for_later_loops(kernel)),
        levels_(reduction_levels(kernel)),
        crosses_(kernel.body.size(), false) {
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (loops_[i] != kNoLoop && is_reduction(i)) crosses_[i] = true;
      for (const uint32_t operand : body_[i].operands) {
        const bool beside = loops_[i] != kNoLoop && loops_[operand] == loops_[i];
        if (beside && operand < i && levels_[operand] != levels_[i]) crosses_[operand] = true;
        if (beside && operand > i && levels_[operand] != updated_at(i)) crosses_[operand] = true;
      }
    }
    for (uint32_t i = 0; i < body_.size(); ++i) {
      const Kind kind = body_[i].kind;
      if (kind == Kind::Carried || kind == Kind::Constant) crosses_[i] = false;
    }
  }

  std::string emit() {
    line("extern \"C\" __global__ void __launch_bounds__({})", shape_.threads);
    line("{}(const rnnc_rows rows{}) {{", name_, cuda_access_parameters(kernel_.arguments.size()));
    if (shape_.threads > kernel_.length) {
      line("  const bool inside = threadIdx.x < {}u;", kernel_.length);
      line("  const unsigned e = inside ? threadIdx.x : 0u;");
    } else {
      line("  const unsigned e = threadIdx.x;");
    }
    for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
      const std::string type = cuda_array_type(kernel_.arguments[i]);
      line("  {}* const a{} = rnnc_row<{}>(rows.frame, p{}, blockIdx.x){};", type, i, type, i,
           kernel_.arguments[i].vector ? " + e" : "");
    }
    line("  const bool due = rnnc_is_due(rows);");
    line("  rnnc_begin();");
    line("  if (!due) return;");
    for (uint32_t i = 0; i < body_.size(); ++i) {
      if (kept_[i] > 0) line("  float k{}[{}];", i, kept_[i]);
    }
    uint32_t next = 0;
    for (const Kernel::Loop& loop : kernel_.loops) {
      write_straight(next, loop.begin);
      write_loop(loop);
      next = loop.end;
    }
    write_straight(next, static_cast<uint32_t>(body_.size()));
    line("}}");
    return take_text();
  }

 private:
  bool is_reduction(uint32_t id) const { return body_[id].kind == Kind::Reduce; }

  /// The level at which a value is there.
  int ready_at(uint32_t id) const { return levels_[id] + (is_reduction(id) ? 1 : 0); }

  /// Likewise what a Carried is in the next iteration.
  int updated_at(uint32_t carried) const { return ready_at(body_[carried].operands[1]); }

  std::set<int> levels_in(uint32_t begin, uint32_t end) const {
    std::set<int> levels;
    for (uint32_t i = begin; i < end; ++i) {
      levels.insert(levels_[i]);
      levels.insert(ready_at(i));
      if (loops_[i] != kNoLoop && body_[i].kind == Kind::Carried) levels.insert(updated_at(i));
    }
    return levels;
  }

  std::vector<uint32_t> reductions_in(uint32_t begin, uint32_t end, int level) const {
    std::vector<uint32_t> ids;
    for (uint32_t i = begin; i < end; ++i) {
      if (is_reduction(i) && levels_[i] == level) ids.push_back(i);
    }
    return ids;
  }

  // ---- Outside of loops ----

  void write_straight(uint32_t begin, uint32_t end) {
    for (const int level : levels_in(begin, end)) {
      for (const uint32_t id : reductions_in(begin, end, level - 1)) {
        line("  const float v{} = {};", id, joined(id, fmt::format("w{}", id)));
      }
      for (uint32_t i = begin; i < end; ++i) {
        if (levels_[i] == level && !is_reduction(i)) statement(i, "  ");
      }
      const std::vector<uint32_t> ids = reductions_in(begin, end, level);
      for (const uint32_t id : ids) {
        line("  __shared__ float w{}[{}];", id, shape_.threads / 32);
        reduce_warps(id, fmt::format("w{}", id), "  ");
      }
      if (!ids.empty()) line("  __syncthreads();");
    }
  }

  // ---- Loops ----

  void write_loop(const Kernel::Loop& loop) {
    const std::set<int> levels = levels_in(loop.begin, loop.end);
    at_once_ = levels.size() > 1 ? iterations_at_once(loop) : 1;
    for (uint32_t i = loop.begin; i < loop.end; ++i) {
      if (body_[i].kind == Kind::Carried) {
        line("  float v{} = {};", i, value(i, body_[i].operands[0]));
      }
      if (is_reduction(i)) {
        line("  __shared__ float w{}[2][{}][{}];", i, at_once_, shape_.threads / 32);
      }
    }
    const bool keeps = std::any_of(kept_.begin() + loop.begin, kept_.begin() + loop.end,
                                   [](int64_t kept) { return kept > 0; });
    if (levels.size() == 1 || keeps) {
      line("{}", cuda_unroll(kernel_, 0));
    } else {
      line("#pragma unroll 1");
    }
    line("  for (int first = 0; first < {}; first += {}) {{", loop.count, at_once_);
    for (uint32_t i = loop.begin; i < loop.end; ++i) {
      if (crosses_[i]) line("    float v{}[{}];", i, at_once_);
    }
    for (const int level : levels) write_level(loop, level);
    line("  }}");
  }

  /// Those of a level that need nothing of later levels of the iteration before.
  int iterations_at_once(const Kernel::Loop& loop) const {
    for (uint32_t i = loop.begin; i < loop.end; ++i) {
      for (const uint32_t operand : body_[i].operands) {
        const bool carried = loops_[operand] == loops_[i] && body_[operand].kind == Kind::Carried;
        if (carried && levels_[i] != updated_at(operand)) return 1;
      }
    }
    const int wanted = loop.end - loop.begin > kLongBody ? kAtOnceOfLongBodies : kAtOnce;
    return static_cast<int>(std::min<int64_t>(wanted, loop.count));
  }

  void write_level(const Kernel::Loop& loop, int level) {
    line("#pragma unroll");
    line("    for (int u = 0; u < {}; ++u) {{", at_once_);
    if (loop.count % at_once_ != 0) line("      if (first + u >= {}) break;", loop.count);
    if (loop.descending) {
      line("      const int l = {} - first - u;", loop.count - 1);
    } else {
      line("      const int l = first + u;");
    }
    const std::string half = fmt::format("first / {} % 2", at_once_);
    const auto place = [&](uint32_t id) { return fmt::format("w{}[{}][u]", id, half); };
    for (const uint32_t id : reductions_in(loop.begin, loop.end, level - 1)) {
      line("      v{}[u] = {};", id, joined(id, place(id)));
      if (kept_[id] > 0) line("      k{}[l] = v{}[u];", id, id);
    }
    for (uint32_t i = loop.begin; i < loop.end; ++i) {
      if (levels_[i] == level && !is_reduction(i)) statement(i, "      ");
    }
    const std::vector<uint32_t> ids = reductions_in(loop.begin, loop.end, level);
    for (const uint32_t id : ids) reduce_warps(id, place(id), "      ");
    for (uint32_t i = loop.begin; i < loop.end; ++i) {
      if (body_[i].kind != Kind::Carried || updated_at(i) != level) continue;
      line("      v{} = {};", i, value(i, body_[i].operands[1]));
    }
    line("    }}");
    if (!ids.empty()) line("    __syncthreads();");
  }

  // ---- Statements ----

  void reduce_warps(uint32_t id, const std::string& partial, std::string_view indent) {
    const std::string_view type = cuda_reduction_type(body_[id].op);
    std::string reduced = value(id, body_[id].operands[0]);
    if (shape_.threads > kernel_.length) {
      reduced = fmt::format("inside ? {} : {}::identity()", reduced, type);
    }
    line("{}rnnc_reduce_warps<{}>({}, {});", indent, type, reduced, partial);
  }

  std::string joined(uint32_t id, const std::string& partial) const {
    const Op op = body_[id].op;
    std::string value = fmt::format("rnnc_join_warps<{}, {}>({})", cuda_reduction_type(op),
                                    shape_.threads / 32, partial);
    if (op != Op::Mean) return value;
    return fmt::format("{} / {}", value, cuda_float_literal(static_cast<double>(kernel_.length)));
  }

  void statement(uint32_t id, std::string_view indent) {
    const Instruction& instruction = body_[id];
    std::string made;
    switch (instruction.kind) {
      case Kind::Constant:
      case Kind::Carried:
      case Kind::Reduce:
        return;
      case Kind::Store:
        line("{}{}rnnc_store(a{}{}, {});", indent, storing(instruction), instruction.argument,
             element(id), value(id, instruction.operands[0]));
        return;
      case Kind::Load:
        made = fmt::format("rnnc_load(a{}{})", instruction.argument, element(id));
        break;
      case Kind::Last:
        made = fmt::format("v{}", instruction.operands[0]);
        break;
      case Kind::Scalar:
        made = cuda_scalar_text(instruction.op, [&](size_t operand) {
          return value(id, instruction.operands.at(operand));
        });
        break;
    }
    if (crosses_[id]) {
      line("{}v{}[u] = {};", indent, id, made);
    } else {
      line("{}const float v{} = {};", indent, id, made);
    }
    if (kept_[id] > 0) line("{}k{}[l] = {};", indent, id, value(id, id));
  }

  /// What a thread that stores must be.
  std::string_view storing(const Instruction& store) const {
    if (!kernel_.arguments[store.argument].vector) return "if (threadIdx.x == 0) ";
    return shape_.threads > kernel_.length ? "if (inside) " : "";
  }

  std::string element(uint32_t id) const {
    if (loops_[id] == kNoLoop) return {};
    return fmt::format(" + l * {}", body_[id].vector ? kernel_.length : 1);
  }

  /// What `user` takes for an instruction.
  std::string value(uint32_t user, uint32_t id) const {
    if (body_[id].kind == Kind::Constant) return cuda_value(kernel_, id);
    if (loops_[id] != kNoLoop && loops_[id] != loops_[user]) return fmt::format("k{}[l]", id);
    return fmt::format("v{}{}", id, crosses_[id] ? "[u]" : "");
  }

  const Kernel& kernel_;
  const std::vector<Instruction>& body_;
  const CudaKernelShape shape_;
  const std::string name_;
  // By instruction:
  const std::vector<uint32_t> loops_;
  const std::vector<int64_t> kept_;
  const std::vector<int> levels_;
  std::vector<bool> crosses_;  // another level of its loop takes it
  int at_once_ = 1;            // iterations of the loop that is written
};

}  // namespace

std::string emit_rolled_row_kernel(const Kernel& kernel, size_t index) {
  return RolledRowEmitter(kernel, index).emit();
}

}  // namespace rnnc
