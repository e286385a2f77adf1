// 1. Rewrite `var` as the mean of squared deviations, so that only plain reductions are left. Equal
//    reductions become one.
// 2. Load what a row's block reads, before it waits for earlier launches where none of them writes
//    it. A thread has packets of neighbouring elements.
// 3. A reduction ends a phase; phase p holds what needs the results of p reductions in a row. Each
//    phase is the row's scalars, one loop over the thread's packets, and the joining of its
//    reductions, which share one barrier. Computed values that a later phase reads are kept in
//    arrays of one entry per element of the thread.
#include "codegen/cuda/elementwise/emit_row.h"

#include <algorithm>
#include <climits>
#include <map>

#include "codegen/cuda/device/kernel_text.h"
#include "codegen/cuda/elementwise/reductions.h"
#include "ir/base/text_writer.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr int kMostUnrolledPackets = 16;
/// Registers of a block that may hold what it loads.
constexpr int64_t kRegistersForLoads = 40960;
constexpr int64_t kMostWordsAhead = 160;  // of a thread
constexpr int kThreadsBesideOneAnother = 512;
/// More where each has few values, which registers are enough for: their loads hide each other's
/// time. (Four gates of 1024 units, 8192 rows of f32, on an H200: 92 us, so 66; a copy 62.)
constexpr int kThreadsOfFewValues = 1024;

/// Step 1.
class PlainReductions {
 public:
  explicit PlainReductions(const Kernel& kernel) : result_(kernel) {
    result_.body.clear();
    std::vector<uint32_t> renamed;  // old index → new index
    for (Instruction instruction : kernel.body) {
      for (uint32_t& operand : instruction.operands) operand = renamed[operand];
      if (instruction.kind != Kind::Reduce) {
        renamed.push_back(add(std::move(instruction)));
      } else if (instruction.op == Op::Var) {
        renamed.push_back(variance(instruction.operands[0]));
      } else {
        renamed.push_back(reduce(instruction.op, instruction.operands[0]));
      }
    }
  }
  Kernel take() { return std::move(result_); }

 private:
  uint32_t add(Instruction instruction) {
    result_.body.push_back(std::move(instruction));
    return static_cast<uint32_t>(result_.body.size() - 1);
  }

  uint32_t reduce(Op op, uint32_t value) {
    const auto [found, is_new] = known_.try_emplace({op, value});
    if (is_new) found->second = add({.kind = Kind::Reduce, .op = op, .operands = {value}});
    return found->second;
  }

  uint32_t variance(uint32_t value) {
    const bool vector = result_.body[value].vector;
    const auto scalar = [&](Op op, uint32_t left, uint32_t right) {
      return add({.kind = Kind::Scalar, .op = op, .vector = vector, .operands = {left, right}});
    };
    const uint32_t deviation = scalar(Op::Sub, value, reduce(Op::Mean, value));
    return reduce(Op::Mean, scalar(Op::Mul, deviation, deviation));
  }

  Kernel result_;
  std::map<std::pair<Op, uint32_t>, uint32_t> known_;
};

class RowEmitter : TextWriter {
 public:
  RowEmitter(const Kernel& kernel, size_t index, const KernelTraits& traits)
      : kernel_(PlainReductions(kernel).take()),
        shape_(cuda_kernel_shape(kernel)),
        name_(cuda_kernel_name(index)),
        traits_(traits),
        many_(cuda_has_many_arrays(kernel)),
        finds_rows_(cuda_finds_rows(kernel)),
        loaded_(kernel.arguments.size(), false) {
    packet_ = many_ ? 1 : traits.packet;
    while (packet_ > shape_.items || kernel.length % packet_ != 0) packet_ /= 2;
    const int64_t packets = kernel.length / packet_;
    packets_ = static_cast<int>((packets + shape_.threads - 1) / shape_.threads);
    for (const Instruction& instruction : kernel_.body) {
      if (instruction.kind != Kind::Load) continue;
      const Kernel::Argument& argument = kernel_.arguments[instruction.argument];
      loaded_[instruction.argument] = true;
      if (argument.vector) words_ += packets_ * std::max(1, packet_ * bytes(argument) / 4);
    }
    ahead_ = words_ <= std::min(kMostWordsAhead, kRegistersForLoads / shape_.threads);
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      if (kernel_.arguments[i].vector && packet_ > 1 && traits.unaligned[i]) checked_.push_back(i);
    }
  }

  std::string emit() {
    find_phases();
    if (!checked_.empty()) line("template <bool Aligned>");
    part("static __device__ __forceinline__ void {}_row(", name_);
    if (finds_rows_) {
      part("const rnnc_word* places");
    } else {
      for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
        part("{}{}* const a{}", i == 0 ? "" : ", ", array_type(i), i);
      }
    }
    line(") {{");
    arrays();
    if (ahead_) loads(true);
    line("  rnnc_wait_for_previous();");
    if (ahead_) loads(false);
    const int last = *std::ranges::max_element(phases_);
    for (int phase = 0; phase <= last; ++phase) {
      for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
        if (phases_[id] == phase && !in_loop(id)) row_statement(id, phase);
      }
      element_loop(phase);
      join_reductions(phase);
    }
    line("}}");
    entry();
    return take_text();
  }

 private:
  static int bytes(const Kernel::Argument& argument) {
    return static_cast<int>(size_of(argument.dtype));
  }
  std::string array_type(uint32_t argument) const {
    return cuda_array_type(kernel_.arguments[argument]);
  }

  /// The block's row of an array.
  std::string row(uint32_t argument) const {
    if (!finds_rows_) return fmt::format("a{}", argument);
    return fmt::format("rnnc_place<{}>(places[{}])", array_type(argument), argument);
  }

  // ---- Step 2 ----

  /// Packet types `t`, loaded packets `x`, kept values `s`.
  void arrays() {
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      if (!kernel_.arguments[i].vector || (many_ && !ahead_)) continue;
      const bool is_checked = std::ranges::find(checked_, i) != checked_.end();
      line("  typedef rnnc_packet<{}, {}, {}> t{};", cuda_element_type(kernel_.arguments[i].dtype),
           packet_, is_checked ? "Aligned" : "true", i);
      if (ahead_ && loaded_[i]) line("  t{} x{}[{}];", i, i, packets_);
    }
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      if (saved_[id]) line("  float s{}[{}];", id, packets_ * packet_);
    }
  }

  /// Of arguments that no earlier launch writes, or of the others.
  void loads(bool fixed) {
    std::vector<uint32_t> arguments;
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      if (loaded_[i] && kernel_.arguments[i].vector && traits_.fixed[i] == fixed) {
        arguments.push_back(i);
      }
    }
    if (arguments.empty()) return;
    open_packets();
    for (const uint32_t i : arguments) line("    x{}[j] = t{}::load({} + e);", i, i, row(i));
    line("  }}");
  }

  void open_packets() {
    line("#pragma unroll{}", packets_ <= kMostUnrolledPackets ? "" : " 1");
    line("  for (int j = 0; j < {}; ++j) {{", packets_);
    if (packet_ == 1) {
      line("    const unsigned e = threadIdx.x + j * {}u;", shape_.threads);
    } else {
      line("    const unsigned e = (threadIdx.x + j * {}u) * {}u;", shape_.threads, packet_);
    }
    if (int64_t{packets_} * packet_ * shape_.threads != kernel_.length) {
      line("    if (e >= {}u) break;", kernel_.length);
    }
  }

  // ---- Step 3 ----

  bool is_vector_load(uint32_t id) const {
    const Instruction& instruction = kernel_.body[id];
    return instruction.kind == Kind::Load && kernel_.arguments[instruction.argument].vector;
  }

  void find_phases() {
    for (const Instruction& instruction : kernel_.body) {
      int phase = 0;
      for (const uint32_t operand : instruction.operands) {
        const bool reduced = kernel_.body[operand].kind == Kind::Reduce;
        phase = std::max(phase, phases_[operand] + (reduced ? 1 : 0));
      }
      phases_.push_back(phase);
    }
    if (!ahead_) postpone();
    saved_.resize(kernel_.body.size(), false);
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      for (const uint32_t operand : kernel_.body[id].operands) {
        const Instruction& read = kernel_.body[operand];
        const bool is_at_hand =
            !read.vector || read.kind == Kind::Constant || (ahead_ && is_vector_load(operand));
        if (!is_at_hand && phases_[operand] < phases_[id]) saved_[operand] = true;
      }
    }
  }

  /// Loads and scalars of elements wait for the phase that reads them first: there are not enough
  /// registers to keep everything.
  void postpone() {
    std::vector<int> first_use(kernel_.body.size(), INT_MAX);
    for (size_t id = kernel_.body.size(); id-- > 0;) {
      const Instruction& instruction = kernel_.body[id];
      const bool moves = instruction.kind == Kind::Load || instruction.kind == Kind::Scalar;
      if (moves && instruction.vector && first_use[id] != INT_MAX) phases_[id] = first_use[id];
      for (const uint32_t operand : instruction.operands) {
        first_use[operand] = std::min(first_use[operand], phases_[id]);
      }
    }
  }

  /// Whether the instruction runs once per element, not once per row.
  bool in_loop(uint32_t id) const {
    const Instruction& instruction = kernel_.body[id];
    if (instruction.kind == Kind::Reduce) return true;
    if (instruction.kind == Kind::Store) return kernel_.arguments[instruction.argument].vector;
    return instruction.vector;
  }

  /// An operand's spelling inside `phase`.
  std::string value(uint32_t id, int phase) const {
    const Instruction& instruction = kernel_.body[id];
    if (instruction.kind == Kind::Constant) return cuda_float_literal(instruction.value);
    if (ahead_ && is_vector_load(id)) return fmt::format("x{}[j].get(x)", instruction.argument);
    if (saved_[id] && phases_[id] < phase) return fmt::format("s{}[j * {} + x]", id, packet_);
    return fmt::format("v{}", id);
  }

  std::string scalar_text(const Instruction& instruction, int phase) const {
    return cuda_scalar_text(instruction.op, [&](size_t operand) {
      return value(instruction.operands.at(operand), phase);
    });
  }

  void row_statement(uint32_t id, int phase) {
    const Instruction& instruction = kernel_.body[id];
    switch (instruction.kind) {
      case Kind::Load:
        line("  const float v{} = rnnc_load({});", id, row(instruction.argument));
        break;
      case Kind::Scalar:
        line("  const float v{} = {};", id, scalar_text(instruction, phase));
        break;
      case Kind::Store:
        line("  if (threadIdx.x == 0) rnnc_store({}, {});", row(instruction.argument),
             value(instruction.operands[0], phase));
        break;
      case Kind::Constant:
      case Kind::Reduce:
      case Kind::Carried:
      case Kind::Last:
        break;
    }
  }

  void element_statement(uint32_t id, int phase) {
    const Instruction& instruction = kernel_.body[id];
    switch (instruction.kind) {
      case Kind::Load:
        if (ahead_) return;
        if (many_) {
          line("      const float v{} = rnnc_load({} + e);", id, row(instruction.argument));
        } else {
          line("      const float v{} = x{}.get(x);", id, instruction.argument);
        }
        break;
      case Kind::Scalar:
        line("      const float v{} = {};", id, scalar_text(instruction, phase));
        break;
      case Kind::Store:
        if (many_) {
          line("      rnnc_store({} + e, {});", row(instruction.argument),
               value(instruction.operands[0], phase));
        } else {
          line("      o{}.set(x, {});", instruction.argument,
               value(instruction.operands[0], phase));
        }
        break;
      case Kind::Reduce:
        line("      r{} = {}::join(r{}, {});", id, cuda_reduction_type(instruction.op), id,
             value(instruction.operands[0], phase));
        break;
      case Kind::Constant:
      case Kind::Carried:
      case Kind::Last:
        break;
    }
    if (saved_[id]) line("      s{}[j * {} + x] = v{};", id, packet_, id);
  }

  void element_loop(int phase) {
    std::vector<uint32_t> ids;
    bool has_work = false;
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      if (phases_[id] != phase || !in_loop(id)) continue;
      ids.push_back(id);
      has_work = has_work || !is_vector_load(id) || !ahead_;
      if (kernel_.body[id].kind == Kind::Reduce) {
        line("  float r{} = {}::identity();", id, cuda_reduction_type(kernel_.body[id].op));
      }
    }
    if (!has_work) return;
    open_packets();
    for (const uint32_t id : ids) {
      if (many_) break;  // each where it is needed
      const uint32_t i = kernel_.body[id].argument;
      if (!ahead_ && is_vector_load(id))
        line("    const t{} x{} = t{}::load({} + e);", i, i, i, row(i));
      if (kernel_.body[id].kind == Kind::Store) line("    t{} o{} = {{}};", i, i);
    }
    line("#pragma unroll");
    line("    for (int x = 0; x < {}; ++x) {{", packet_);
    for (const uint32_t id : ids) element_statement(id, phase);
    line("    }}");
    for (const uint32_t id : ids) {
      const uint32_t i = kernel_.body[id].argument;
      if (kernel_.body[id].kind == Kind::Store && !many_) line("    o{}.store({} + e);", i, row(i));
    }
    line("  }}");
  }

  /// Reductions of the phase have places of their own in shared memory: nobody waits until others
  /// have read theirs.
  void join_reductions(int phase) {
    const int warps = shape_.threads / 32;
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      if (phases_[id] == phase && kernel_.body[id].kind == Kind::Reduce) ids.push_back(id);
    }
    if (ids.empty()) return;
    for (const uint32_t id : ids) {
      line("  __shared__ __align__(16) float w{}[{}];", id, warps);
      line("  rnnc_reduce_warps<{}>(r{}, w{});", cuda_reduction_type(kernel_.body[id].op), id, id);
    }
    line("  __syncthreads();");
    for (const uint32_t id : ids) {
      const Op op = kernel_.body[id].op;
      const std::string joined =
          fmt::format("rnnc_join_warps<{}, {}>(w{})", cuda_reduction_type(op), warps, id);
      if (op == Op::Mean) {
        line("  const float v{} = {} / {};", id, joined,
             cuda_float_literal(static_cast<double>(kernel_.length)));
      } else {
        line("  const float v{} = {};", id, joined);
      }
    }
  }

  // ---- The kernel itself ----

  void entry() {
    const size_t count = kernel_.arguments.size();
    if (finds_rows_) part("{}", cuda_arrays_struct(name_, count));
    line("extern \"C\" __global__ void __launch_bounds__({}, {})", shape_.threads, blocks());
    line("{}(const rnnc_rows rows{}) {{", name_,
         finds_rows_ ? cuda_arrays_parameter(name_) : cuda_access_parameters(count));
    line("  rnnc_let_next_begin();");
    line("  if (!rnnc_is_due(rows)) {{");
    line("    rnnc_wait_for_previous();");
    line("    return;");
    line("  }}");
    if (finds_rows_) part("{}", cuda_find_places(kernel_, checked_, packet_));
    std::string arrays = finds_rows_ ? "places" : "";
    for (uint32_t i = 0; i < count && !finds_rows_; ++i) {
      line("  {}* const a{} = rnnc_row<{}>(rows.frame, p{}, blockIdx.x);", array_type(i), i,
           array_type(i), i);
      arrays += fmt::format("{}a{}", i == 0 ? "" : ", ", i);
    }
    if (checked_.empty()) {
      line("  {}_row({});", name_, arrays);
    } else {
      const std::string misalignment =
          finds_rows_ ? "misaligned" : cuda_misalignment(kernel_, checked_, packet_);
      line("  if (({}) == 0) {{", misalignment);
      line("    {}_row<true>({});", name_, arrays);
      line("  }} else {{");
      line("    {}_row<false>({});", name_, arrays);
      line("  }}");
    }
    line("}}");
  }

  /// Of a multiprocessor, at least: those of a launch before or after it can run beside it.
  int blocks() const {
    const int64_t saved = std::ranges::count(saved_, true) * packets_ * packet_;
    const bool has_few = ahead_ && words_ + saved <= kFewValues;
    const int threads = has_few ? kThreadsOfFewValues : kThreadsBesideOneAnother;
    return std::max(1, threads / shape_.threads);
  }

  const Kernel kernel_;
  const CudaKernelShape shape_;
  const std::string name_;
  const KernelTraits& traits_;
  const bool many_;                // arrays, that are loaded where they are needed
  const bool finds_rows_;          // by the block
  std::vector<bool> loaded_;       // by argument
  std::vector<uint32_t> checked_;  // arguments that may lie anywhere, where packets matter
  int packet_ = 1;                 // elements
  int packets_ = 1;                // of a thread
  int64_t words_ = 0;              // of vectors that a thread loads
  bool ahead_ = false;             // all of them before anything else happens
  std::vector<int> phases_;  // by instruction: when it runs; a reduction's value comes one later
  std::vector<bool> saved_;  // by instruction: a later phase reads it
};

}  // namespace

std::string emit_row_kernel(const Kernel& kernel, size_t index, const KernelTraits& traits) {
  return RowEmitter(kernel, index, traits).emit();
}

}  // namespace rnnc
