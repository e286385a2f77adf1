// Kernels over rows.
#include "ir/plan/kernel_facts.h"
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/define_launch_kind.h"
#include "ir/plan/launches/kernel_calls.h"
#include "ir/plan/launches/kernel_launches.h"

namespace rnnc {
namespace {

/// Most kernels read a few arrays; of those that read many some will do.
std::string first_names(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  if (names.size() <= kMost + 1) return join_names(names);
  return fmt::format("{} and {} more", join_names({names.begin(), names.begin() + kMost}),
                     names.size() - kMost);
}

}  // namespace

std::string text_of(const Plan& plan, const ElementwiseLaunch& launch) {
  return call_text(plan, launch.kernel, launch.accesses) + rows_text(launch.once_rows);
}

void parse(PlanScanner& in, ElementwiseLaunch& launch) {
  parse_call(in, launch.kernel, launch.accesses);
  parse_rows(in, launch.once_rows);
}

void add_touches(const Plan& plan, const ElementwiseLaunch& launch, std::vector<Touch>& result) {
  add_arguments(plan, launch.kernel, launch.accesses, result);
}

Status verify(LaunchVerifier& in, const ElementwiseLaunch& launch) {
  if (Status status = in.check_call(launch.kernel, launch.accesses); !status) return status;
  for (const Kernel::Argument& argument : in.plan().kernels[launch.kernel].arguments) {
    if (argument.product) return fail("a product's result is taken from memory");
  }
  return in.check_touches(in.arguments(launch.kernel, launch.accesses), launch.once_rows);
}

LaunchWork work_of(const Plan& plan, const ElementwiseLaunch& launch, int64_t rows) {
  return {.elementwise = static_cast<double>(rows) * flops_of(plan.kernels[launch.kernel])};
}

LaunchWords describe(const LaunchNames& in, const ElementwiseLaunch& launch) {
  LaunchWords words;
  words.kind = "elementwise";
  words.looks = LaunchWords::Looks::Elementwise;
  const Kernel& kernel = in.plan().kernels[launch.kernel];
  words.strategy =
      has_reductions(kernel) ? "a kernel of rows, with reductions" : "elementwise kernel";
  add_kernel(kernel, words);
  words.what = join_names(in.arguments(launch.kernel, launch.accesses, true));
  const std::vector<std::string> read = in.arguments(launch.kernel, launch.accesses, false);
  if (!read.empty()) words.what += " from " + first_names(read);
  if (words.operations.empty()) words.strategy = "elementwise kernel that moves values";
  words.summary = fmt::format("kernel of {}", plural(operation_count(words), "operation"));
  return words;
}

/// Rows of a weight that a kernel moves as they are, farther apart.
std::vector<WeightPart> weight_parts(const LaunchNames& in, const ElementwiseLaunch& launch) {
  const Kernel& kernel = in.plan().kernels[launch.kernel];
  if (kernel.body.size() != 2 || kernel.body[0].kind != Instruction::Kind::Load) return {};
  const auto span = [&](const Access& access) {
    return (launch.once_rows - 1) * access.stride + kernel.length;
  };
  const Access& source = launch.accesses[kernel.body[0].argument];
  const Access& target = launch.accesses[kernel.body[1].argument];
  return {{.buffer = target.buffer,
           .begin = target.column,
           .end = target.column + span(target),
           .names = {join_names(in.weights_in(source, span(source)))}}};
}

template struct LaunchKind<ElementwiseLaunch>;

}  // namespace rnnc
