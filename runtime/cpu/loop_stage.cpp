#include "runtime/cpu/loop_stage.h"

#include <algorithm>

#include "codegen/cpu/kernel_cost.h"
#include "ir/base/arithmetic.h"
#include "runtime/cpu/slices.h"

namespace rnnc::cpu {
namespace {

// Rows that are narrower than a cache line are read again for their neighbours: what a thread has of
// so many steps stays in its own cache.
constexpr int64_t kBytesAtOnce = int64_t{256} << 10;
constexpr int64_t kLeastStepsAtOnce = 4;

}  // namespace

StepCalls::StepCalls(const Plan& plan, const Stage& stage) : plan_(plan) {
  const auto take = [&](const auto& launch) {
    if constexpr (requires { launch.carries; }) {
      kernel_ = &plan.kernels[launch.kernel];
      accesses_ = &launch.accesses;
    }
  };
  std::visit(take, stage.launches[0]);
  for (const Access& access : *accesses_) {
    strides_.push_back(elements_per_step(plan, plan.buffers[access.buffer]));
  }
  element_ = static_cast<int64_t>(size_of(plan.dtype));
}

int64_t StepCalls::bytes_per_step() const {
  int64_t elements = 0;
  for (size_t i = 0; i < strides_.size(); ++i) {
    if (strides_[i] != 0) elements += kernel_->elements(kernel_->arguments[i]);
  }
  return plan_.batch * elements * element_;
}

void StepCalls::locate(const Addresses& addresses, Position position, void** arguments) const {
  for (size_t i = 0; i < accesses_->size(); ++i) {
    arguments[i] = addresses.locate((*accesses_)[i], position);
  }
}

void StepCalls::move(void* const* from, int64_t row, int64_t steps, void** arguments) const {
  for (size_t i = 0; i < accesses_->size(); ++i) {
    const int64_t elements = row * (*accesses_)[i].stride + steps * strides_[i];
    arguments[i] = static_cast<std::byte*>(from[i]) + elements * element_;
  }
}

LoopStage::LoopStage(const Plan& plan, const Stage& stage, CpuSteps function, int64_t lanes,
                     int threads)
    : calls_(plan, stage), function_(function) {
  const int64_t columns = calls_.kernel().length;
  const int64_t vectors = ceil_div(columns, lanes);
  const double operations =
      static_cast<double>(operations_per_vector(calls_.kernel()) * plan.batch) *
      static_cast<double>(columns);
  const bool shared = operations * static_cast<double>(plan.chunk) >= kWorthSharing;
  const int64_t most = shared ? threads : 1;
  const int64_t rows = std::min(plan.batch, most);
  const int64_t of_row = std::min(vectors, most / rows);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t part = 0; part < of_row; ++part) {
      const auto column = [&](int64_t index) {
        return std::min(columns, part_begin(vectors, of_row, index) * lanes);
      };
      parts_.push_back({part_begin(plan.batch, rows, row), part_begin(plan.batch, rows, row + 1),
                        column(part), column(part + 1)});
    }
  }
  const auto parts = static_cast<int64_t>(parts_.size());
  const int64_t bytes = std::max<int64_t>(1, calls_.bytes_per_step() / parts);
  steps_at_once_ = std::max(kLeastStepsAtOnce, kBytesAtOnce / bytes);
  first_.resize(calls_.arguments());
  arguments_.assign(threads, std::vector<void*>(calls_.arguments()));
  step_alone_ = nanoseconds(operations, lanes);
  step_shared_ = step_alone_ / static_cast<double>(parts);
}

void LoopStage::run(const Crew& crew, const Addresses& addresses, const ThreadScratch& /*scratch*/,
                    Position start, int64_t steps) {
  const LaunchTimer timer(
      times_,
      {.stage = stage_, .first_step = start.order(), .steps = steps, .thread = crew.thread});
  calls_.locate(addresses, start, first_.data());
  const auto run = [&](int64_t part, int thread) {
    run_part(parts_[part], first_.data(), steps, arguments_[thread].data());
  };
  const auto parts = static_cast<int64_t>(parts_.size());
  if (crew.pool != nullptr && parts > 1) {
    crew.pool->run(parts, run);
  } else {
    for (int64_t part = 0; part < parts; ++part) run(part, crew.thread);
  }
}

void LoopStage::run_part(const Part& part, void* const* first, int64_t steps,
                         void** arguments) const {
  for (int64_t done = 0; done < steps; done += steps_at_once_) {
    const int64_t count = std::min(steps_at_once_, steps - done);
    for (int64_t row = part.row_begin; row < part.row_end; ++row) {
      calls_.move(first, row, done, arguments);
      function_(arguments, calls_.strides(), count, part.column_begin, part.column_end);
    }
  }
}

}  // namespace rnnc::cpu
