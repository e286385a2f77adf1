#include <algorithm>
#include <map>
#include <set>

#include "passes/delays.h"
#include "runtime/describe.h"
#include "runtime/match_arrays.h"
#include "runtime/run.h"

namespace rnnc {
namespace {

constexpr int64_t kNoSize = -1;  // which no array's axis has

/// A declared array and what was given for it.
struct Declared {
  std::string kind;
  std::string name;
  size_t leading_axes = 0;  // T and B, or B
  Shape shape;
  const Array* given = nullptr;
};

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

/// Collects dims from arrays, and remembers where each comes from.
class DimInference {
 public:
  DimInference(const Graph& graph, const DimBindings& given, const RunArgs& args)
      : graph_(graph), args_(args), bindings_(given) {
    for (const auto& [name, value] : given) origins_[name] = "as given";
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
  void declare(const char* kind, const std::string& name, size_t leading_axes, const Type& type,
               const std::vector<NamedArray>& given) {
    const auto found = std::ranges::find(given, name, &NamedArray::name);
    declared_.push_back(
        {kind, name, leading_axes, type.shape, found == given.end() ? nullptr : &found->array});
  }
  bool infer_from(const Declared& array);
  ExpectedArray expect(const Declared& array) const;
  void check(std::string_view kind, std::span<const NamedArray> given, bool all_required);
  std::string origins_of_misshapen() const;

  const Graph& graph_;
  const RunArgs& args_;
  DimBindings bindings_;
  std::map<std::string, std::string, std::less<>> origins_;
  std::vector<Declared> declared_;
  std::vector<std::string> name_problems_;
  std::vector<std::string> shape_problems_;
  std::set<std::string> misshapen_symbols_;
};

/// Binds the dims that this array decides; true if there was one.
bool DimInference::infer_from(const Declared& array) {
  if (array.given == nullptr) return false;
  const std::vector<int64_t>& sizes = array.given->shape;
  if (sizes.size() != array.leading_axes + array.shape.size()) return false;
  bool found = false;
  for (size_t axis = 0; axis < array.shape.size(); ++axis) {
    const Dim dim = array.shape[axis].bind(bindings_);
    const std::vector<std::string> symbols = dim.symbols();
    if (symbols.size() != 1) continue;
    const std::optional<int64_t> value = solve(dim, symbols[0], sizes[array.leading_axes + axis]);
    if (!value || *value < 0) continue;
    bindings_[symbols[0]] = *value;
    origins_[symbols[0]] = fmt::format("from {} {}", array.kind, quote(array.name));
    found = true;
  }
  return found;
}

ExpectedArray DimInference::expect(const Declared& array) const {
  ExpectedArray expected{.name = array.name, .shape = {}, .shape_text = {}};
  expected.shape.resize(array.leading_axes);
  std::string names = array.leading_axes == 2 ? "T, B" : array.leading_axes == 1 ? "B" : "";
  std::string values = names;
  bool symbolic = false;
  for (const Dim& dim : array.shape) {
    const Result<int64_t> size = dim.evaluate(bindings_);
    expected.shape.push_back(size ? std::optional(*size) : std::nullopt);
    const Dim bound = dim.bind(bindings_);
    // One unknown symbol that the array did not decide: no value of it makes this size.
    if (array.given != nullptr && bound.symbols().size() == 1) expected.shape.back() = kNoSize;
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
  const ArrayMatch match = match_arrays(kind, graph_.name, expected, given, all_required);
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
    const auto origin = origins_.find(symbol);
    if (origin == origins_.end()) continue;
    text += fmt::format("{}{} = {} {}", text.empty() ? "" : ", ", symbol,
                        bindings_.find(symbol)->second, origin->second);
  }
  return text;
}

Result<DimBindings> DimInference::run() {
  // Again until nothing new is found: `[N, H / N]` gives H only once N is known.
  for (bool found = true; found;) {
    found = false;
    for (const Declared& array : declared_) found |= infer_from(array);
  }
  check("input", args_.inputs, true);
  check("param", args_.params, !args_.params.empty());
  check("initial state", args_.initial_states, false);

  const bool complete = std::ranges::all_of(graph_.dims, [&](const DimDecl& dim) {
    return dim.default_value || bindings_.contains(dim.name);
  });
  // Names alone are no problem here: whoever runs the arrays checks them.
  if (shape_problems_.empty() && (complete || name_problems_.empty())) return bindings_;
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
