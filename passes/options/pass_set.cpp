#include "passes/options/pass_set.h"

#include <algorithm>
#include <vector>

namespace rnnc {
namespace {

constexpr PassInfo kPasses[kPassCount] = {
    {Pass::Simplify, "simplify", "undo views, joins, moves and arithmetic that come to nothing"},
    {Pass::Fold, "fold", "evaluate what is computed from constants alone"},
    {Pass::Cse, "cse", "compute equal values once"},
    {Pass::DeadCode, "dead-code", "compute nothing that is not needed"},
    {Pass::Hoist, "hoist", "run what waits for no recurrence over all steps of a chunk at once"},
    {Pass::Merge, "merge", "run products that share an operand, and blocks, as one"},
    {Pass::Sum, "sum", "add products up as they are computed"},
    {Pass::Fuse, "fuse", "run elementwise work and reductions in few kernels"},
    {Pass::Epilogue, "epilogue", "run elementwise work in the launch of the products before it"},
    {Pass::Loop, "loop", "run a recurrence without products in one launch per chunk"},
    {Pass::Resident, "resident", "keep a recurrence's weights on the GPU's chip, in one launch"},
    {Pass::Stack, "stack", "run layers' resident recurrences in one launch, each on a share of it"},
    {Pass::Split, "split", "multiply f32 in parts on its tensor cores, just as exactly"},
    {Pass::Pad, "pad", "begin rows of products' operands where a GPU loads them fast"},
    {Pass::Wavefront, "wavefront", "run recurrences of a network side by side, chunks apart"},
    {Pass::Reroll, "reroll", "keep loops over arrays of states, params and inputs as loops"},
    {Pass::Reuse, "reuse", "share memory between values that are never needed together"},
};

/// In backquotes, safe on a terminal.
std::string quote(std::string_view word) {
  std::string text(word);
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return fmt::format("`{}`", text);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',')) {
    words.push_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  words.push_back(text);
  return words;
}

Result<Pass> find_pass(std::string_view name) {
  const auto* found = std::ranges::find(kPasses, name, &PassInfo::name);
  if (found != std::end(kPasses)) return found->pass;
  const bool whole = name == "all" || name == "none";
  if (whole) return fail("{} stands alone", quote(name));
  std::string names;
  for (const PassInfo& info : kPasses) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", info.name);
  }
  return fail("no pass is called {}: there are {}, and `all` and `none` of them", quote(name),
              names);
}

}  // namespace

std::span<const PassInfo> all_passes() {
  return kPasses;
}

Result<PassSet> PassSet::parse(std::string_view text) {
  if (text == "all") return all();
  if (text == "none") return none();
  const std::vector<std::string_view> words = split(text);
  const bool leaves_out = words.front().starts_with('-');
  PassSet set = leaves_out ? all() : none();
  for (std::string_view word : words) {
    if (word.starts_with('-') != leaves_out) {
      return fail(
          "{} and {} do not go together: give the passes there shall be, or with `-` before "
          "each those there shall not be",
          quote(words.front()), quote(word));
    }
    const Result<Pass> pass = find_pass(word.substr(leaves_out ? 1 : 0));
    if (!pass) return tl::unexpected(pass.error());
    set = leaves_out ? set.without(*pass) : set.with(*pass);
  }
  return set;
}

std::string PassSet::to_string() const {
  if (*this == all()) return "all";
  if (*this == none()) return "none";
  std::string text;
  for (const PassInfo& info : kPasses) {
    if (has(info.pass)) text += fmt::format("{}{}", text.empty() ? "" : ",", info.name);
  }
  return text;
}

}  // namespace rnnc
