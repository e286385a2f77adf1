#include "passes/plan/weights_along_k.h"

#include <algorithm>

#include "ir/plan/buffer_uses.h"

namespace rnnc {
namespace {

BufferId add_buffer(Plan& plan, std::span<const SummedWeight> parts, int64_t width) {
  Buffer buffer{.name = "",
                .dtype = plan.dtype,
                .placement = Placement::Program,
                .extent = Extent::Invariant,
                .width = width};
  for (const SummedWeight& part : parts) {
    buffer.name += (buffer.name.empty() ? "" : "|") + plan.buffers[part.weight.buffer].name;
  }
  plan.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(plan.buffers.size() - 1);
}

/// The copy that made just this weight by turning one, or null.
const CopyLaunch* turned_copy(const Plan& plan, const SummedWeight& part, int64_t rows) {
  for (const Stage& stage : plan.stages) {
    if (stage.domain != Domain::Once) continue;
    for (const Launch& launch : stage.launches) {
      const auto* copy = std::get_if<CopyLaunch>(&launch);
      const bool is_it = copy != nullptr && copy->transposed &&
                         copy->target.buffer == part.weight.buffer &&
                         copy->target.column == part.weight.column && copy->rows == part.k &&
                         copy->columns == rows && copy->source.stride == 0;
      if (is_it) return copy;
    }
  }
  return nullptr;
}

/// Weights that are there by rows of k are stacked as they are, and turned in one piece.
void stack_and_turn(std::span<const CopyLaunch> parts, BufferId stack, BufferId along,
                    std::vector<Launch>& once) {
  const int64_t rows = parts[0].columns;
  Access target = {.buffer = stack};
  for (const CopyLaunch& part : parts) {
    once.emplace_back(
        CopyLaunch{.source = part.source, .target = target, .rows = part.rows, .columns = rows});
    target.column += part.rows * rows;
  }
  once.emplace_back(CopyLaunch{.source = {.buffer = stack},
                               .target = {.buffer = along},
                               .rows = target.column / rows,
                               .columns = rows,
                               .transposed = true});
}

}  // namespace

BufferId weights_along_k(Plan& plan, std::span<const SummedWeight> parts, int64_t rows,
                         std::vector<Launch>& once) {
  int64_t k = 0;
  std::vector<CopyLaunch> turned;
  for (const SummedWeight& part : parts) {
    k += part.k;
    if (const CopyLaunch* copy = turned_copy(plan, part, rows)) turned.push_back(*copy);
  }
  const BufferId along = add_buffer(plan, parts, rows * k);
  if (turned.size() == parts.size()) {
    stack_and_turn(turned, add_buffer(plan, parts, rows * k), along, once);
    return along;
  }
  Access target = {.buffer = along, .stride = k};
  for (const SummedWeight& part : parts) {
    CopyLaunch copy{.source = part.weight, .target = target, .rows = rows, .columns = part.k};
    copy.source.stride = part.k;
    once.emplace_back(copy);
    target.column += part.k;
  }
  return along;
}

void remove_unread_copies(Plan& plan) {
  const BufferUses uses(plan);
  for (Stage& stage : plan.stages) {
    if (stage.domain != Domain::Once) continue;
    std::erase_if(stage.launches, [&](const Launch& launch) {
      const auto* copy = std::get_if<CopyLaunch>(&launch);
      return copy != nullptr && plan.buffers[copy->target.buffer].role == Role::Temporary &&
             !uses.is_read(copy->target.buffer);
    });
  }
}

}  // namespace rnnc
