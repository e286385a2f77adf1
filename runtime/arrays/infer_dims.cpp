#include "runtime/arrays/infer_dims.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/graph/delays.h"
#include "runtime/arrays/match_arrays.h"
#include "runtime/base/describe.h"

namespace rnnc {
namespace {

constexpr int64_t kNoSize = -1;  // which no array's axis has

/// The value of `symbol` that makes `dim` equal to `size`, where `dim` has no other symbol and is a
/// multiple of the symbol plus a number (`H`, `2 * H`, `H / 2`, `H + 1`), or of its inverse (`8 /
/// N`, from `H / N`).
std::optional<int64_t> solve(const Dim& dim, const std::string& symbol, int64_t size) {
  const Dim unknown = Dim::symbol(symbol);
  if (const Dim numerator = dim * unknown; numerator.constant()) {
    const std::optional<Dim> value = Dim::divide(numerator, size);
    return value ? value->constant() : std::nullopt;
  }
  const Dim offset = dim.bind({{symbol, 0}});
  const Dim rest = Dim(size) - offset;
  const std::optional<Dim> value = Dim::divide(rest * unknown, dim - offset);
  return value ? value->constant() : std::nullopt;
}

/// A declared array and what was given for it.
struct Declared {
  std::string kind;
  std::string name;
  size_t leading_axes = 0;  // T and B, or B
  Shape shape;
  const Array* given = nullptr;

  /// Of the declared axes; nothing if the array is not there or has another number of axes.
  std::optional<std::vector<int64_t>> sizes() const {
    if (given == nullptr) return std::nullopt;
    const auto all = sizes_of_rank(given->shape, leading_axes + shape.size());
    if (!all) return std::nullopt;
    const auto own = all->subspan(leading_axes);
    return std::vector<int64_t>(own.begin(), own.end());
  }
  /// Whether the array has these dims, and others of some value.
  bool fits(const DimBindings& dims) const {
    const auto own = sizes();
    return own && fits(*own, dims);
  }
  /// Likewise, with the last two axes exchanged.
  bool fits_transposed(const DimBindings& dims) const {
    auto own = sizes();
    if (!own || own->size() < 2) return false;
    std::swap(own->back(), (*own)[own->size() - 2]);
    return fits(*own, dims);
  }

 private:
  bool fits(const std::vector<int64_t>& own, DimBindings dims) const {
    // The second time with all that the first one found.
    for (size_t i = 0; i < 2 * own.size(); ++i) {
      const size_t axis = i % own.size();
      const Dim dim = shape[axis].bind(dims);
      const std::vector<std::string> symbols = dim.symbols();
      if (symbols.size() > 1) continue;
      if (symbols.empty()) {
        const Result<int64_t> size = dim.evaluate({});
        if (!size || *size != own[axis]) return false;
        continue;
      }
      const std::optional<int64_t> value = solve(dim, symbols[0], own[axis]);
      if (!value || *value < 0) return false;
      dims[symbols[0]] = *value;
    }
    return true;
  }
};

/// Dims, and the array that each was taken from.
struct Inferred {
  DimBindings dims;
  std::map<std::string, const Declared*, std::less<>> origins;
};

/// Finds the dims that the fewest arrays contradict:
///
/// 1. Every array votes for the dims that its sizes decide, given those that are known; the first
///    votes count, or the most, whichever fewer arrays contradict. Again until nothing new is
///    found: `[N, H / N]` gives H only once N is known.
/// 2. While another value that was voted for leaves fewer arrays that do not fit, take it.
/// 3. Those arrays are wrong. The dims are what the others say; only what they leave open follows
///    from a wrong one, unless it is transposed.
class DimInference {
 public:
  DimInference(const Graph& graph, const DimBindings& given, const RunArgs& args)
      : graph_(graph), given_(given), args_(args) {
    for (const InputDecl& input : graph.inputs)
      declare("input", input.name, 2, input.type, args.inputs);
    for (const ParamDecl& param : graph.params)
      declare("param", param.name, 0, param.type, args.params);
    Graph with_implied_states = graph;
    run_delays(with_implied_states);
    for (const StateDecl& state : with_implied_states.states) {
      declare("initial state", state.name, 1, state.type, args.initial_states);
    }
  }

  Result<DimBindings> run();

 private:
  using Arrays = std::set<const Declared*>;
  enum class Counts : uint8_t { first, most };
  /// Values that arrays vote for, in the arrays' order.
  using Votes = std::map<std::string, std::vector<std::pair<int64_t, const Declared*>>>;

  void declare(const char* kind, const std::string& name, size_t leading_axes, const Type& type,
               const std::vector<NamedArray>& given) {
    const auto found = std::ranges::find(given, name, &NamedArray::name);
    declared_.push_back(
        {kind, name, leading_axes, type.shape, found == given.end() ? nullptr : &found->array});
  }
  Votes votes(const DimBindings& known, const Arrays& left_out) const;
  Inferred infer(Inferred known, Counts counts, const Arrays& left_out) const;
  Arrays misfits(const DimBindings& dims) const;
  Inferred infer_best(Arrays& wrong) const;
  void settle();
  Status check_given() const;

  ExpectedArray expect(const Declared& array) const;
  void check(std::string_view kind, std::span<const NamedArray> given, bool all_required);
  std::string origins_of_misshapen() const;

  const Graph& graph_;
  const DimBindings& given_;
  const RunArgs& args_;
  Inferred inferred_;
  std::vector<Declared> declared_;
  std::vector<std::string> name_problems_;
  std::vector<std::string> shape_problems_;
  std::set<std::string> misshapen_symbols_;
};

DimInference::Votes DimInference::votes(const DimBindings& known, const Arrays& left_out) const {
  Votes votes;
  for (const Declared& array : declared_) {
    if (left_out.contains(&array)) continue;
    const auto sizes = array.sizes();
    if (!sizes) continue;
    for (size_t axis = 0; axis < sizes->size(); ++axis) {
      const Dim dim = array.shape[axis].bind(known);
      const std::vector<std::string> symbols = dim.symbols();
      if (symbols.size() != 1) continue;
      const std::optional<int64_t> value = solve(dim, symbols[0], (*sizes)[axis]);
      if (value && *value >= 0) votes[symbols[0]].emplace_back(*value, &array);
    }
  }
  return votes;
}

Inferred DimInference::infer(Inferred known, Counts counts, const Arrays& left_out) const {
  for (;;) {
    const Votes found = votes(known.dims, left_out);
    if (found.empty()) return known;
    for (const auto& [symbol, values] : found) {
      std::map<int64_t, size_t> supporters;
      for (const auto& [value, array] : values) ++supporters[value];
      auto best = values.begin();
      for (auto vote = values.begin(); counts == Counts::most && vote != values.end(); ++vote) {
        if (supporters[vote->first] > supporters[best->first]) best = vote;
      }
      known.dims[symbol] = best->first;
      known.origins[symbol] = best->second;
    }
  }
}

/// The given arrays that these dims, and any values of others, do not fit.
DimInference::Arrays DimInference::misfits(const DimBindings& dims) const {
  Arrays wrong;
  for (const Declared& array : declared_) {
    if (array.given != nullptr && !array.fits(dims)) wrong.insert(&array);
  }
  return wrong;
}

/// Steps 1 and 2; `wrong`: the arrays that do not fit.
Inferred DimInference::infer_best(Arrays& wrong) const {
  const Inferred given{given_, {}};
  Inferred best = infer(given, Counts::first, {});
  wrong = misfits(best.dims);
  const auto improve = [&](Inferred candidate) {
    Arrays candidate_wrong = misfits(candidate.dims);
    if (candidate_wrong.size() >= wrong.size()) return false;
    best = std::move(candidate);
    wrong = std::move(candidate_wrong);
    return true;
  };
  if (wrong.empty()) return best;
  improve(infer(given, Counts::most, {}));
  constexpr int kMostTries = 64;  // each looks at every array
  int tries = 0;
  for (bool better = true; better && !wrong.empty();) {
    better = false;
    const Votes found = votes(given_, {});
    for (const auto& [symbol, values] : found) {
      std::set<int64_t> tried = {best.dims[symbol]};
      for (const auto& [value, array] : values) {
        if (tries == kMostTries || !tried.insert(value).second) continue;
        ++tries;
        Inferred candidate = given;
        candidate.dims[symbol] = value;
        candidate.origins[symbol] = array;
        better |= improve(infer(std::move(candidate), Counts::most, {}));
      }
    }
  }
  return best;
}

/// Step 3.
void DimInference::settle() {
  Arrays wrong;
  inferred_ = infer_best(wrong);
  if (wrong.empty()) return;
  Inferred others = infer({given_, {}}, Counts::first, wrong);
  std::erase_if(wrong, [&](const Declared* array) { return !array->fits_transposed(others.dims); });
  inferred_ = infer(std::move(others), Counts::first, wrong);
}

ExpectedArray DimInference::expect(const Declared& array) const {
  ExpectedArray expected{.name = array.name, .shape = {}, .shape_text = {}};
  expected.shape.resize(array.leading_axes);
  const auto sizes = array.sizes();
  std::string names = array.leading_axes == 2 ? "T, B" : array.leading_axes == 1 ? "B" : "";
  std::string values = names;
  bool symbolic = false;
  for (size_t axis = 0; axis < array.shape.size(); ++axis) {
    const Dim& dim = array.shape[axis];
    const Dim bound = dim.bind(inferred_.dims);
    const Result<int64_t> size = dim.evaluate(inferred_.dims);
    expected.shape.push_back(size ? std::optional(*size) : std::nullopt);
    // A size that no value of the one unknown symbol makes.
    const std::vector<std::string> symbols = bound.symbols();
    if (sizes && symbols.size() == 1 && !solve(bound, symbols[0], (*sizes)[axis])) {
      expected.shape.back() = kNoSize;
    }
    names += (names.empty() ? "" : ", ") + dim.to_string();
    values += (values.empty() ? "" : ", ") + (size ? std::to_string(*size) : dim.to_string());
    symbolic |= !dim.constant();
  }
  expected.shape_text = fmt::format("[{}]", names);
  if (symbolic && values != names) expected.shape_text += fmt::format(" = [{}]", values);
  return expected;
}

void DimInference::check(std::string_view kind, std::span<const NamedArray> given,
                         bool all_required) {
  std::vector<ExpectedArray> expected;
  std::vector<const Declared*> declared;
  for (const Declared& array : declared_) {
    if (array.kind != kind) continue;
    expected.push_back(expect(array));
    declared.push_back(&array);
  }
  const ArrayMatch match =
      match_arrays(kind, graph_.name, expected, given, all_required, Compared::shapes);
  std::ranges::copy(match.name_problems, std::back_inserter(name_problems_));
  std::ranges::copy(match.shape_problems, std::back_inserter(shape_problems_));
  for (const size_t index : match.misshapen) {
    for (const Dim& dim : declared[index]->shape) {
      for (const std::string& symbol : dim.symbols()) misshapen_symbols_.insert(symbol);
    }
  }
}

/// "H = 4 from param `W`, I = 3 as given": the dims behind the shapes that were expected.
std::string DimInference::origins_of_misshapen() const {
  std::string text;
  for (const std::string& symbol : misshapen_symbols_) {
    const auto value = inferred_.dims.find(symbol);
    if (value == inferred_.dims.end()) continue;
    const auto origin = inferred_.origins.find(symbol);
    text += fmt::format(
        "{}{} = {} {}", text.empty() ? "" : ", ", symbol, value->second,
        origin == inferred_.origins.end()
            ? "as given"
            : fmt::format("from {} {}", origin->second->kind, quote(origin->second->name)));
  }
  return text;
}

/// Whether it is a dim's given value that several arrays contradict, and they alone agree.
Status DimInference::check_given() const {
  if (shape_problems_.size() < 2) return {};
  for (const auto& [name, value] : given_) {
    Inferred without{given_, {}};
    without.dims.erase(name);
    without = infer(std::move(without), Counts::first, {});
    const auto found = without.dims.find(name);
    if (found == without.dims.end() || !misfits(without.dims).empty()) continue;
    const Declared& origin = *without.origins.at(name);
    return fail("the dim {} is {} as given, but the arrays have {} = {}, such as {} {}",
                quote(name), value, name, found->second, origin.kind, quote(origin.name));
  }
  return {};
}

Result<DimBindings> DimInference::run() {
  settle();
  check("input", args_.inputs, true);
  check("param", args_.params, !args_.params.empty());
  check("initial state", args_.initial_states, false);

  const bool complete = std::ranges::all_of(graph_.dims, [&](const DimDecl& dim) {
    return dim.default_value || inferred_.dims.contains(dim.name);
  });
  // Names alone are no problem here: whoever runs the arrays checks them.
  if (shape_problems_.empty() && (complete || name_problems_.empty())) return inferred_.dims;
  if (Status status = check_given(); !status) return tl::unexpected(status.error());
  std::vector<std::string> problems = name_problems_;
  std::ranges::copy(shape_problems_, std::back_inserter(problems));
  std::string message = list_problems(graph_.name, problems);
  if (const std::string origins = origins_of_misshapen(); !origins.empty()) {
    message += fmt::format("\n  where {}", origins);
  }
  return tl::unexpected(Error{std::move(message)});
}

}  // namespace

Result<DimBindings> infer_dims(const Graph& graph, const DimBindings& given, const RunArgs& args) {
  return DimInference(graph, given, args).run();
}

}  // namespace rnnc
