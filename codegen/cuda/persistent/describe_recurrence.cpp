// Of each phase: its products, what each instruction loads, what it stores.
#include "codegen/cuda/persistent/describe_recurrence.h"

#include <algorithm>

#include "ir/base/text_writer.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

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
    std::string last;  // the same value may be stored to several arrays of one name
    for (uint32_t id = 0; id < body.size(); ++id) {
      const bool loads = body[id].kind == Kind::Load;
      if (!loads && body[id].kind != Kind::Store) continue;
      if (phase.sources[body[id].argument] == RecurrenceSource::Product) continue;
      const std::string array = value(phase.launch->accesses[body[id].argument]);
      std::string text = loads ? fmt::format("value{} is {}", id, array)
                               : fmt::format("{} = value{}", array, body[id].operands[0]);
      if (text != last) line("//     {}", text);
      last = std::move(text);
    }
  }

  /// Names are the user's, or made of them: a comment must not end in them.
  static std::string harmless(std::string name) {
    std::erase_if(name, [](char c) { return c == '\\' || c == '\n' || c == '\r' || c == '?'; });
    return name;
  }

  std::string name(const Access& access) const {
    return harmless(plan_.buffers[access.buffer].name);
  }

  /// An array, at which step, and from which column on where that is not the first.
  std::string value(const Access& access) const {
    const Extent extent = plan_.buffers[access.buffer].extent;
    const bool has_steps = extent == Extent::Chunk || extent == Extent::Steps;
    return fmt::format("{}{}{}", name(access),
                       !has_steps          ? ""
                       : access.delay == 0 ? "[t]"
                                           : fmt::format("[t-{}]", access.delay),
                       access.column == 0 ? "" : fmt::format(" from {} on", access.column));
  }

  const Plan& plan_;
};

}  // namespace

std::string describe_recurrence(const Plan& plan, std::string_view kernel,
                                const std::vector<RecurrenceLayout>& sides) {
  return Describer(plan).describe(kernel, sides);
}

}  // namespace rnnc
