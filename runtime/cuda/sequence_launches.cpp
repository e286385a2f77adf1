// The launches whose kernels are in sequence.cuh.
#include "runtime/cuda/sequence_launches.h"

#include <algorithm>
#include <span>

#include "ir/base/arithmetic.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/start_kernel.h"

namespace rnnc::cuda {
namespace {

class SequenceLaunch {
 public:
  explicit SequenceLaunch(const SequenceRun& at) : at_(at) {}

  /// Of kinds that are not run one by one:
  template <typename L>
  Status run(const L&) {
    RNNC_CHECK(false, "a launch in a stage where its kind is not");
  }

  /// One that transposes.
  Status run(const CopyLaunch& launch) {
    const char* source = at_.addresses.pointer(launch.source, {});
    char* target = at_.addresses.pointer(launch.target, {});
    int64_t rows = launch.rows;
    int64_t columns = launch.columns;
    void* parameters[] = {&source, &target, &rows, &columns};
    const auto tiles = [](int64_t size) { return ceil_div(size, kCudaTransposeTile); };
    const LaunchShape shape{dim3(static_cast<unsigned>(tiles(rows) * tiles(columns))),
                            dim3(kCudaTransposeTile, kCudaTransposeThreads)};
    return start(at_.kernel, shape, parameters, at_.queue, "transposing weights");
  }

  Status run(const ReverseLaunch& launch) {
    int64_t rows = at_.rows;
    constexpr int64_t kMostBlocks = 4096;
    // The whole sequence, whose end is read first.
    const char* source = at_.addresses.start(launch.source);
    char* target = at_.addresses.pointer(launch.target, at_.first);
    int64_t first = step_at(at_.plan, at_.call.steps, at_.first);
    auto batch = static_cast<unsigned>(at_.plan.batch);
    int64_t width = launch.width;
    int64_t source_stride = launch.source.stride;
    int64_t target_stride = launch.target.stride;
    void* parameters[] = {&source, &target, &at_.call.lengths, &at_.call.steps, &first, &batch,
                          &rows,   &width,  &source_stride,    &target_stride};
    const LaunchShape shape{dim3(blocks_for(rows * width, kMostBlocks)), dim3(kThreads)};
    return start(at_.kernel, shape, parameters, at_.queue, "reversing a sequence");
  }

  Status run(const EarlierLaunch& launch) {
    const auto element =
        static_cast<int64_t>(size_of(at_.plan.buffers[launch.target.buffer].dtype));
    const int64_t width = launch.width * element;
    const int64_t source_pitch = launch.source.stride * element;
    const int64_t target_pitch = launch.target.stride * element;
    const int64_t first = (step_at(at_.plan, at_.call.steps, at_.first) - 1) * at_.plan.batch;
    const int64_t zeros = std::clamp<int64_t>(-first, 0, at_.rows);  // the sequence's first step
    CudaCopies copies;
    size_t count = 0;
    const auto copy = [&](const char* source, int64_t row, int64_t rows) {
      if (rows == 0) return;
      CudaCopy& added = copies.copy[count++];
      added = {.source = source,
               .target = at_.addresses.pointer(launch.target, at_.first) + row * target_pitch,
               .rows = rows,
               .bytes = width,
               .source_pitch = source_pitch,
               .target_pitch = target_pitch};
      if (source_pitch != width || target_pitch != width) return;
      added.bytes *= rows;  // one piece of memory
      added.rows = 1;
    };
    copy(nullptr, 0, zeros);
    copy(at_.addresses.start(launch.source) + (first + zeros) * source_pitch, zeros,
         at_.rows - zeros);
    return start_copies(at_.kernel, copies, count, at_.queue, "reading a sequence a step late");
  }

  Status run(const RowsLaunch& launch) {
    int64_t rows = at_.rows;
    constexpr int64_t kMostBlocks = 4096;
    const char* table = at_.addresses.start(launch.table);
    const char* index = at_.addresses.pointer(launch.index, at_.first);
    char* target = at_.addresses.pointer(launch.target, at_.first);
    int64_t count = launch.count;
    int64_t width = launch.width;
    int64_t index_stride = launch.index.stride;
    int64_t target_stride = launch.target.stride;
    void* parameters[] = {&table, &index, &target,       &rows,
                          &count, &width, &index_stride, &target_stride};
    const int64_t blocks = std::min(ceil_div(rows, kCudaRowsThreads / 32), kMostBlocks);
    const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), dim3(kCudaRowsThreads)};
    return start(at_.kernel, shape, parameters, at_.queue, "taking rows of a table");
  }

  Status run(const RowTotalLaunch& launch) {
    int64_t rows = at_.rows;
    constexpr int64_t kMostBlocks = 1024;  // each goes over all rows' integers
    const char* index = at_.addresses.pointer(launch.index, at_.first);
    const char* value = at_.addresses.pointer(launch.value, at_.first);
    char* out = at_.addresses.pointer(launch.out, {});
    int64_t count = launch.count;
    int64_t width = launch.width;
    int64_t index_stride = launch.index.stride;
    int64_t value_stride = launch.value.stride;
    void* parameters[] = {&index, &value, &out,          &rows,
                          &count, &width, &index_stride, &value_stride};
    const int64_t of_table = std::min(count, kMostBlocks);
    const int64_t of_row =
        std::min(ceil_div(width, kCudaRowsThreads), ceil_div(kMostBlocks, of_table));
    const LaunchShape shape{dim3(static_cast<unsigned>(of_table), static_cast<unsigned>(of_row)),
                            dim3(kCudaRowsThreads)};
    return start(at_.kernel, shape, parameters, at_.queue, "adding to rows of a table");
  }

  Status run(const RealLaunch& launch) {
    int64_t rows = at_.rows;
    const char* source = at_.addresses.pointer(launch.source, at_.first);
    char* target = at_.addresses.pointer(launch.target, at_.first);
    int64_t source_stride = launch.source.stride;
    int64_t target_stride = launch.target.stride;
    void* parameters[] = {&source, &target, &rows, &source_stride, &target_stride};
    const LaunchShape shape{dim3(blocks_for(rows, INT32_MAX)), dim3(kThreads)};
    return start(at_.kernel, shape, parameters, at_.queue, "making numbers of integers");
  }

  Status run(const MaskLaunch& launch) {
    int64_t rows = at_.rows;
    char* target = at_.addresses.pointer(launch.target, at_.first);
    auto kind = static_cast<int>(launch.kind);  // the kernel counts them in the same order
    int64_t first = at_.call.first_step + step_at(at_.plan, at_.call.steps, at_.first);
    int64_t steps = at_.call.first_step + at_.call.steps;
    auto batch = static_cast<unsigned>(at_.plan.batch);
    if (launch.back > 0) {
      int reversed = launch.kind == MaskLaunch::Kind::ResetReverse ? 1 : 0;
      int64_t back = launch.back;
      int64_t span = kCudaResetSpan;
      void* parameters[] = {
          &target, &reversed, &at_.call.lengths, &at_.call.reset, &steps, &first, &batch, &rows,
          &back,   &span};
      const int64_t threads = ceil_div(rows / at_.plan.batch, span) * at_.plan.batch;
      const LaunchShape shape{dim3(blocks_for(threads, INT32_MAX)), dim3(kThreads)};
      return start(at_.kernel, shape, parameters, at_.queue, "filling a mask");
    }
    void* parameters[] = {&target, &kind, &at_.call.lengths, &at_.call.reset, &steps, &first,
                          &batch,  &rows};
    const LaunchShape shape{dim3(blocks_for(rows, INT32_MAX)), dim3(kThreads)};
    return start(at_.kernel, shape, parameters, at_.queue, "filling a mask");
  }

  Status run(const SplitLaunch& launch) {
    if (launch.turned) return turn(launch);
    int64_t rows = at_.rows;
    constexpr int64_t kMostBlocks = 65535;
    constexpr int64_t kElements = int64_t{4} * kCudaSplitThreads;  // of a row, of a block
    const char* source = at_.addresses.pointer(launch.source, at_.first);
    char* target = at_.addresses.pointer(launch.target, at_.first);
    int weight = launch.weight ? 1 : 0;
    float most = launch.weight ? kMostSplitWeight : kMostSplitLeft;
    int64_t length = launch.length;
    int64_t part = launch.part;
    int64_t source_stride = launch.source.stride;
    int64_t target_stride = launch.target.stride;
    void* parameters[] = {&source, &target, &weight,        &most,         &rows,
                          &length, &part,   &source_stride, &target_stride};
    constexpr int64_t kRowsOfBlock = int64_t{kCudaSplitRows} * kCudaSplitRowsOfThread;
    const int64_t down = std::min(ceil_div(rows, kRowsOfBlock), kMostBlocks);
    const LaunchShape shape{
        dim3(static_cast<unsigned>(ceil_div(part, kElements)), static_cast<unsigned>(down)),
        dim3(kCudaSplitThreads, kCudaSplitRows)};
    return start(at_.kernel, shape, parameters, at_.queue, "splitting an operand");
  }

 private:
  Status turn(const SplitLaunch& launch) {
    int64_t rows = at_.rows;
    constexpr int64_t kMostBlocks = 65535;
    const char* source = at_.addresses.pointer(launch.source, at_.first);
    char* target = at_.addresses.start(launch.target);
    int weight = launch.weight ? 1 : 0;
    float most = launch.weight ? kMostSplitWeight : kMostSplitLeft;
    int64_t length = launch.length;
    int64_t part = launch.part;
    auto parts = static_cast<int>(launch.parts);
    int64_t source_stride = launch.source.stride;
    int64_t apart = turned_rows(at_.plan) * launch.parts;
    void* parameters[] = {&source, &target, &weight, &most,          &rows,
                          &length, &part,   &parts,  &source_stride, &apart};
    const int64_t down = std::min(ceil_div(rows, kCudaSplitTile), kMostBlocks);
    const LaunchShape shape{
        dim3(static_cast<unsigned>(ceil_div(part, kCudaSplitTile)), static_cast<unsigned>(down)),
        dim3(kCudaSplitThreads, kCudaSplitRows)};
    return start(at_.kernel, shape, parameters, at_.queue, "turning an operand");
  }

  SequenceRun at_;
};

}  // namespace

Status start_copies(cudaKernel_t kernel, CudaCopies copies, size_t count, LaunchQueue& queue,
                    const char* what) {
  constexpr int64_t kMostBlocks = 512;
  constexpr int64_t kBytesOfThread = 64;
  unsigned blocks = 1;
  for (const CudaCopy& copy : std::span(copies.copy).first(count)) {
    blocks =
        std::max(blocks, blocks_for(ceil_div(copy.rows * copy.bytes, kBytesOfThread), kMostBlocks));
  }
  void* parameters[] = {&copies};
  const LaunchShape shape{dim3(blocks, static_cast<unsigned>(count)), dim3(kThreads)};
  return start(kernel, shape, parameters, queue, what);
}

Status run_sequence(const SequenceRun& at, const Launch& launch) {
  SequenceLaunch one(at);
  return std::visit([&](const auto& kind) { return one.run(kind); }, launch);
}

}  // namespace rnnc::cuda
