#include <algorithm>

#include "ir/base/text_writer.h"
#include "runtime/explain/describe_launch.h"
#include "runtime/explain/print.h"
#include "runtime/explain/spelling.h"

namespace rnnc::explain {
namespace {

class TrainingPrinter : TextWriter {
 public:
  explicit TrainingPrinter(const TrainingExplanation& explanation) : it_(explanation) {}

  std::string print() {
    const Explanation& forward = it_.forward;
    line("{}: training, {}, batch {}, {} steps, residuals {}", forward.name,
         to_string(forward.dtype), forward.batch, forward.steps, it_.residuals);
    line("  {}", it_.wanted);
    print_totals();
    print_residuals();
    line("\n---- Forward half ----\n");
    part("{}", explanation_text(it_.forward));
    line("\n---- Backward half ----\n");
    part("{}", explanation_text(it_.backward));
    return take_text();
  }

 private:
  void print_totals() {
    const double steps = static_cast<double>(it_.forward.steps);
    const Totals& forward = it_.forward.totals;
    const Totals& backward = it_.backward.totals;
    line("\n{:20}{:>14}{:>14}{:>14}", "Predicted, a step", "forward", "backward", "both");
    const auto row = [&](std::string_view title, double one, double other, auto spelling) {
      line("  {:18}{:>14}{:>14}{:>14}", title, spelling(one / steps), spelling(other / steps),
           spelling((one + other) / steps));
    };
    row("time", forward.cost.seconds, backward.cost.seconds, time_text);
    row("floor", forward.cost.floor_seconds, backward.cost.floor_seconds, time_text);
    row("FLOP", forward.cost.flops, backward.cost.flops, count_text);
    row("bytes", forward.cost.bytes, backward.cost.bytes, bytes_text);
    row("launches", forward.launches, backward.launches, count_text);
  }

  void print_residuals() {
    const auto saved = std::ranges::count(it_.values, "saved", &ResidualInfo::how);
    const auto bytes = static_cast<double>(it_.bytes_per_step);
    const auto batch = static_cast<double>(it_.forward.batch);
    const auto steps = static_cast<double>(it_.forward.steps);
    line("\nResiduals: {} of {} of a step {} saved by the forward half", saved,
         plural(std::ssize(it_.values), "value"), saved == 1 ? "is" : "are");
    line("  {} a step of a sequence, {} a step of the batch, {} a call", bytes_text(bytes),
         bytes_text(bytes * batch), bytes_text(bytes * batch * steps));
    print_values("saved", "saved");
    print_values("anew", "computed anew, for many steps at once");
    print_names("on the way to these",
                [](const ResidualInfo& value) { return value.how == "anew" && !value.asked; });
    print_values("read", "read again");
    print_names("not needed, since no gradient asks for them",
                [](const ResidualInfo& value) { return value.how == "not needed"; });
  }

  void print_values(std::string_view how, std::string_view title) {
    bool first = true;
    for (const ResidualInfo& value : it_.values) {
      if (value.how != how || (how == "anew" && !value.asked)) continue;
      if (first) line("  {}:", title);
      first = false;
      const std::string bytes = value.bytes > 0 ? bytes_text(static_cast<double>(value.bytes)) : "";
      line("    {:32} {:12} {:>10}  {}{}{}", value.name, to_string(value.shape), bytes, value.place,
           value.array.empty() ? "" : ", in ", value.array);
      print_wrapped(value.why);
    }
  }

  void print_wrapped(std::string_view text) {
    constexpr std::string_view kIndent = "      ";
    while (kIndent.size() + text.size() > kTextWidth) {
      const size_t end = text.rfind(' ', kTextWidth - kIndent.size());
      if (end == std::string_view::npos) break;
      line("{}{}", kIndent, text.substr(0, end));
      text.remove_prefix(end + 1);
    }
    line("{}{}", kIndent, text);
  }

  template <typename Wanted>
  void print_names(std::string_view title, Wanted wanted) {
    std::string list;
    size_t width = 0;
    for (const ResidualInfo& value : it_.values) {
      if (!wanted(value)) continue;
      if (!list.empty()) list += ',';
      const bool breaks = list.empty() || width + value.name.size() + 2 > kTextWidth;
      list += breaks ? "\n    " : " ";
      width = (breaks ? 4 : width + 2) + value.name.size();
      list += value.name;
    }
    if (!list.empty()) line("  {}:{}", title, list);
  }

  const TrainingExplanation& it_;
};

}  // namespace

std::string explanation_text(const TrainingExplanation& explanation) {
  return TrainingPrinter(explanation).print();
}

}  // namespace rnnc::explain
