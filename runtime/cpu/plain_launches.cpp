#include "runtime/cpu/plain_launches.h"

#include <algorithm>
#include <cstring>

#include "ir/base/arithmetic.h"
#include "runtime/cpu/share_out.h"

namespace rnnc::cpu {
namespace {

template <typename T>
void transpose(const std::byte* source, std::byte* target, int64_t rows, int64_t columns) {
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      to[column * rows + row] = from[row * columns + column];
    }
  }
}

class PlainLaunches {
 public:
  explicit PlainLaunches(const PlainCall& in)
      : plan_(in.plan), addresses_(in.addresses), call_(in.call) {}

  /// Of kinds that CPUs do not run, or that are not plain:
  template <typename L>
  void run(const L&, int64_t /*rows*/, Position /*position*/, const Crew& /*crew*/) const {
    RNNC_CHECK(false, "a launch that CPUs do not run");
  }

  void run(const CopyLaunch& launch, int64_t /*rows*/, Position /*position*/,
           const Crew& /*crew*/) const {
    const size_t element = size_of(plan_.buffers[launch.source.buffer].dtype);
    const std::byte* source = addresses_.locate(launch.source, {});
    std::byte* target = addresses_.locate(launch.target, {});
    if (launch.by_rows()) {
      for (int64_t row = 0; row < launch.rows; ++row) {
        std::memcpy(target + row * launch.target.stride * static_cast<int64_t>(element),
                    source + row * launch.source.stride * static_cast<int64_t>(element),
                    launch.columns * element);
      }
    } else if (!launch.transposed) {
      std::memcpy(target, source, launch.rows * launch.columns * element);
    } else if (element == sizeof(double)) {
      transpose<double>(source, target, launch.rows, launch.columns);
    } else {
      transpose<float>(source, target, launch.rows, launch.columns);
    }
  }

  void run(const ReverseLaunch& launch, int64_t rows, Position position, const Crew& crew) const {
    const size_t element = size_of(plan_.buffers[launch.source.buffer].dtype);
    const size_t bytes = launch.width * element;
    const std::byte* source =
        addresses_.of(launch.source.buffer) + launch.source.column * static_cast<int64_t>(element);
    std::byte* target = addresses_.locate(launch.target, position);
    const int64_t first = step_at(plan_, call_.steps, position);
    const int64_t units = std::min<int64_t>(rows, 4 * crew.threads());
    share_out(crew, units, static_cast<double>(rows * launch.width), [&](int64_t unit, int) {
      for (int64_t row = part_begin(rows, units, unit); row < part_begin(rows, units, unit + 1);
           ++row) {
        const int64_t sequence = row % plan_.batch;
        const int64_t step = length_of(sequence) - 1 - (first + row / plan_.batch);
        std::byte* to = target + row * launch.target.stride * element;
        if (step < 0) {
          std::memset(to, 0, bytes);
        } else {
          const int64_t from = step * plan_.batch + sequence;
          std::memcpy(to, source + from * launch.source.stride * element, bytes);
        }
      }
    });
  }

  void run(const EarlierLaunch& launch, int64_t rows, Position position, const Crew& crew) const {
    const size_t element = size_of(plan_.buffers[launch.source.buffer].dtype);
    const size_t bytes = launch.width * element;
    const std::byte* source =
        addresses_.of(launch.source.buffer) + launch.source.column * static_cast<int64_t>(element);
    std::byte* target = addresses_.locate(launch.target, position);
    const int64_t first = (step_at(plan_, call_.steps, position) - 1) * plan_.batch;
    const int64_t units = std::min<int64_t>(rows, 4 * crew.threads());
    share_out(crew, units, static_cast<double>(rows * launch.width), [&](int64_t unit, int) {
      for (int64_t row = part_begin(rows, units, unit); row < part_begin(rows, units, unit + 1);
           ++row) {
        std::byte* to = target + row * launch.target.stride * element;
        if (first + row < 0) {
          std::memset(to, 0, bytes);
        } else {
          std::memcpy(to, source + (first + row) * launch.source.stride * element, bytes);
        }
      }
    });
  }

  void run(const MaskLaunch& launch, int64_t rows, Position position, const Crew& /*crew*/) const {
    std::byte* target = addresses_.locate(launch.target, position);
    const int64_t first = call_.piece.first_step + step_at(plan_, call_.steps, position);
    for (int64_t b = 0; b < plan_.batch; ++b) {
      int64_t newest = first - 1;  // step with one, that counts; else -1
      const int64_t earliest = std::max<int64_t>(newest - launch.back, -1);
      while (newest > earliest && !mask_value(launch.kind, newest, b)) --newest;
      if (newest == earliest) newest = -1;
      for (int64_t row = b; row < rows; row += plan_.batch) {
        const int64_t t = first + row / plan_.batch;
        if (mask_value(launch.kind, t, b)) newest = t;
        const bool value = newest >= 0 && t - newest <= launch.back;
        if (plan_.dtype == DType::f64) {
          reinterpret_cast<double*>(target)[row * launch.target.stride] = value ? 1 : 0;
        } else {
          reinterpret_cast<float*>(target)[row * launch.target.stride] = value ? 1 : 0;
        }
      }
    }
  }

  void run(const RowsLaunch& launch, int64_t rows, Position position, const Crew& crew) const {
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
  void run(const RowTotalLaunch& launch, int64_t rows, Position position, const Crew& crew) const {
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

  void run(const RealLaunch& launch, int64_t rows, Position position, const Crew& /*crew*/) const {
    const auto* source =
        reinterpret_cast<const int32_t*>(addresses_.locate(launch.source, position));
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

 private:
  int64_t length_of(int64_t sequence) const {
    const int64_t most = call_.piece.first_step + call_.steps;
    return call_.lengths == nullptr ? most : std::clamp<int64_t>(call_.lengths[sequence], 0, most);
  }

  bool mask_value(MaskLaunch::Kind kind, int64_t t, int64_t sequence) const {
    const int64_t length = length_of(sequence);
    switch (kind) {
      case MaskLaunch::Kind::Valid:
        return t < length;
      case MaskLaunch::Kind::Reset:
        return call_.reset != nullptr && call_.reset[t * plan_.batch + sequence] != 0;
      case MaskLaunch::Kind::ResetReverse:
        break;
    }
    return call_.reset != nullptr && 0 < t && t < length &&
           call_.reset[(length - t) * plan_.batch + sequence] != 0;
  }

  const Plan& plan_;
  const Addresses& addresses_;
  const Call& call_;
};

}  // namespace

void run_plain(const PlainCall& call, const Launch& launch, int64_t rows, Position position,
               const Crew& crew) {
  const PlainLaunches launches(call);
  std::visit([&](const auto& one) { launches.run(one, rows, position, crew); }, launch);
}

}  // namespace rnnc::cpu
