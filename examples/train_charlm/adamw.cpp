#include "examples/train_charlm/adamw.h"

#include <cmath>
#include <span>

namespace train_charlm {
namespace {

using rnnc::Array;
using rnnc::NamedArray;

std::span<float> floats(Array& array) {
  return {reinterpret_cast<float*>(array.data.data()), array.data.size() / sizeof(float)};
}

/// Scales all gradients together so that their norm is at most `most` (Pascanu et al. 2013).
void clip_norm(std::vector<NamedArray>& gradients, double most) {
  double squares = 0;
  for (NamedArray& gradient : gradients) {
    for (const float g : floats(gradient.array)) squares += static_cast<double>(g) * g;
  }
  const double norm = std::sqrt(squares);
  if (most <= 0 || norm <= most) return;
  const auto scale = static_cast<float>(most / norm);
  for (NamedArray& gradient : gradients) {
    for (float& g : floats(gradient.array)) g *= scale;
  }
}

}  // namespace

AdamW::AdamW(AdamWOptions options, const std::vector<NamedArray>& params) : options_(options) {
  for (const NamedArray& param : params) {
    mean.push_back({param.name, Array::zeros(rnnc::DType::f32, param.array.shape)});
  }
  variance = mean;
}

void AdamW::update(std::vector<NamedArray>& params, std::vector<NamedArray>& gradients) {
  clip_norm(gradients, options_.clip);
  ++step;
  // The moments start at zero; these make up for it.
  const auto steps = static_cast<double>(step);
  const double mean_share = 1 - std::pow(options_.beta1, steps);
  const double variance_share = 1 - std::pow(options_.beta2, steps);
  const auto rate = static_cast<float>(options_.learning_rate / mean_share);
  const auto root_share = static_cast<float>(1 / std::sqrt(variance_share));
  const auto keep = static_cast<float>(1 - options_.learning_rate * options_.weight_decay);
  const auto beta1 = static_cast<float>(options_.beta1);
  const auto beta2 = static_cast<float>(options_.beta2);
  const auto epsilon = static_cast<float>(options_.epsilon);
  for (size_t i = 0; i < params.size(); ++i) {
    const std::span<float> w = floats(params[i].array), g = floats(gradients[i].array);
    const std::span<float> m = floats(mean[i].array), v = floats(variance[i].array);
    for (size_t k = 0; k < w.size(); ++k) {
      m[k] = beta1 * m[k] + (1 - beta1) * g[k];
      v[k] = beta2 * v[k] + (1 - beta2) * g[k] * g[k];
      w[k] = keep * w[k] - rate * m[k] / (root_share * std::sqrt(v[k]) + epsilon);
    }
  }
}

}  // namespace train_charlm
