// Of each phase: its products, the formulas that its kernel computes, what it stores. A formula
// stands for itself if it is used once and is short; else it has its instruction's name.
#include "codegen/cuda/persistent/describe_recurrence.h"

#include <algorithm>

#include "codegen/cuda/device/kernel_text.h"
#include "ir/base/text_writer.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

constexpr size_t kLongFormula = 60;  // characters

class Describer : TextWriter {
 public:
  explicit Describer(const Plan& plan) : plan_(plan) {}

  std::string describe(std::string_view kernel, const std::vector<RecurrenceLayout>& sides) {
    line("// {}, of {}:", kernel, harmless(plan_.name));
    for (size_t i = 0; i < sides.size(); ++i) {
      if (sides.size() > 1) line("// side {}", i);
      const std::vector<RecurrencePhase>& phases = sides[i].phases();
      for (size_t p = 0; p < phases.size(); ++p) describe(p, phases[p]);
    }
    return take_text();
  }

 private:
  void describe(size_t p, const RecurrencePhase& phase) {
    line("//   phase {}, rows of {} elements", p, phase.kernel->length);
    for (size_t i = 0; i < phase.products.size(); ++i) {
      const FusedLaunch::Product& product = *phase.products[i].product;
      line("//     weights{}_{}: {}, by {}", p, i, name(product.weight), value(product.left));
    }
    const std::vector<Instruction>& body = phase.kernel->body;
    std::vector<size_t> uses(body.size());
    for (const Instruction& one : body) {
      for (const uint32_t operand : one.operands) ++uses[operand];
    }
    formulas_.assign(body.size(), "");
    std::string last;  // the same value may be stored to several arrays of one name
    for (uint32_t id = 0; id < body.size(); ++id) {
      if (body[id].kind == Kind::Store) {
        const std::string array = value(phase.launch->accesses[body[id].argument]);
        std::string text = fmt::format("{} = {}", array, bare(formulas_[body[id].operands[0]]));
        if (text != last) line("//     {}", text);
        last = std::move(text);
        continue;
      }
      std::string text = formula(phase, id);
      const bool is_leaf = body[id].kind == Kind::Load || body[id].kind == Kind::Constant;
      const bool has_name = !is_leaf && (uses[id] > 1 || text.size() > kLongFormula);
      if (has_name) line("//     value{} = {}", id, bare(text));
      formulas_[id] = has_name ? fmt::format("value{}", id) : std::move(text);
    }
  }

  /// What an instruction computes, in parentheses if it is not one word or a call.
  std::string formula(const RecurrencePhase& phase, uint32_t id) const {
    const Instruction& one = phase.kernel->body[id];
    if (one.kind == Kind::Load) return loaded(phase, one.argument);
    if (one.kind == Kind::Constant) return fmt::format("{}", one.value);
    if (one.kind == Kind::Reduce) {
      return fmt::format("{}({})", info(one.op).name, bare(formulas_[one.operands[0]]));
    }
    if (one.op == Op::Div) {
      return fmt::format("({} / {})", formulas_[one.operands[0]], formulas_[one.operands[1]]);
    }
    // As in the kernel, whose functions are called rnnc_tanh where the cell says tanh.
    const bool is_call = !info(one.op).cuda.starts_with('(');
    std::string text = cuda_scalar_text(one.op, [&](size_t i) {
      const std::string& operand = formulas_[one.operands.at(i)];
      const bool is_sum = one.op == Op::Add && i == 0 && adds(phase, one.operands[0]);
      return is_call || is_sum ? bare(operand) : operand;
    });
    const std::string_view prefix = "rnnc_";
    for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at)) {
      text.erase(at, prefix.size());
    }
    return text;
  }

  static bool adds(const RecurrencePhase& phase, uint32_t id) {
    return phase.kernel->body[id].op == Op::Add && phase.kernel->body[id].kind == Kind::Scalar;
  }

  /// Without the parentheses around all of it.
  static std::string bare(const std::string& formula) {
    if (!formula.starts_with('(')) return formula;
    int depth = 0;
    for (size_t i = 0; i < formula.size(); ++i) {
      depth += formula[i] == '(' ? 1 : formula[i] == ')' ? -1 : 0;
      if (depth == 0) return i + 1 == formula.size() ? formula.substr(1, i - 1) : formula;
    }
    return formula;
  }

  std::string loaded(const RecurrencePhase& phase, uint32_t argument) const {
    const RecurrenceSource source = phase.sources[argument];
    if (source == RecurrenceSource::Product) return product(phase, phase.results[argument]);
    std::string array = value(phase.launch->accesses[argument]);
    if (has_steps(phase.launch->accesses[argument])) return array;
    return source == RecurrenceSource::Last     ? "last " + array
           : source == RecurrenceSource::Before ? "last but one " + array
                                                : array;
  }

  /// The sum of products that a result is, by the names of their weights: those of merged products
  /// have a name for each.
  std::string product(const RecurrencePhase& phase, uint32_t result) const {
    std::string sum;
    for (const RecurrenceProduct& one : phase.products) {
      if (!one.has(result)) continue;
      const std::string weights = name(one.product->weight);
      const auto names = static_cast<uint32_t>(std::ranges::count(weights, '|') + 1);
      const uint32_t member = result - one.first;
      const std::string weight = names == one.product->members
                                     ? part(weights, member)
                                     : fmt::format("{} of {}", member, weights);
      sum += fmt::format("{}{} {}", sum.empty() ? "" : " + ", weight, value(one.product->left));
    }
    return sum.find(" + ") == std::string::npos ? sum : fmt::format("({})", sum);
  }

  /// Of a name with `|` between its parts.
  static std::string part(std::string_view names, uint32_t index) {
    for (; index > 0; --index) names.remove_prefix(names.find('|') + 1);
    return std::string(names.substr(0, names.find('|')));
  }

  /// Names are the user's, or made of them: a comment must not end in them.
  static std::string harmless(std::string name) {
    std::erase_if(name, [](char c) { return c == '\\' || c == '\n' || c == '\r' || c == '?'; });
    return name;
  }

  std::string name(const Access& access) const {
    return harmless(plan_.buffers[access.buffer].name);
  }

  bool has_steps(const Access& access) const {
    const Extent extent = plan_.buffers[access.buffer].extent;
    return extent == Extent::Chunk || extent == Extent::Steps;
  }

  /// An array, at which step, and from which column on where that is not the first.
  std::string value(const Access& access) const {
    std::string text = name(access);
    if (has_steps(access)) {
      text += access.delay == 0 ? "[t]" : fmt::format("[t-{}]", access.delay);
    }
    return access.column == 0 ? text : fmt::format("({} from {} on)", text, access.column);
  }

  const Plan& plan_;
  std::vector<std::string> formulas_;  // by instruction: its own, or its name
};

}  // namespace

std::string describe_recurrence(const Plan& plan, std::string_view kernel,
                                const std::vector<RecurrenceLayout>& sides) {
  return Describer(plan).describe(kernel, sides);
}

}  // namespace rnnc
