/// Images of digits: some to train on, the others held out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "examples/training/trainer.h"

namespace train_digits {

constexpr int64_t kRows = 8, kColumns = 8, kClasses = 10;

class Digits {
 public:
  /// An .npy file of integers [N, 65], one image each: its pixels, 0 to 16, row by row, then the
  /// digit. A fifth, always the same, is held out.
  static rnnc::Result<Digits> read(const std::filesystem::path& path);

  std::span<const size_t> training() const { return std::span(order_).subspan(held_out_count_); }
  std::span<const size_t> held_out() const { return std::span(order_).first(held_out_count_); }
  int64_t digit(size_t image) const { return values_[image * kValues + kValues - 1]; }
  uint32_t hash() const;

  /// Of these images, one a sequence: rows [8, B, 8], and the digit one-hot at each, [8, B, 10], in
  /// f32.
  training::Piece piece(std::span<const size_t> images) const;
  /// The `batch` images to train on at a position: every epoch goes through all in another order,
  /// but for those that fill no batch. Moves on by one. `batch` is at most `training().size()`.
  training::Piece next(int64_t batch, int64_t& position) const;

 private:
  static constexpr int64_t kValues = kRows * kColumns + 1;
  std::vector<int64_t> values_;  // [N, 65]
  std::vector<size_t> order_;    // the held-out images, then the others
  size_t held_out_count_ = 0;
};

}  // namespace train_digits
