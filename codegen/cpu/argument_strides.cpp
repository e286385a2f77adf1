#include "codegen/cpu/argument_strides.h"

namespace rnnc {
namespace {

class Finder {
 public:
  explicit Finder(const Plan& plan) : launched_(plan.kernels.size()) {
    for (const Kernel& kernel : plan.kernels) strides.emplace_back(kernel.arguments.size());
    for (const Stage& stage : plan.stages) {
      for (const Launch& launch : stage.launches) {
        std::visit([&](const auto& l) { add(l); }, launch);
      }
    }
    for (const StatePlan& state : plan.states) {
      for (const auto launch : kStateLaunches) add(state.*launch);
    }
  }

  std::vector<ArgumentStrides> strides;

 private:
  template <typename L>
  void add(const L& launch) {
    if constexpr (requires { launch.kernel; }) {
      if (launch.accesses.empty()) return;  // there is no such launch
      for (size_t i = 0; i < launch.accesses.size(); ++i) {
        const Access& access = launch.accesses[i];
        std::optional<int64_t>& stride = strides[launch.kernel][i];
        if (access.buffer == kNoBuffer) continue;
        if (!launched_[launch.kernel]) {
          stride = access.stride;
        } else if (stride != access.stride) {
          stride.reset();
        }
      }
      launched_[launch.kernel] = true;
    }
  }

  std::vector<bool> launched_;  // per kernel: by an earlier launch
};

}  // namespace

std::vector<ArgumentStrides> argument_strides(const Plan& plan) {
  return Finder(plan).strides;
}

}  // namespace rnnc
