#include "ir/plan/launches/launch_verifier.h"

namespace rnnc {

Status LaunchVerifier::check_call(uint32_t kernel, const std::vector<Access>& accesses) const {
  if (kernel >= plan_.kernels.size()) return fail("there is no kernel {}", kernel);
  const size_t count = plan_.kernels[kernel].arguments.size();
  if (count == accesses.size()) return {};
  return fail("{} arguments, {} accesses", count, accesses.size());
}

std::vector<TypedTouch> LaunchVerifier::arguments(uint32_t id,
                                                  const std::vector<Access>& accesses) const {
  const Kernel& kernel = plan_.kernels[id];
  std::vector<TypedTouch> result;
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    const Kernel::Argument& argument = kernel.arguments[i];
    if (argument.product) continue;
    result.push_back({accesses[i], kernel.elements(argument), argument.dtype, argument.written});
  }
  return result;
}

Status LaunchVerifier::check_weight(const Access& weight, int64_t count) {
  if (Status status = check_touches({{weight, count, plan_.dtype, false}}, 1); !status) {
    return status;
  }
  if (plan_.buffers[weight.buffer].extent == Extent::Invariant) return {};
  return fail("the weight varies over time");
}

Status LaunchVerifier::check_move(TypedTouch source, TypedTouch target, int64_t once_rows) {
  if (source.access.buffer >= plan_.buffers.size()) {
    return fail("there is no buffer {}", source.access.buffer);
  }
  source.dtype = target.dtype = plan_.buffers[source.access.buffer].dtype;
  return check_touches({source, target}, once_rows);
}

bool is_whole_chunk(const Plan& plan, const Access& access) {
  if (access.buffer >= plan.buffers.size()) return false;
  const Buffer& buffer = plan.buffers[access.buffer];
  return buffer.extent == Extent::Chunk && buffer.history == 0 && access.delay == 0 &&
         access.column == 0 && access.stride == buffer.width;
}

}  // namespace rnnc
