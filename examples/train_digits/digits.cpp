#include "examples/train_digits/digits.h"

#include <numeric>

#include "examples/training/run.h"
#include "runtime/arrays/npy.h"
#include "runtime/base/describe.h"

namespace train_digits {
namespace {

using rnnc::fail;
using rnnc::Result;

/// Fisher and Yates's shuffle with splitmix64 (Steele, Lea & Flood 2014), alike on every machine.
void shuffle(std::span<size_t> numbers, uint64_t seed) {
  for (size_t i = numbers.size(); i > 1; --i) {
    uint64_t bits = seed += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    std::swap(numbers[i - 1], numbers[(bits ^ (bits >> 31)) % i]);
  }
}

}  // namespace

Result<Digits> Digits::read(const std::filesystem::path& path) {
  Result<rnnc::IntegerArray> array = rnnc::read_npy_integers(path);
  if (!array) return tl::unexpected(array.error());
  if (array->shape.size() != 2 || array->shape[1] != kValues || array->shape[0] < 5) {
    return fail("{} is {}: images are [N, {}], 64 pixels and the digit each, at least 5",
                path.string(), rnnc::shape_text(array->shape), kValues);
  }
  for (size_t i = 0; i < array->values.size(); ++i) {
    const int64_t place = static_cast<int64_t>(i) % kValues, value = array->values[i];
    if (value >= 0 && value <= (place < kValues - 1 ? 16 : kClasses - 1)) continue;
    return fail("{}: value {} of image {} is {}: pixels are 0 to 16 and digits 0 to 9",
                path.string(), place, static_cast<int64_t>(i) / kValues, value);
  }
  Digits digits;
  digits.values_ = std::move(array->values);
  digits.order_.resize(static_cast<size_t>(array->shape[0]));
  std::iota(digits.order_.begin(), digits.order_.end(), size_t{0});
  shuffle(digits.order_, 0);
  digits.held_out_count_ = digits.order_.size() / 5;
  return digits;
}

uint32_t Digits::hash() const {
  return training::hash(
      {reinterpret_cast<const char*>(values_.data()), values_.size() * sizeof(int64_t)});
}

training::Piece Digits::piece(std::span<const size_t> images) const {
  const auto batch = static_cast<int64_t>(images.size());
  training::Piece piece;
  piece.x = rnnc::Array::zeros(rnnc::DType::f32, {kRows, batch, kColumns});
  piece.target = rnnc::Array::zeros(rnnc::DType::f32, {kRows, batch, kClasses});
  auto* x = reinterpret_cast<float*>(piece.x.data.data());
  auto* target = reinterpret_cast<float*>(piece.target.data.data());
  for (int64_t row = 0; row < kRows; ++row) {
    for (const size_t image : images) {
      const int64_t* pixels = &values_[image * kValues + row * kColumns];
      x = std::copy_n(pixels, kColumns, x);
      target[digit(image)] = 1;
      target += kClasses;
    }
  }
  return piece;
}

training::Piece Digits::next(int64_t batch, int64_t& position) const {
  const int64_t batches = std::ssize(training()) / batch;
  std::vector<size_t> images(training().begin(), training().end());
  shuffle(images, static_cast<uint64_t>(position / batches) + 1);
  const int64_t begin = position++ % batches * batch;
  return piece(std::span(images).subspan(static_cast<size_t>(begin), static_cast<size_t>(batch)));
}

}  // namespace train_digits
