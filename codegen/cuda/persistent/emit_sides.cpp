// 1. Give each side its text, which names the places where its arrays lie, and what these names
//    stand for.
// 2. Neighbours of one text, whose places are equally far apart, share it: a stack of many layers
//    is compiled as quickly as one of few. Their places are computed from the side's number.
// 3. Each block finds its side, its group of rows and its number in it, and runs the side's text.
#include <algorithm>
#include <map>
#include <span>

#include "codegen/cuda/persistent/emit_recurrence.h"
#include "ir/base/text_writer.h"
#include "ir/plan/recurrence_sides.h"

namespace rnnc {
namespace {

/// What a side's text names.
struct Place {
  std::string name;
  int64_t value = 0;
};

struct SideText {
  RecurrenceSideText text;
  std::vector<Place> places;
};

/// Sides from `first` on that share a text.
struct Run {
  size_t first = 0;
  size_t count = 0;
};

/// How far a place of the side behind `a` is from its own.
int64_t apart(const SideText& a, const SideText& b, size_t place) {
  return b.places[place].value - a.places[place].value;
}

class SidesEmitter : TextWriter {
 public:
  SidesEmitter(const Plan& plan, const RecurrenceTile& tile,
               const std::vector<RecurrenceLayout>& sides)
      : plan_(plan), tile_(tile), sides_(sides) {}

  RecurrenceFunction emit() {
    size_t accesses = 0;
    for (const RecurrenceLayout& side : sides_) {
      texts_.push_back({emit_recurrence_side(plan_, tile_, side), places(side, accesses)});
      accesses += side.accesses().size();
    }
    position();
    for (const Run& run : runs()) emit(run);
    return {.threads = 32 * tile_.warps,
            .accesses = accesses,
            .traits = std::move(traits_),
            .body = take_text()};
  }

 private:
  static std::vector<Place> places(const RecurrenceLayout& side, size_t first) {
    std::vector<Place> result = {{"first", static_cast<int64_t>(first)},
                                 {"parts_at", side.parts()}};
    for (size_t i = 0; i < side.slices().size(); ++i) {
      result.push_back({fmt::format("slice_at{}", i), side.slices()[i].offset});
    }
    for (size_t i = 0; i < side.gathered().size(); ++i) {
      result.push_back({fmt::format("gathered_at{}", i), side.gathered()[i].offset});
    }
    return result;
  }

  std::vector<Run> runs() const {
    std::vector<Run> result;
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (!result.empty() && joins(result.back(), i)) {
        ++result.back().count;
      } else {
        result.push_back({i, 1});
      }
    }
    return result;
  }

  bool joins(const Run& run, size_t side) const {
    const std::span of_run = std::span(texts_).subspan(run.first, run.count);
    const SideText& text = texts_[side];
    if (text.text != of_run[0].text) return false;
    for (size_t i = 0; run.count > 1 && i < text.places.size(); ++i) {
      if (apart(of_run.back(), text, i) != apart(of_run[0], of_run[1], i)) return false;
    }
    return true;
  }

  /// Two neighbouring multiprocessors, which have neighbouring blocks, share their way to the L2
  /// cache. Blocks of a group load at the same time, so that neighbours are of different groups or
  /// sides: steps of grids are 1 to 5 % shorter.
  void number() {
    const int64_t all = all_blocks(tile_);
    const int64_t together = tile_.k_blocks;  // a cluster, whose blocks are neighbours anyway
    if (tile_.clusters || tile_.blocks == 1 || all == tile_.blocks) {
      line("  const unsigned number = blockIdx.x;");
    } else if (together > 1) {
      line("  const unsigned cluster = blockIdx.x / {}u;", together);
      line(
          "  const unsigned number = {}((cluster % 2u * {}u + cluster / 2u) * {}u + blockIdx.x % "
          "{}u);",
          sides_[0].keeps_addresses() ? "rnnc_kept" : "", (all / together + 1) / 2, together,
          together);
    } else {
      line("  const unsigned number = {}(blockIdx.x % 2u * {}u + blockIdx.x / 2u);",
           sides_[0].keeps_addresses() ? "rnnc_kept" : "", (all + 1) / 2);
    }
  }

  void position() {
    const int64_t group_rows = sides_[0].group_rows();
    line("  rnnc_wait_for_previous();");
    line("  const int steps = launch.steps;");
    number();
    line("  const unsigned block = number % {}u;", tile_.blocks);
    if (sides_.size() == 1) {
      line("  const unsigned group = number / {}u;", tile_.blocks);
    } else {
      line("  const unsigned group = number / {}u % {}u;", tile_.blocks, tile_.groups);
      line("  const unsigned side = number / {}u;", tile_.blocks * tile_.groups);
    }
    line("  const unsigned first_row = group * {}u;", group_rows);
    line("  if (first_row >= launch.rows.count) return;");
    line("  const unsigned row_end = min({}u, first_row + {}u);", plan_.batch, group_rows);
  }

  void emit(const Run& run) {
    const size_t end = run.first + run.count;
    if (end < sides_.size()) {
      line("  if (side < {}u) {{", end);
    } else {
      line("  {{");
    }
    const SideText& text = texts_[run.first];
    for (size_t i = 0; i < text.places.size(); ++i) {
      const Place& place = text.places[i];
      const int64_t step = run.count == 1 ? 0 : apart(text, texts_[run.first + 1], i);
      if (step == 0) {
        line("  constexpr unsigned {} = {};", place.name, place.value);
      } else {
        line("  const unsigned {} = {} + (side - {}u) * {}u;", place.name, place.value, run.first,
             step);
      }
    }
    add_traits(run.first);
    if (sides_.size() > 1) line("  using namespace side{};", run.first);
    part("{}", text.text.body);
    if (end < sides_.size()) line("  return;");
    line("  }}");
  }

  /// Of a side. Those that are alike are one type, so that templates are made for it once.
  void add_traits(size_t side) {
    const std::string scope = sides_.size() == 1 ? "" : fmt::format("side{}", side);
    if (!scope.empty()) traits_ += fmt::format("namespace {} {{\n", scope);
    for (const TemplateTraits& traits : texts_[side].text.traits) {
      const std::string_view separator = scope.empty() ? "" : "::";
      const auto [known, is_new] =
          traits.constants.empty()
              ? std::pair(known_.end(), false)
              : known_.try_emplace(traits.constants,
                                   fmt::format("{}{}{}", scope, separator, traits.name));
      if (is_new) {
        traits_ += fmt::format("struct {} {{\n{}}};\n", traits.name, traits.constants);
      } else {
        traits_ += fmt::format("typedef {} {};\n",
                               known == known_.end() ? traits.meaning : known->second, traits.name);
      }
    }
    if (!scope.empty()) traits_ += fmt::format("}}  // namespace {}\n", scope);
  }

  const Plan& plan_;
  const RecurrenceTile& tile_;
  const std::vector<RecurrenceLayout>& sides_;
  std::vector<SideText> texts_;
  std::map<std::string, std::string> known_;  // names of structs, by what is in them
  std::string traits_;
};

}  // namespace

std::string RecurrenceFunction::text(std::string_view name) const {
  return fmt::format(
      R"(namespace {0}_traits {{
{4}}}  // namespace {0}_traits
struct {0}_launch {{
  rnnc_rows rows;
  int steps;
  int first_step;  // which of the launch's is the sequence's first, if one is
  rnnc_access access[{1}];
}};
extern "C" __global__ void __launch_bounds__({2}, 1)
{0}(const __grid_constant__ {0}_launch launch) {{
  using namespace {0}_traits;
{3}}}
)",
      name, accesses, threads, body, traits);
}

RecurrenceFunction emit_recurrence_function(const Plan& plan, const RecurrenceTile& tile,
                                            const std::vector<RecurrenceLayout>& sides) {
  return SidesEmitter(plan, tile, sides).emit();
}

}  // namespace rnnc
