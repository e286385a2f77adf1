// Kernels over rows.
#include "ir/plan/launches/access_text.h"
#include "ir/plan/launches/kernel_calls.h"
#include "ir/plan/launches/launches.h"

namespace rnnc {

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

}  // namespace rnnc
