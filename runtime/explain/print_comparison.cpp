#include "ir/base/text_writer.h"
#include "runtime/explain/print.h"
#include "runtime/explain/spelling.h"

namespace rnnc::explain {
namespace {

std::string figure_text(double value, Comparison::Unit unit) {
  switch (unit) {
    case Comparison::Unit::Seconds:
      return time_text(value);
    case Comparison::Unit::Operations:
    case Comparison::Unit::Count:
      return count_text(value);
    case Comparison::Unit::Bytes:
      break;
  }
  return bytes_text(value);
}

class ComparisonPrinter : TextWriter {
 public:
  std::string print(const Comparison& it) {
    line("Against {}, of rnnc {}", it.name, it.version);
    if (it.settings.empty()) line("  the same was asked for");
    for (const Comparison::Setting& setting : it.settings) print(setting);
    line("  {:18}{:>14}{:>14}{:>12}", "of a step", "then", "now", "of then");
    for (const auto& [what, unit, then, now] : it.figures) {
      const std::string ratio = then > 0 ? fmt::format("{:.2f}", now / then) : "";
      line("  {:18}{:>14}{:>14}{:>12}", what, figure_text(then, unit), figure_text(now, unit),
           ratio);
    }
    line("  launches as they were: {}", it.alike);
    for (const Comparison::Launches& launches : it.launches) print(launches);
    return take_text();
  }

 private:
  void print(const Comparison::Setting& setting) {
    const std::string& then = setting.then.empty() ? kNone : setting.then;
    const std::string& now = setting.now.empty() ? kNone : setting.now;
    const std::string text = fmt::format("  {:18}{}, now {}", setting.what, then, now);
    if (text.size() <= kTextWidth) return line("{}", text);
    line("  {:18}{}\n  {:14}now {}", setting.what, then, "", now);
  }

  void print(const Comparison::Launches& launches) {
    const auto& [what, then, now] = launches;
    line("  {} {}", !then ? "new:    " : !now ? "gone:   " : "changed:", what);
    if (then) line("      then {}", side_text(*then));
    if (now) line("      now  {}", side_text(*now));
  }

  static std::string side_text(const Comparison::Side& side) {
    const std::string measured =
        side.measured ? fmt::format(", {} measured", time_text(*side.measured)) : "";
    return fmt::format("{}: {}; {} a call{}", side.id, side.strategy, time_text(side.seconds),
                       measured);
  }

  static inline const std::string kNone = "none";
};

}  // namespace

std::string comparison_text(const Comparison& comparison) {
  return ComparisonPrinter().print(comparison);
}

}  // namespace rnnc::explain
