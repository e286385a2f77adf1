// The struct that scan.cuh is a template over, in this order: where a thread's arrays lie, loading
// a step's inputs and the states, what a thread keeps of a step, for each round the map of a step,
// and the whole step, which adds to what the thread adds up. Of the kernel's body each function has
// what its results need and is not kept yet: what a round keeps for later ones, and for the whole
// step, it makes with the step's map.
#include "codegen/cuda/elementwise/emit_scan.h"

#include <algorithm>
#include <map>

#include "codegen/cuda/device/kernel_text.h"
#include "ir/base/text_writer.h"
#include "ir/plan/scan_exchange.h"
#include "ir/plan/scan_structure.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr size_t kMostEarly = 4;  // states that are asked for before they are needed

class ScanEmitter : TextWriter {
 public:
  ScanEmitter(const Kernel& kernel, const ScanTraits& traits, std::string_view name)
      : kernel_(kernel),
        traits_(traits),
        name_(name),
        carried_(kernel.arguments.size(), false),
        in_registers_(kernel.arguments.size(), false) {
    for (const LoopCarry& carry : traits.carries) {
      carried_[carry.load] = true;
      carried_[carry.store] = true;
    }
    in_registers_ = carried_;
    for (const uint32_t i : traits.totals) in_registers_[i] = true;
  }

  std::string emit() {
    line("template <bool Aligned>");
    line("struct {}_scan {{", name_);
    arrays();
    loads();
    keep();
    states();
    line("  template <int Round, int = 0>");
    line("  struct round;");
    for (size_t i = 0; i <= traits_.rounds.size(); ++i) round(i);
    whole_step();
    line("}};");
    entry();
    return take_text();
  }

 private:
  const Kernel::Argument& argument(uint32_t index) const { return kernel_.arguments[index]; }
  bool is_queued(uint32_t index) const {
    return !argument(index).written && !carried_[index] && !traits_.invariant[index];
  }
  bool is_fixed(uint32_t index) const {
    return !argument(index).written && !carried_[index] && traits_.invariant[index];
  }
  bool is_output(uint32_t index) const { return argument(index).written && is_array(index); }
  bool is_carried(uint32_t index) const { return carried_[index]; }
  bool is_array(uint32_t index) const { return !in_registers_[index]; }
  int items(uint32_t index) const { return argument(index).vector ? traits_.items : 1; }

  template <typename Visit>
  void for_arguments(bool (ScanEmitter::*wanted)(uint32_t) const, const Visit& visit) const {
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      if ((this->*wanted)(i)) visit(i);
    }
  }

  void arrays() {
    line("  static constexpr int kItems = {};", traits_.items);
    line("  static constexpr int kStates = {};", traits_.carries.size());
    line("  static constexpr int kRounds = {};", traits_.rounds.size());
    line("  static constexpr int kTotals = {};", traits_.totals.size());
    line("  static constexpr unsigned kLength = {}u;", kernel_.length);
    line("  static constexpr int kWarps = {};", traits_.warps);
    line("  static constexpr int kSteps = {};", traits_.steps_of_warp);
    line("  static constexpr int kGroup = {};", traits_.group);
    line("  static constexpr bool kEarly = {};", traits_.carries.size() <= kMostEarly);
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      line("  typedef rnnc_packet<{}, {}, {}> t{};", cuda_element_type(argument(i).dtype), items(i),
           items(i) == 1 ? "true"
           : carried_[i] ? "false"
                         : "Aligned",
           i);
      if (!is_array(i)) continue;
      line("  {}* a{};", cuda_array_type(argument(i)), i);
      if (is_queued(i) || is_output(i)) {
        line("  static constexpr rnnc_word d{} = {}ll;", i, traits_.bytes[i]);
      }
      if (is_fixed(i)) line("  t{} i{};", i, i);
    }
    line("  const rnnc_word* places;  // of all arrays, row 0");
    if (has_earlier()) line("  int begin;  // of the sequence, from the thread's first step on");
    line("  unsigned row;");
    line("  unsigned e;  // of the thread's first element in the row");
    line("  struct inputs {{");
    for_arguments(&ScanEmitter::is_queued, [&](uint32_t i) { line("    t{} x{};", i, i); });
    line("  }};");
    line("  // The arrays from the thread's first step on.");
    line("  __device__ __forceinline__ {}_scan(const rnnc_word* places, unsigned row, unsigned e,",
         name_);
    line("                                     int first_step{})",
         has_earlier() ? ", int start" : "");
    line("      : places(places), row(row), e(e) {{");
    for (uint32_t i = 0; i < kernel_.arguments.size(); ++i) {
      if (!is_array(i)) continue;
      std::string steps;
      if (is_queued(i) || is_output(i)) {
        const std::string_view before = traits_.descending ? " + 1" : " - 1";
        steps = fmt::format(" + (first_step{}) * {}ll", traits_.earlier[i] ? before : "",
                            traits_.bytes[i]);
      }
      line("    a{} = {};", i, array_place(i, steps));
      if (is_fixed(i)) line("    i{} = t{}::load(a{});", i, i, i);
    }
    if (has_earlier()) {
      line("    begin = {}start - first_step;", traits_.descending ? "" : "-");
    }
    line("  }}");
  }

  bool has_earlier() const { return std::ranges::count(traits_.earlier, true) > 0; }

  /// `steps`: what is added to it. Arrays of a kind have most of it in common.
  std::string array_place(uint32_t i, std::string_view steps = "") const {
    const auto bytes = static_cast<int64_t>(size_of(argument(i).dtype));
    return fmt::format("rnnc_scan_array<{}>(places[{}], row * {}ll{}{})",
                       cuda_array_type(argument(i)), i, traits_.strides[i] * bytes,
                       argument(i).vector ? fmt::format(" + e * {}ll", bytes) : "", steps);
  }

  void loads() {
    line("  __device__ __forceinline__ inputs load(int step) const {{");
    line("    inputs in;");
    for_arguments(&ScanEmitter::is_queued, [&](uint32_t i) {
      line("    in.x{0} = {1}t{0}::load(rnnc_steps_on(a{0}, step, d{0}));", i,
           traits_.earlier[i] ? fmt::format("step == begin ? t{}{{}} : ", i) : "");
    });
    line("    return in;");
    line("  }}");
  }

  void keep() {
    std::vector<uint32_t> kept;
    line("  struct values {{");
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      if (!traits_.kept[id] && traits_.made_in[id] < 0) continue;
      if (traits_.kept[id]) kept.push_back(id);
      const Instruction& instruction = kernel_.body[id];
      if (is_packet(id)) {
        line("    t{} x{};", instruction.argument, id);
      } else {
        line("    float x{}[{}];", id, instruction.vector ? traits_.items : 1);
      }
    }
    line("  }};");
    line("  __device__ __forceinline__ values keep(const inputs& in) const {{");
    line("    const {}_scan& scan = *this;", name_);
    line("    values kept;");
    line("#pragma unroll");
    line("    for (int x = 0; x < kItems; ++x) {{");
    values(kept, "      ", kNothingKept);
    for (const uint32_t id : kept) {
      const Instruction& instruction = kernel_.body[id];
      if (is_packet(id)) {
        line("      kept.x{} = in.x{};", id, instruction.argument);
      } else {
        line("      kept.x{}[{}] = v{};", id, kept_item(id), id);
      }
    }
    line("    }}");
    line("    return kept;");
    line("  }}");
  }

  /// Whether it is kept as it was loaded. A single element takes a register however it is kept.
  bool is_packet(uint32_t id) const {
    const Instruction& instruction = kernel_.body[id];
    return instruction.kind == Kind::Load && items(instruction.argument) > 1;
  }

  std::string_view kept_item(uint32_t id) const {
    return kernel_.body[id].vector && traits_.items > 1 ? "x" : "0";
  }

  /// Only the first and the last tile touch their arrays.
  void states() {
    line("  __device__ __forceinline__ void load_states(float (*h)[kStates]) const {{");
    for (size_t i = 0; i < traits_.carries.size(); ++i) {
      const uint32_t load = traits_.carries[i].load;
      line("    const t{0} n{0} = t{0}::load({1});", load, array_place(load));
      line("#pragma unroll");
      line("    for (int x = 0; x < kItems; ++x) h[x][{}] = n{}.get({});", i, load, item(load));
    }
    line("  }}");
    line("  __device__ __forceinline__ void store_states(const float (*h)[kStates]) const {{");
    for (size_t i = 0; i < traits_.carries.size(); ++i) {
      const uint32_t store = traits_.carries[i].store;
      line("    t{0} o{0} = {{}};", store);
      line("#pragma unroll");
      line("    for (int x = 0; x < kItems; ++x) o{}.set(x, h[x][{}]);", store, i);
      line("    o{0}.store({1});", store, array_place(store));
    }
    line("  }}");
  }

  std::string item(uint32_t argument) const { return items(argument) == 1 ? "0" : "x"; }

  uint32_t next_of(size_t carry) const {
    const auto is_store = [&](const Instruction& instruction) {
      return instruction.kind == Kind::Store &&
             instruction.argument == traits_.carries[carry].store;
    };
    return std::ranges::find_if(kernel_.body, is_store)->operands[0];
  }

  /// Number i: its step's map. The states of those before it go on by a step.
  void round(size_t number) {
    const bool is_round = number < traits_.rounds.size();
    std::vector<size_t> advanced;
    std::vector<uint32_t> wanted;
    for (size_t before = 0; before < number; ++before) {
      for (const uint32_t state : traits_.rounds[before].states) {
        advanced.push_back(state);
        wanted.push_back(next_of(state));
      }
    }
    line("  template <int Unused>");
    line("  struct round<{}, Unused> {{", number);
    const auto parameters = [&](std::string_view constant) {
      return fmt::format("const {}_scan& scan, {}values& in, int x, const float* h, float* next",
                         name_, constant);
    };
    const int rounds_before = static_cast<int>(number);
    line("    static __device__ __forceinline__ void advance({}) {{", parameters("const "));
    values(wanted, "      ", rounds_before);
    next_states(advanced);
    line("    }}");
    if (is_round) {
      const ScanRound& one = traits_.rounds[number];
      facts(one);
      const std::vector<uint32_t> coefficients = own_coefficients(kernel_, one);
      for (const auto* results : {&coefficients, &one.offsets}) {
        wanted.insert(wanted.end(), results->begin(), results->end());
      }
      line("    static __device__ __forceinline__ void step({}, float* a, float* b) {{",
           parameters(""));
      values(wanted, "      ", rounds_before);
      for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
        if (traits_.made_in[id] != rounds_before) continue;
        line("      in.x{}[{}] = v{};", id, kept_item(id), id);
      }
      for (size_t i = 0; i < coefficients.size(); ++i) {
        line("      a[{}] = {};", i, cuda_value(kernel_, coefficients[i]));
      }
      for (size_t i = 0; i < one.offsets.size(); ++i) {
        line("      b[{}] = {};", i, cuda_value(kernel_, one.offsets[i]));
      }
      next_states(advanced);
      line("    }}");
    }
    line("  }};");
  }

  void facts(const ScanRound& one) {
    const std::string_view algebra = one.semiring == Semiring::SumProduct ? "rnnc_sum_product"
                                     : one.semiring == Semiring::MaxPlus  ? "rnnc_max_plus"
                                                                          : "rnnc_min_plus";
    switch (structure_of(kernel_, one)) {
      case ScanStructure::Full:
        line("    typedef rnnc_full<{}, {}> structure;", algebra, one.states.size());
        break;
      case ScanStructure::Scaled:
        line("    typedef rnnc_scaled<{}, {}> structure;", algebra, one.states.size());
        break;
      case ScanStructure::Rotation:
        line("    typedef rnnc_rotation structure;");
        break;
    }
    line("    static constexpr bool kBounded = {};", one.bounded);
    std::string state = fmt::format("{}", one.states.back());
    for (size_t i = one.states.size() - 1; i-- > 0;) {
      state = fmt::format("i == {} ? {} : {}", i, one.states[i], state);
    }
    line("    static __device__ __forceinline__ constexpr int state(int i) {{ return {}; }}",
         state);
  }

  void next_states(const std::vector<size_t>& advanced) {
    for (size_t i = 0; i < traits_.carries.size(); ++i) {
      const bool goes_on = std::ranges::count(advanced, i) > 0;
      line("      next[{}] = {};", i,
           goes_on ? cuda_value(kernel_, next_of(i)) : fmt::format("h[{}]", i));
    }
  }

  /// Before a thread keeps anything, and else how many rounds it has composed.
  static constexpr int kNothingKept = -1;

  bool is_there(uint32_t id, int rounds) const {
    return rounds != kNothingKept &&
           (traits_.kept[id] || (traits_.made_in[id] >= 0 && traits_.made_in[id] < rounds));
  }

  /// What these need of the body, in its order; of what is kept no more than its name.
  void values(const std::vector<uint32_t>& wanted, std::string_view indent, int rounds) {
    std::vector<bool> needed(kernel_.body.size(), false);
    for (const uint32_t id : wanted) needed[id] = true;
    for (size_t id = needed.size(); id-- > 0;) {
      if (!needed[id] || is_there(static_cast<uint32_t>(id), rounds)) continue;
      for (const uint32_t operand : kernel_.body[id].operands) needed[operand] = true;
    }
    for (uint32_t id = 0; id < needed.size(); ++id) {
      const Instruction& instruction = kernel_.body[id];
      if (!needed[id] || instruction.kind == Kind::Constant) continue;
      line("{}const float v{} = {};", indent, id,
           is_there(id, rounds)             ? kept_value(id)
           : instruction.kind == Kind::Load ? loaded(instruction.argument)
                                            : cuda_scalar_text(kernel_, id, traits_.precision));
    }
  }

  std::string kept_value(uint32_t id) const {
    if (is_packet(id)) {
      return fmt::format("in.x{}.get({})", id, item(kernel_.body[id].argument));
    }
    return fmt::format("in.x{}[{}]", id, kept_item(id));
  }

  std::string loaded(uint32_t i) const {
    const auto carry = std::ranges::find(traits_.carries, i, &LoopCarry::load);
    if (carry != traits_.carries.end()) {
      return fmt::format("h[{}]", carry - traits_.carries.begin());
    }
    return fmt::format("{}{}.get({})", traits_.invariant[i] ? "scan.i" : "in.x", i, item(i));
  }

  /// With its outputs, from the states before it to those behind it.
  void whole_step() {
    line("  // Where its outputs begin: else each step would compute that anew.");
    line("  struct outputs {{");
    for_arguments(&ScanEmitter::is_output,
                  [&](uint32_t i) { line("    {}* a{};", cuda_array_type(argument(i)), i); });
    line("  }};");
    line("  __device__ __forceinline__ outputs open() const {{");
    std::string places;
    for_arguments(&ScanEmitter::is_output, [&](uint32_t i) {
      places += fmt::format("{}rnnc_kept_array(a{})", places.empty() ? "" : ", ", i);
    });
    line("    return {{{}}};", places);
    line("  }}");
    line(
        "  __device__ __forceinline__ void run(const values& in, int t, float (*states)[kStates],");
    line(
        "                                      const outputs& out, bool inside, float* totals) "
        "const {{");
    line("    const {}_scan& scan = *this;", name_);
    for_arguments(&ScanEmitter::is_output, [&](uint32_t i) { line("    t{0} o{0} = {{}};", i); });
    line("#pragma unroll");
    line("    for (int x = 0; x < kItems; ++x) {{");
    line("      float* const h = states[x];");
    std::vector<uint32_t> stored;
    for (const Instruction& instruction : kernel_.body) {
      if (instruction.kind == Kind::Store) stored.push_back(instruction.operands[0]);
    }
    values(stored, "      ", static_cast<int>(traits_.rounds.size()));
    for (const Instruction& instruction : kernel_.body) {
      const uint32_t i = instruction.argument;
      if (instruction.kind != Kind::Store || carried_[i]) continue;
      const auto total = std::ranges::find(traits_.totals, i);
      if (total != traits_.totals.end()) {
        line("      totals[{} + x] += {};", (total - traits_.totals.begin()) * traits_.items,
             cuda_value(kernel_, instruction.operands[0]));
        continue;
      }
      line("      {}o{}.set({}, {});", items(i) < traits_.items ? "if (x == 0) " : "", i, item(i),
           cuda_value(kernel_, instruction.operands[0]));
    }
    for (size_t i = 0; i < traits_.carries.size(); ++i) {
      line("      const float next{} = {};", i, cuda_value(kernel_, next_of(i)));
    }
    for (size_t i = 0; i < traits_.carries.size(); ++i) line("      h[{0}] = next{0};", i);
    line("    }}");
    for_arguments(&ScanEmitter::is_output, [&](uint32_t i) {
      line("    if (inside{0}) o{1}.store(rnnc_steps_on(out.a{1}, t, d{1}));",
           argument(i).vector ? "" : " && e == 0", i);
    });
    line("  }}");
  }

  void entry() {
    const int64_t length = kernel_.length / traits_.items;
    const bool adds_up = !traits_.totals.empty();
    const size_t exchange = kernel_.arguments.size();
    const size_t count = exchange + (adds_up ? 2 : 1);  // with partials
    part("{}", cuda_arrays_struct(std::string(name_), count));
    line("extern \"C\" __global__ void __launch_bounds__({}, {})", 32 * traits_.warps,
         traits_.blocks);
    line("{}(const rnnc_rows rows, int steps{}, int start) {{", name_,
         cuda_arrays_parameter(std::string(name_)));
    line("  const bool due = rnnc_is_due(rows);");
    line("  rnnc_begin();");
    line("  if (!due) return;");
    line("  __shared__ rnnc_word places[{}];", count);
    line("  const unsigned ticket = rnnc_scan_begin<{}, {}>(rows.frame, arrays.of, places);", count,
         exchange);
    line("  constexpr unsigned packets = {}u;", traits_.rows * length);
    line("  constexpr unsigned groups = (packets + 31) / 32;");
    line("  const unsigned own = ticket % groups * 32 + threadIdx.x % 32;");
    line("  const unsigned packet = min(own, packets - 1);");
    line("  const unsigned row = packet / {}u;", length);
    line("  const unsigned e = packet % {}u * {}u;", length, traits_.items);
    line("  constexpr unsigned channels = packets * {}u;", traits_.items);
    const int64_t steps = traits_.warps * traits_.steps_of_warp;
    line("  const int index = ticket / groups;");
    line("  const int first_step = index * {} + static_cast<int>(threadIdx.x) / 32 * {};", steps,
         traits_.steps_of_warp);
    line("  const rnnc_scan_tile tile = {{index, (steps + {}) / {}, {}, steps - first_step,",
         steps - 1, steps, traits_.steps_of_warp);
    line("                               own < packets}};");
    line(
        "  const rnnc_scan_words words = {{rnnc_scan_array<unsigned>(places[{}]) + 1 + packet * "
        "{}u,",
        exchange, traits_.items);
    line("                                 static_cast<rnnc_word>(channels) * {}, channels}};",
         scan_exchange_words(kernel_, traits_.rounds, traits_.group));
    line("  __shared__ float memory[rnnc_scan_memory<{}_scan<true>>::kWords];", name_);
    if (adds_up) {
      line("  const rnnc_word first_sum = (static_cast<rnnc_word>(index) * {} + row) * {}ll + e;",
           traits_.rows, std::ssize(traits_.totals) * kernel_.length);
    }
    const auto run = [&](bool aligned) {
      line("  {}rnnc_scan({}_scan<{}>(places, row, e, first_step{}), tile, words, memory{});",
           traits_.aligned ? "" : "  ", name_, aligned, has_earlier() ? ", start" : "",
           adds_up ? fmt::format(", rnnc_scan_array<float>(places[{}]) + first_sum", exchange + 1)
                   : "");
    };
    if (traits_.aligned) {
      run(true);
    } else {
      line("  if ({}) {{", are_aligned());
      run(true);
      line("  }} else {{");
      run(false);
      line("  }}");
    }
    line("}}");
  }

  /// Whether packets of every array are: their rows are apart by whole packets.
  std::string are_aligned() const {
    std::map<size_t, std::string> of_bytes;
    for_arguments(&ScanEmitter::is_array, [&](uint32_t i) {
      if (!argument(i).vector || traits_.items == 1) return;
      std::string& places = of_bytes[size_of(argument(i).dtype) * traits_.items];
      places += fmt::format("{}places[{}]", places.empty() ? "" : " | ", i);
    });
    std::string text;
    for (const auto& [bytes, places] : of_bytes) {
      text += fmt::format("{}({}) % {} == 0", text.empty() ? "" : " && ", places, bytes);
    }
    return text.empty() ? "true" : text;
  }

  const Kernel& kernel_;
  const ScanTraits& traits_;
  std::string_view name_;
  std::vector<bool> carried_;       // by argument
  std::vector<bool> in_registers_;  // likewise: carried, or added up
};

}  // namespace

std::string emit_scan_kernel(const Kernel& kernel, const ScanTraits& traits,
                             std::string_view name) {
  return ScanEmitter(kernel, traits, name).emit();
}

}  // namespace rnnc
