#include "runtime/program/match_run.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/describe.h"
#include "runtime/program/check_args.h"

namespace rnnc {
namespace {

/// T and B, which the first input of the right rank gives.
void find_steps_and_batch(const Signature& signature, const RunArgs& args,
                          std::optional<int64_t>& steps, std::optional<int64_t>& batch) {
  for (const ArrayInfo& input : signature.inputs) {
    const auto found = std::ranges::find(args.inputs, input.name, &NamedArray::name);
    if (found == args.inputs.end()) continue;
    const auto sizes = sizes_of_rank(found->array.shape, input.shape.size() + 2);
    if (!sizes) continue;
    steps = (*sizes)[0];
    batch = (*sizes)[1];
    return;
  }
}

void check_lengths(const std::vector<int64_t>& lengths, int64_t steps, int64_t batch,
                   std::vector<std::string>& problems) {
  if (std::ssize(lengths) != batch) {
    problems.push_back(fmt::format("lengths are [{}], expected [B] = [{}]", lengths.size(), batch));
    return;
  }
  const auto wrong = std::ranges::find_if(
      lengths, [steps](int64_t length) { return length < 0 || length > steps; });
  if (wrong == lengths.end()) return;
  problems.push_back(fmt::format("lengths[{}] is {}, expected 0 to T = {}", wrong - lengths.begin(),
                                 *wrong, steps));
}

void check_reset(const Array& reset, int64_t steps, int64_t batch,
                 std::vector<std::string>& problems) {
  if (reset.shape != std::vector<int64_t>{steps, batch}) {
    problems.push_back(fmt::format("reset is {}, expected [T, B] = [{}, {}]",
                                   shape_text(reset.shape), steps, batch));
    return;
  }
  if (const Status whole = reset.check(); !whole) {
    problems.push_back("reset " + whole.error().message);
    return;
  }
  const std::vector<double> values = reset.to_doubles();
  const auto wrong = std::ranges::find_if(values, [](double value) { return std::isnan(value); });
  if (wrong == values.end()) return;
  const int64_t at = wrong - values.begin();
  problems.push_back(
      fmt::format("reset[{}, {}] is not a number, expected true or false", at / batch, at % batch));
}

/// Of inputs that fit otherwise: whole numbers, and rows that there are, at the steps that the
/// sequences have; and numbers of no other kind where reals are taken.
void check_integers(const Signature& signature, const std::vector<const Array*>& inputs,
                    const std::optional<std::vector<int64_t>>& lengths,
                    std::vector<std::string>& problems) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArrayInfo& input = signature.inputs[i];
    if (inputs[i] == nullptr || input.dtype != DType::i32) continue;
    const std::vector<double> values = inputs[i]->to_doubles();
    const int64_t batch = inputs[i]->shape[1];
    for (int64_t row = 0; row < std::ssize(values); ++row) {
      const auto b = static_cast<size_t>(row % batch);
      if (lengths && b < lengths->size() && row / batch >= (*lengths)[b]) continue;
      const std::string problem = integer_problem(input, values[static_cast<size_t>(row)]);
      if (problem.empty()) continue;
      problems.push_back(
          fmt::format("input {}[{}, {}] is {}", input.name, row / batch, b, problem));
      break;
    }
  }
}

/// Whether the program may begin or end amid a sequence, if it is asked to.
Status check_streaming(const Signature& signature, const RunArgs& args) {
  if (args.piece < 0) return fail("piece must be 0 or more steps, got {}", args.piece);
  if (signature.streams) return {};
  const auto refuse = [&signature](const std::string& request) {
    return fail("{}, but {}", request, why_not_in_pieces(signature));
  };
  if (args.piece > 0) return refuse(fmt::format("pieces of {} steps are asked for", args.piece));
  // Names of implied states, and only they, have this sign.
  const auto carried = std::ranges::find_if(args.initial_states, [](const NamedArray& state) {
    return state.name.find('@') != std::string::npos;
  });
  if (carried == args.initial_states.end()) return {};
  return refuse(fmt::format("initial state {} carries a sequence on", quote(carried->name)));
}

}  // namespace

std::vector<ExpectedArray> expect(const std::vector<ArrayInfo>& arrays,
                                  std::vector<std::optional<int64_t>> leading) {
  std::vector<ExpectedArray> expected;
  for (const ArrayInfo& array : arrays) {
    ExpectedArray entry{.name = array.name, .shape = leading, .shape_text = {}};
    std::vector<std::string> sizes;
    for (size_t axis = 0; axis < leading.size(); ++axis) {
      const char* letter = leading.size() - axis == 2 ? "T" : "B";
      const std::optional<int64_t>& size = leading[axis];
      sizes.push_back(size ? std::to_string(*size) : letter);
    }
    for (const int64_t size : array.shape) {
      entry.shape.push_back(size);
      sizes.push_back(std::to_string(size));
    }
    entry.shape_text = fmt::format("[{}]", fmt::join(sizes, ", "));
    expected.push_back(std::move(entry));
  }
  return expected;
}

void append(std::vector<std::string>& problems, const ArrayMatch& match) {
  problems.insert(problems.end(), match.name_problems.begin(), match.name_problems.end());
  problems.insert(problems.end(), match.shape_problems.begin(), match.shape_problems.end());
}

Result<Matched> match_run(const Signature& signature, const RunArgs& args, bool with_params) {
  if (signature.inputs.empty()) {
    return fail("{} has no inputs, so that no array says how many steps to run",
                quote(signature.name));
  }
  if (Status status = check_streaming(signature, args); !status) {
    return tl::unexpected(status.error());
  }
  std::optional<int64_t> steps;
  std::optional<int64_t> batch;
  find_steps_and_batch(signature, args, steps, batch);
  const std::string_view owner = signature.name;
  ArrayMatch inputs =
      match_arrays("input", owner, expect(signature.inputs, {steps, batch}), args.inputs, true);
  ArrayMatch states = match_arrays("initial state", owner, expect(signature.states, {batch}),
                                   args.initial_states, false);
  ArrayMatch params =
      match_arrays("param", owner, expect(signature.params, {}), args.params, with_params);
  std::vector<std::string> problems;
  append(problems, inputs);
  append(problems, params);
  append(problems, states);
  if (steps == 0) problems.push_back("the inputs have no steps (T = 0); at least 1 is needed");
  if (batch == 0) problems.push_back("the inputs have no sequences (B = 0); at least 1 is needed");
  check_integers(signature, inputs.arrays, args.lengths, problems);
  if (args.lengths && steps) check_lengths(*args.lengths, *steps, *batch, problems);
  if (args.reset && steps) check_reset(*args.reset, *steps, *batch, problems);
  if (!problems.empty()) {
    return tl::unexpected(Error{list_problems(signature.name, problems)});
  }
  RNNC_CHECK(steps && batch, "inputs of a wrong shape pass");
  const RunShape shape = {
      .steps = *steps,
      .batch = *batch,
      .piece = args.piece == 0 ? *steps : std::min(args.piece, *steps),
      .features = {.lengths = args.lengths.has_value(), .resets = args.reset.has_value()}};
  return Matched{shape, std::move(inputs.arrays), std::move(params.arrays),
                 std::move(states.arrays)};
}

}  // namespace rnnc
