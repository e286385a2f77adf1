#include "examples/train_charlm/char_text.h"

#include <algorithm>
#include <array>
#include <set>

namespace train_charlm {

CharText::CharText(std::string text) : text_(std::move(text)) {
  const std::set<char> characters(text_.begin(), text_.end());
  vocabulary_.assign(characters.begin(), characters.end());
  training_size_ = text_.size() - text_.size() / 10;
}

training::Piece CharText::piece(std::string_view text, int64_t batch, int64_t begin,
                                int64_t steps) const {
  std::array<int32_t, 256> numbers{};
  for (size_t i = 0; i < vocabulary_.size(); ++i) {
    numbers[static_cast<unsigned char>(vocabulary_[i])] = static_cast<int32_t>(i);
  }
  training::Piece piece;
  piece.fresh = begin == 0;
  piece.x = rnnc::Array::zeros(rnnc::DType::i32, {steps, batch});
  piece.target = piece.x;
  auto* x = reinterpret_cast<int32_t*>(piece.x.data.data());
  auto* target = reinterpret_cast<int32_t*>(piece.target.data.data());
  const int64_t length = stream_length(text, batch);
  for (int64_t t = 0; t < steps; ++t) {
    for (int64_t b = 0; b < batch; ++b) {
      const auto place = static_cast<size_t>(b * length + begin + t);
      *x++ = numbers[static_cast<unsigned char>(text[place])];
      *target++ = numbers[static_cast<unsigned char>(text[place + 1])];
    }
  }
  return piece;
}

int64_t stream_length(std::string_view text, int64_t batch) {
  return text.empty() ? 0 : (static_cast<int64_t>(text.size()) - 1) / batch;
}

}  // namespace train_charlm
