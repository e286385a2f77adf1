#include "runtime/arrays/random_arrays.h"

#include <cmath>
#include <cstring>

#include "ir/base/dtype.h"
#include "runtime/base/describe.h"
#include "runtime/base/host_memory.h"

namespace rnnc {
namespace {

/// SplitMix64 (Steele, Lea and Flood 2014): the finaliser of a counter.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t bits = state_ += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
  }
  /// In [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

/// Of those that name no row: from 0 to one less.
constexpr int64_t kRandomIntegers = 8;

/// FNV-1a.
uint64_t hash(const std::string& name) {
  uint64_t result = 0xcbf29ce484222325;
  for (const char c : name) result = (result ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return result;
}

}  // namespace

double weight_bound(const ArrayInfo& param) {
  return 1 / std::sqrt(param.shape.empty() ? 1 : static_cast<double>(param.shape.back()));
}

Result<std::vector<NamedArray>> random_weights(const std::vector<ArrayInfo>& params,
                                               uint64_t seed) {
  double bytes = 0;
  for (const ArrayInfo& param : params) {
    bytes += static_cast<double>(param.elements()) * static_cast<double>(size_of(param.dtype));
  }
  if (Status status = check_host_memory("the random weights take", bytes); !status) {
    return tl::unexpected(status.error());
  }
  std::vector<NamedArray> weights;
  for (const ArrayInfo& param : params) {
    weights.push_back({param.name, random_array(param, weight_bound(param), seed)});
    if (const Status whole = weights.back().array.check(); !whole) {
      return fail("param {} {}", quote(param.name), whole.error().message);
    }
  }
  return weights;
}

Array random_array(const ArrayInfo& info, double bound, uint64_t seed) {
  SplitMix64 generator(SplitMix64(seed).next() ^ hash(info.name));
  Array array = Array::zeros(info.dtype, info.shape);
  const size_t size = size_of(info.dtype);
  for (size_t place = 0; place < array.data.size(); place += size) {
    double value = (2 * generator.uniform() - 1) * bound;
    if (info.dtype == DType::i32) {
      const int64_t below = info.table_rows > 0 ? info.table_rows : kRandomIntegers;
      value = std::floor(generator.uniform() * static_cast<double>(below));
    }
    convert(&value, DType::f64, &array.data[place], info.dtype, 1);
  }
  return array;
}

std::vector<int64_t> random_lengths(int64_t batch, int64_t steps, uint64_t seed) {
  std::vector<int64_t> lengths;
  const ArrayInfo info{"lengths", {batch}, DType::f64};
  for (const double value : random_array(info, 1, seed).to_doubles()) {
    const double part = (value + 1) / 2;
    lengths.push_back(1 + static_cast<int64_t>(part * static_cast<double>(steps)));
  }
  return lengths;
}

Array random_resets(int64_t batch, int64_t steps, uint64_t seed) {
  constexpr double kShare = 1.0 / 16;
  Array resets = random_array({"reset", {steps, batch}, DType::f32}, 1, seed);
  for (size_t place = 0; place < resets.data.size(); place += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, &resets.data[place], sizeof(float));
    value = value < 2 * kShare - 1 ? 1 : 0;
    std::memcpy(&resets.data[place], &value, sizeof(float));
  }
  return resets;
}

}  // namespace rnnc
