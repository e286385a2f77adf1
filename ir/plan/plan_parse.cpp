#include "ir/plan/plan_parse.h"

#include <algorithm>

#include "ir/plan/launches/kernel_launches.h"

namespace rnnc {
namespace {

/// Recursive descent; the first failure ends it, see PlanScanner.
class PlanParser {
 public:
  explicit PlanParser(std::string_view text) : in_(text, plan_) {}

  // file := head [memory] [note] ['buffers:' buffer*] ['kernels:' kernel*] ['stages:' stage*]
  //         ['states:' state*]
  Result<Plan> parse() {
    parse_head();
    if (in_.take("memory :")) parse_memory();
    if (in_.take("note :")) plan_.note = in_.quoted();
    if (in_.take("buffers :")) {
      while (takes_index('b', plan_.buffers.size())) parse_buffer();
    }
    if (in_.take("kernels :")) {
      while (takes_index('k', plan_.kernels.size())) parse_kernel();
    }
    if (in_.take("stages :")) {
      Domain domain = Domain::Once;
      while (in_.take_word_of(kDomainWords, domain)) parse_stage(domain);
    }
    if (in_.take("states :")) {
      while (!in_.at_end()) parse_state();
    }
    resolve_delays();
    if (!in_.at_end()) in_.expected("what a plan goes on with");
    if (in_.failed()) return fail("{}", in_.error());
    return std::move(plan_);
  }

 private:
  // head := 'plan' NAME ':' DTYPE ['with products in TF32'] [', descending'] ', batch' N ', chunk' N
  // [',' N 'sweeps']
  void parse_head() {
    in_.expect("plan");
    plan_.name = in_.name(kNameEnds);
    in_.expect(":");
    plan_.dtype = parse_type();
    plan_.tf32 = in_.take("with products in TF32");
    plan_.descending = in_.take(", descending");
    in_.expect(", batch");
    plan_.batch = in_.count();
    in_.expect(", chunk");
    plan_.chunk = in_.count();
    if (!in_.take(",")) return;
    plan_.sweeps = in_.number<uint32_t>();
    in_.expect("sweeps");
  }

  // memory := 'memory: workspace' N 'bytes' ['and' N 'per step'] ', program' N 'bytes'
  void parse_memory() {
    in_.expect("workspace");
    plan_.workspace_bytes = in_.count();
    in_.expect("bytes");
    if (in_.take("and")) {
      plan_.workspace_bytes_per_step = in_.count();
      in_.expect("per step");
    }
    in_.expect(", program");
    plan_.program_bytes = in_.count();
    in_.expect("bytes");
  }

  DType parse_type() {
    for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i32}) {
      if (in_.take(to_string(type))) return type;
    }
    in_.expected("an element type");
    return DType::f32;
  }

  /// `b3`, if that comes next; these are counted from zero.
  bool takes_index(char letter, size_t index) {
    if (in_.failed() || !in_.sees_id(letter)) return false;
    const std::string name = fmt::format("{}{}", letter, index);
    if (!in_.take(name)) in_.expected(fmt::format("`{}`", name));
    return !in_.failed();
  }

  // buffer := bN NAME ':' DTYPE PLACEMENT ROLE ',' EXTENT 'x' N [', the last' N 'a pad']
  //           [', turned'] [', history' N] [', sweep' N] [', lag' N] [', slot' N] [', at' N place]
  void parse_buffer() {
    Buffer buffer;
    buffer.name = in_.name(kNameEnds);
    in_.expect(":");
    buffer.dtype = parse_type();
    buffer.placement = in_.word_of(kPlacementWords, "`caller`, `workspace` or `program`");
    buffer.role = in_.word_of(kRoleWords, "what the buffer is for");
    in_.expect(",");
    buffer.extent = in_.word_of(kExtentWords, "`invariant`, `batch`, `steps` or `chunk`");
    in_.expect("x");
    buffer.width = in_.count();
    if (in_.take(", the last")) {
      buffer.pad = in_.count();
      in_.expect("a pad");
      if (buffer.pad > buffer.width) in_.complain("the pad is wider than the row");
    }
    buffer.turned = in_.take(", turned");
    if (in_.take(", history")) buffer.history = in_.number<uint32_t>();
    parse_lag(buffer.sweep, buffer.lag);
    if (in_.take(", slot")) buffer.slot = in_.number<uint32_t>();
    const bool is_placed = in_.take(", at");
    if (is_placed) buffer.offset = in_.count();
    const int64_t steps = buffer.history + plan_.chunk;
    in_.product({std::max(steps, int64_t{1}), plan_.batch, buffer.width, 8}, "bytes");
    if (is_placed && !in_.failed()) parse_size(buffer);
    plan_.buffers.push_back(std::move(buffer));
  }

  // place := ',' N 'bytes' ['per step']
  void parse_size(const Buffer& buffer) {
    in_.expect(",");
    const size_t position = in_.position();
    const int64_t bytes = in_.count();
    in_.expect("bytes");
    if (buffer.extent == Extent::Steps) in_.expect("per step");
    if (bytes != byte_size(plan_, buffer)) {
      in_.complain_at(position, fmt::format("{} bytes, but the buffer has {}", bytes,
                                            byte_size(plan_, buffer)));
    }
  }

  void parse_lag(uint32_t& sweep, uint32_t& lag) {
    if (in_.take(", sweep")) sweep = in_.number<uint32_t>();
    if (in_.take(", lag")) lag = in_.number<uint32_t>();
  }

  // kernel := kN NAME ': rows of' N argument* (instruction | loop)*
  // loop := 'loop' N ['down'] ':' (instruction | loop)* 'end'
  void parse_kernel() {
    Kernel kernel;
    kernel.name = in_.name(kNameEnds);
    in_.expect(": rows of");
    kernel.length = in_.count();
    while (takes_index('a', kernel.arguments.size())) kernel.arguments.push_back(parse_argument());
    std::vector<size_t> open;  // loops
    while (!in_.failed()) {
      if (in_.take("%")) {
        kernel.body.push_back(parse_value(kernel.body.size()));
      } else if (in_.take("store")) {
        kernel.body.push_back(parse_store(kernel));
      } else if (in_.take("loop")) {
        open.push_back(kernel.loops.size());
        Kernel::Loop& loop = kernel.loops.emplace_back();
        loop.begin = loop.end = static_cast<uint32_t>(kernel.body.size());
        loop.count = in_.count();
        loop.descending = in_.take("down");
        in_.expect(":");
      } else if (in_.take("end")) {
        if (open.empty()) {
          in_.complain("no loop begins before this `end`");
        } else {
          kernel.loops[open.back()].end = static_cast<uint32_t>(kernel.body.size());
          open.pop_back();
        }
      } else {
        break;
      }
    }
    plan_.kernels.push_back(std::move(kernel));
  }

  // argument := aN ':' ('in' | 'out') DTYPE ('vector' | 'scalar' | ['scalar'] 'product')
  //             ['times' N]
  Kernel::Argument parse_argument() {
    Kernel::Argument argument;
    in_.expect(":");
    argument.written = in_.take("out");
    if (!argument.written) in_.expect("in");
    argument.dtype = parse_type();
    argument.product = in_.take("product");
    argument.vector = argument.product || parse_shape();
    if (!argument.product) argument.product = in_.take("product");
    if (in_.take("times")) argument.count = in_.count();
    return argument;
  }

  /// Whether it is a vector.
  bool parse_shape() {
    if (in_.take("vector")) return true;
    if (!in_.take("scalar")) in_.expected("`vector` or `scalar`");
    return false;
  }

  // instruction := '%' N '=' ('load' aN | 'const' NUMBER | WORD operands) ':' shape
  //              | 'store' aN ',' operands [':' shape]
  Instruction parse_value(size_t index) {
    Instruction instruction;
    const size_t position = in_.position();
    if (in_.number<size_t>() != index) {
      in_.complain_at(position, fmt::format("expected instruction %{}", index));
    }
    in_.expect("=");
    if (in_.take("load")) {
      instruction.argument = in_.id('a', kMostArguments);
    } else if (in_.take("const")) {
      instruction.kind = Instruction::Kind::Constant;
      instruction.value = in_.constant();
    } else if (in_.take("carried")) {
      instruction.kind = Instruction::Kind::Carried;
      instruction.operands = parse_operands();
    } else if (in_.take("last")) {
      instruction.kind = Instruction::Kind::Last;
      instruction.operands = parse_operands();
    } else {
      instruction.op = parse_op_name();
      instruction.kind =
          is_reduction(instruction.op) ? Instruction::Kind::Reduce : Instruction::Kind::Scalar;
      instruction.operands = parse_operands();
    }
    in_.expect(":");
    instruction.vector = parse_shape();
    return instruction;
  }

  Op parse_op_name() {
    for (const OpInfo& op : all_ops()) {
      if ((op.scalar || op.reduction) && in_.take(op.name)) return op.op;
    }
    in_.expected("`load`, `const`, a scalar op or a reduction");
    return Op::Add;
  }

  Instruction parse_store(const Kernel& kernel) {
    Instruction instruction{.kind = Instruction::Kind::Store, .operands = {}};
    instruction.argument = in_.id('a', kMostArguments);
    in_.expect(",");
    instruction.operands = parse_operands();
    const bool is_known = instruction.argument < kernel.arguments.size();
    instruction.vector = is_known && kernel.arguments[instruction.argument].vector;
    if (in_.take(":")) {
      instruction.vector = parse_shape();
    } else if (!is_known) {
      in_.expect(":");
    }
    return instruction;
  }

  // operands := ['%' N (',' '%' N)*]
  std::vector<uint32_t> parse_operands() {
    std::vector<uint32_t> operands;
    if (!in_.take("%")) return operands;
    operands.push_back(in_.number<uint32_t>());
    while (in_.take(", %")) operands.push_back(in_.number<uint32_t>());
    return operands;
  }

  // stage := DOMAIN [NAME '(' CLASS ')'] lag ':' [why] ['reads products' bN+] [stack] launch*
  void parse_stage(Domain domain) {
    Stage stage;
    stage.domain = domain;
    if (!in_.sees(',') && !in_.sees(':')) {
      stage.name = in_.name(kStageNameEnds);
      in_.expect("(");
      stage.recurrence = in_.word_of(kRecurrenceWords, "a class of recurrences");
      in_.expect(")");
    }
    parse_lag(stage.sweep, stage.lag);
    in_.expect(":");
    parse_why(stage);
    if (in_.take("reads products")) stage.products = parse_buffers();
    parse_stack(stage.stack);
    while (!in_.failed()) {
      std::optional<Launch> launch = parse_launch(in_);
      if (!launch) break;
      stage.launches.push_back(*std::move(launch));
    }
    plan_.stages.push_back(std::move(stage));
  }

  // why := 'because' QUOTED [',' phases] | phases      phases := N ('phase' | 'phases')
  void parse_why(Stage& stage) {
    if (in_.take("because")) {
      stage.reason = in_.quoted();
      if (!in_.take(",")) return;
    } else if (!in_.sees_number()) {
      return;
    }
    stage.phases = in_.number<int>();
    if (!in_.take("phase")) in_.expect("phases");
  }

  // stack := 'on top of' N [', ahead' bN+]
  void parse_stack(StackPlace& stack) {
    if (!in_.take("on top of")) return;
    stack.below = in_.number<uint32_t>();
    if (in_.take(", ahead")) stack.ahead = parse_buffers();
  }

  std::vector<BufferId> parse_buffers() {
    std::vector<BufferId> buffers = {in_.buffer()};
    while (!in_.failed() && in_.sees_id('b')) buffers.push_back(in_.buffer());
    return buffers;
  }

  // state := NAME ['(a delay of' NAME ')'] lag ':' ['turning'] ['hiding' ['in reverse']]
  //          (('given' | 'declared' | 'final' | 'hidden') ':' call)*
  void parse_state() {
    StatePlan state;
    state.name = in_.name(kStateNameEnds);
    Delay& delay = delays_.emplace_back();
    if (in_.take("(")) {
      in_.expect("a delay of");
      delay.position = in_.position();
      delay.of = in_.name(")");
      in_.expect(")");
    }
    parse_lag(state.sweep, state.lag);
    in_.expect(":");
    state.turns = in_.take("turning");
    in_.take_word_of(kHidingWords, state.hiding);
    for (const auto& [what, launch] : kStateLaunchWords) {
      if (!in_.take(what)) continue;
      in_.expect(":");
      rnnc::parse(in_, state.*launch);
    }
    plan_.states.push_back(std::move(state));
  }

  /// States may be delays of later ones.
  void resolve_delays() {
    if (in_.failed()) return;
    for (size_t i = 0; i < delays_.size(); ++i) {
      const auto& [of, position] = delays_[i];
      if (position == 0) continue;
      const auto found = std::ranges::find(plan_.states, of, &StatePlan::name);
      if (found == plan_.states.end()) {
        return in_.complain_at(position, fmt::format("there is no state `{}`", of));
      }
      plan_.states[i].delay_of = static_cast<uint32_t>(found - plan_.states.begin());
    }
  }

  static constexpr size_t kMostArguments = std::numeric_limits<uint32_t>::max();

  /// Of a state, where it is one.
  struct Delay {
    std::string of;
    size_t position = 0;
  };

  Plan plan_;
  PlanScanner in_;
  std::vector<Delay> delays_;
};

}  // namespace

Result<Plan> parse_plan(std::string_view text) {
  return PlanParser(text).parse();
}

}  // namespace rnnc
