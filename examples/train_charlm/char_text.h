/// A text as numbers, in the pieces that training and evaluation read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "examples/training/trainer.h"

namespace train_charlm {

class CharText {
 public:
  /// Holds the last tenth out.
  explicit CharText(std::string text);

  /// Each byte of the text once, in order; a character's number is its place.
  const std::string& vocabulary() const { return vocabulary_; }
  const std::string& text() const { return text_; }
  std::string_view training() const { return std::string_view(text_).substr(0, training_size_); }
  std::string_view held_out() const { return std::string_view(text_).substr(training_size_); }

  /// Of `text`, cut into `batch` streams of equal length: the numbers of `steps` characters of each
  /// from `begin`, and of those that follow them, [T, B] each.
  training::Piece piece(std::string_view text, int64_t batch, int64_t begin, int64_t steps) const;

 private:
  std::string text_;
  std::string vocabulary_;
  size_t training_size_ = 0;
};

/// Characters of each of `batch` streams that have one behind them to predict.
int64_t stream_length(std::string_view text, int64_t batch);

}  // namespace train_charlm
