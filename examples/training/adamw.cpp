#include "examples/training/adamw.h"

#include <cmath>
#include <span>

namespace training {
namespace {

using rnnc::Array;
using rnnc::NamedArray;

template <typename T>
std::span<T> elements(Array& array) {
  return {reinterpret_cast<T*>(array.data.data()), array.data.size() / sizeof(T)};
}

/// Scales all gradients together so that their norm is at most `most` (Pascanu et al. 2013).
template <typename T>
void clip_norm(std::vector<NamedArray>& gradients, double most) {
  double squares = 0;
  for (NamedArray& gradient : gradients) {
    for (const T g : elements<T>(gradient.array)) squares += static_cast<double>(g) * g;
  }
  const double norm = std::sqrt(squares);
  if (most <= 0 || norm <= most) return;
  const auto scale = static_cast<T>(most / norm);
  for (NamedArray& gradient : gradients) {
    for (T& g : elements<T>(gradient.array)) g *= scale;
  }
}

}  // namespace

AdamW::AdamW(AdamWOptions options, const std::vector<NamedArray>& params) : options_(options) {
  for (const NamedArray& param : params) {
    mean.push_back({param.name, Array::zeros(param.array.dtype, param.array.shape)});
  }
  variance = mean;
}

void AdamW::update(std::vector<NamedArray>& params, std::vector<NamedArray>& gradients) {
  if (params.empty()) return;
  if (params[0].array.dtype == rnnc::DType::f64) {
    update_all<double>(params, gradients);
  } else {
    update_all<float>(params, gradients);
  }
}

template <typename T>
void AdamW::update_all(std::vector<NamedArray>& params, std::vector<NamedArray>& gradients) {
  clip_norm<T>(gradients, options_.clip);
  ++step;
  // The moments start at zero; these make up for it.
  const auto steps = static_cast<double>(step);
  const double mean_share = 1 - std::pow(options_.beta1, steps);
  const double variance_share = 1 - std::pow(options_.beta2, steps);
  const auto rate = static_cast<T>(options_.learning_rate / mean_share);
  const auto root_share = static_cast<T>(1 / std::sqrt(variance_share));
  const auto keep = static_cast<T>(1 - options_.learning_rate * options_.weight_decay);
  const auto beta1 = static_cast<T>(options_.beta1);
  const auto beta2 = static_cast<T>(options_.beta2);
  const auto epsilon = static_cast<T>(options_.epsilon);
  for (size_t i = 0; i < params.size(); ++i) {
    const std::span<T> w = elements<T>(params[i].array), g = elements<T>(gradients[i].array);
    const std::span<T> m = elements<T>(mean[i].array), v = elements<T>(variance[i].array);
    for (size_t k = 0; k < w.size(); ++k) {
      m[k] = beta1 * m[k] + (1 - beta1) * g[k];
      v[k] = beta2 * v[k] + (1 - beta2) * g[k] * g[k];
      w[k] = keep * w[k] - rate * m[k] / (root_share * std::sqrt(v[k]) + epsilon);
    }
  }
}

}  // namespace training
