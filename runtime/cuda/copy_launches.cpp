// Copies of weights, several in one launch.
#include <algorithm>

#include "runtime/cuda/launcher.h"

namespace rnnc::cuda {

size_t Launcher::copies_from(LaunchId id) const {
  const std::vector<Launch>& launches = plan_.stages[id.stage].launches;
  const auto copy_at = [&](size_t index) -> const CopyLaunch* {
    const auto* copy =
        index < launches.size() ? std::get_if<CopyLaunch>(&launches[index]) : nullptr;
    return copy == nullptr || copy->transposed ? nullptr : copy;
  };
  // Where the program has copied an array of its own, the next copy may write.
  const auto is_of_caller = [&](size_t index) {
    const CopyLaunch* copy = copy_at(index);
    return copy != nullptr && plan_.buffers[copy->source.buffer].placement == Placement::Caller;
  };
  size_t count = 0;
  while (count < kCudaCopiesPerLaunch && is_of_caller(id.index + count)) ++count;
  return count == 0 && copy_at(id.index) != nullptr ? 1 : count;
}

Status Launcher::copy(LaunchId first, size_t count, LaunchQueue& queue) {
  CudaCopies copies;
  for (size_t i = 0; i < count; ++i) {
    const auto& launch = std::get<CopyLaunch>(launch_of({first.stage, first.index + i}));
    const auto element = static_cast<int64_t>(size_of(plan_.buffers[launch.target.buffer].dtype));
    const int64_t bytes = launch.rows * launch.columns * element;
    CudaCopy& copy = copies.copy[i];
    copy = {.source = addresses_.pointer(launch.source, {}),
            .target = addresses_.pointer(launch.target, {}),
            .bytes = bytes};
    if (launch.by_rows()) {
      copy.rows = launch.rows;
      copy.bytes = launch.columns * element;
      copy.source_pitch = launch.source.stride * element;
      copy.target_pitch = launch.target.stride * element;
    }
  }
  return start_copies(kernel_of(first), copies, count, queue, "packing weights");
}

}  // namespace rnnc::cuda
