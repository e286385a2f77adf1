// Launches over integers: rows of tables, what is added to such rows, and integers as reals.
#include <algorithm>
#include <cstring>

#include "runtime/cpu/cpu_executable.h"
#include "runtime/cpu/share_out.h"
#include "runtime/cpu/slices.h"

namespace rnnc::cpu {

void CpuExecutable::run(const RowsLaunch& launch, int64_t rows, Position position,
                        const Crew& crew) {
  const auto element = static_cast<int64_t>(size_of(plan_.buffers[launch.table.buffer].dtype));
  const int64_t bytes = launch.width * element;
  const std::byte* table = addresses_.locate(launch.table, {});
  const auto* index = reinterpret_cast<const int32_t*>(addresses_.locate(launch.index, position));
  std::byte* target = addresses_.locate(launch.target, position);
  const int64_t units = std::min<int64_t>(rows, 4 * crew.threads());
  share_out(crew, units, static_cast<double>(rows * launch.width), [&](int64_t unit, int) {
    for (int64_t row = part_begin(rows, units, unit); row < part_begin(rows, units, unit + 1);
         ++row) {
      const int64_t name = index[row * launch.index.stride];
      std::byte* to = target + row * launch.target.stride * element;
      if (name < 0 || name >= launch.count) {
        std::memset(to, 0, static_cast<size_t>(bytes));
      } else {
        std::memcpy(to, table + name * bytes, static_cast<size_t>(bytes));
      }
    }
  });
}

/// Each unit has rows of the table to itself, and goes over all that is added in its order.
void CpuExecutable::run(const RowTotalLaunch& launch, int64_t rows, Position position,
                        const Crew& crew) {
  const auto* index = reinterpret_cast<const int32_t*>(addresses_.locate(launch.index, position));
  const std::byte* value = addresses_.locate(launch.value, position);
  std::byte* out = addresses_.locate(launch.out, {});
  const auto add = [&]<typename T>(int64_t row, int64_t name, T*) {
    const T* from = reinterpret_cast<const T*>(value) + row * launch.value.stride;
    T* to = reinterpret_cast<T*>(out) + name * launch.width;
    for (int64_t i = 0; i < launch.width; ++i) to[i] += from[i];
  };
  const int64_t units = std::min<int64_t>(launch.count, 4 * crew.threads());
  share_out(crew, units, static_cast<double>(rows * launch.width), [&](int64_t unit, int) {
    const int64_t begin = part_begin(launch.count, units, unit);
    const int64_t end = part_begin(launch.count, units, unit + 1);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t name = index[row * launch.index.stride];
      if (name < begin || name >= end) continue;
      if (plan_.dtype == DType::f64) {
        add(row, name, static_cast<double*>(nullptr));
      } else {
        add(row, name, static_cast<float*>(nullptr));
      }
    }
  });
}

void CpuExecutable::run(const RealLaunch& launch, int64_t rows, Position position,
                        const Crew& /*crew*/) {
  const auto* source = reinterpret_cast<const int32_t*>(addresses_.locate(launch.source, position));
  std::byte* target = addresses_.locate(launch.target, position);
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t value = source[row * launch.source.stride];
    if (plan_.dtype == DType::f64) {
      reinterpret_cast<double*>(target)[row * launch.target.stride] = value;
    } else {
      reinterpret_cast<float*>(target)[row * launch.target.stride] = static_cast<float>(value);
    }
  }
}

}  // namespace rnnc::cpu
