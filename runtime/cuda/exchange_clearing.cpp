#include "runtime/cuda/exchange_clearing.h"

#include <utility>

namespace rnnc::cuda {
namespace {

/// Less takes no longer than the events that order it.
constexpr int64_t kLeastBytesBeside = int64_t{4} << 20;

}  // namespace

Status ExchangeClearing::prepare() {
  Result<OwnStream> stream = OwnStream::create();
  if (!stream) return tl::unexpected(stream.error());
  Result<Fence> fence = Fence::create();
  if (!fence) return tl::unexpected(fence.error());
  own_.emplace(Own{std::move(*stream), std::move(*fence)});
  return {};
}

Status ExchangeClearing::beside(std::span<const size_t> stages, const CudaWave& wave,
                                cudaStream_t stream) {
  bool is_ordered = false;
  for (const size_t stage : stages) {
    const int64_t bytes = launcher_.exchange_bytes(stage, wave.count(plan_.stages[stage].lag));
    if (bytes < kLeastBytesBeside || is_cleared_[stage]) continue;
    const Status ordered = is_ordered ? Status() : own_->fence.order(stream, own_->stream.get());
    is_ordered = true;
    const Status cleared = ordered.and_then([&] { return clear(stage, wave, own_->stream.get()); });
    if (!cleared) return cleared;
    is_cleared_[stage] = true;
  }
  return {};
}

Status ExchangeClearing::finish(size_t stage, const CudaWave& wave, cudaStream_t stream) {
  if (!is_cleared_[stage]) return clear(stage, wave, stream);
  is_cleared_[stage] = false;
  return own_->fence.order(own_->stream.get(), stream);
}

Status ExchangeClearing::clear(size_t index, const CudaWave& wave, cudaStream_t stream) const {
  const Stage& stage = plan_.stages[index];
  for (const Launch& launch : stage.launches) {
    Status status =
        launcher_.clear_exchange(launch, wave.count(stage.lag), wave.position(stage.lag), stream);
    if (!status) return status;
  }
  return {};
}

}  // namespace rnnc::cuda
