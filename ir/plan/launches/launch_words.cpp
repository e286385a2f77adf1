#include "ir/plan/launches/launch_words.h"

#include <algorithm>

#include "ir/plan/kernel_facts.h"

namespace rnnc {

std::vector<std::string> LaunchNames::arguments(uint32_t kernel,
                                                const std::vector<Access>& accesses,
                                                bool written) const {
  const Kernel& called = plan_.kernels[kernel];
  std::vector<std::string> names;
  for (size_t i = 0; i < accesses.size(); ++i) {
    const Kernel::Argument& argument = called.arguments[i];
    if (argument.product || argument.written != written) continue;
    add_once(names, value(accesses[i], called.elements(argument)));
  }
  return names;
}

std::string LaunchNames::array(BufferId id) const {
  return join_names(weights_in({.buffer = id}, plan_.buffers[id].width));
}

std::string LaunchNames::rows(int64_t once_rows) const {
  switch (stage_.domain) {
    case Domain::Once:
    case Domain::Last:
      return plural(once_rows, "row");
    case Domain::Sequence:
      return plural(plan_.chunk * plan_.batch, "row");
    case Domain::Step:
      break;
  }
  return plural(plan_.batch, "row");
}

void add_kernel(const Kernel& kernel, LaunchWords& words) {
  const std::vector<int64_t> runs = runs_of(kernel);
  for (size_t i = 0; i < kernel.body.size(); ++i) {
    const Instruction& instruction = kernel.body[i];
    if (instruction.kind != Instruction::Kind::Scalar &&
        instruction.kind != Instruction::Kind::Reduce) {
      continue;
    }
    add_operation(std::string(info(instruction.op).name), static_cast<int>(runs[i]), words);
  }
  for (const Kernel::Loop& loop : kernel.loops) {
    words.notes.push_back({"kept", fmt::format("a loop over {} elements of arrays", loop.count)});
  }
  const int count = operation_count(words);
  if (count < 2) return;
  words.notes.push_back({"fused", fmt::format("{} operations in one kernel", count)});
}

void add_operation(const std::string& name, int times, LaunchWords& words) {
  using Operation = std::pair<std::string, int>;
  const auto found = std::ranges::find(words.operations, name, &Operation::first);
  if (found == words.operations.end()) {
    words.operations.emplace_back(name, times);
  } else {
    found->second += times;
  }
}

int operation_count(const LaunchWords& words) {
  int count = 0;
  for (const auto& [name, times] : words.operations) count += times;
  return count;
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

std::string plural(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string join_names(const std::vector<std::string>& names) {
  if (names.size() < 2) return names.empty() ? "" : names.front();
  size_t common = names.front().rfind('.') + 1;  // 0 where there is no dot
  while (common > 0 && !std::ranges::all_of(names, [&](const std::string& name) {
           return name.starts_with(names.front().substr(0, common));
         })) {
    common = common < 2 ? 0 : names.front().rfind('.', common - 2) + 1;
  }
  const bool numbers = std::ranges::any_of(names, [&](const std::string& name) {
    return common < name.size() && name[common] >= '0' && name[common] <= '9';
  });
  if (common == 0 || numbers) return fmt::format("{}", fmt::join(names, ", "));
  std::vector<std::string> rest;
  for (const std::string& name : names) rest.push_back(name.substr(common));
  return fmt::format("{}{{{}}}", names.front().substr(0, common), fmt::join(rest, ", "));
}

}  // namespace rnnc
