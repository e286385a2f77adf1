#include "passes/persistent/recurrence_buffers.h"

#include "ir/persistent/recurrence_exchange.h"

namespace rnnc {

void add_exchange(Plan& plan, RecurrenceLaunch& recurrence) {
  recurrence.exchange = kNoBuffer;
  const int64_t width = exchange_width(plan, recurrence);
  if (width == 0) return;
  recurrence.exchange = static_cast<BufferId>(plan.buffers.size());
  plan.buffers.push_back(
      {.name = "exchange", .dtype = DType::f32, .extent = Extent::Chunk, .width = width});
}

}  // namespace rnnc
