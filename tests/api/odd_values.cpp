#include "tests/api/odd_values.h"

#include <algorithm>
#include <limits>

namespace rnnc::test {
namespace {

constexpr DType kTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

std::vector<int64_t> with_leading(std::vector<int64_t> leading, const std::vector<int64_t>& shape) {
  leading.insert(leading.end(), shape.begin(), shape.end());
  return leading;
}

void spoil(Random& random, Array& array) {
  switch (random.below(6)) {
    case 0:
      array.data.resize(static_cast<size_t>(random.below(64)));
      break;
    case 1:
      array.data.clear();
      break;
    case 2:
      array.shape.push_back(random.number(3));
      break;
    case 3:
      if (!array.shape.empty()) array.shape.pop_back();
      break;
    case 4:
      if (!array.shape.empty()) random.pick(array.shape) = random.number(9);
      break;
    default:
      array.dtype = random.dtype();
  }
}

void spoil(Random& random, std::vector<NamedArray>& arrays) {
  if (arrays.empty() || random.one_in(6)) {
    arrays.push_back({random.bytes(6), odd_array(random)});
    return;
  }
  NamedArray& named = random.pick(arrays);
  switch (random.below(5)) {
    case 0:
      named.name = random.damaged(named.name);
      break;
    case 1:
      arrays.push_back(NamedArray(named));
      break;
    case 2:
      arrays.erase(arrays.begin() + (&named - arrays.data()));
      break;
    default:
      spoil(random, named.array);
  }
}

}  // namespace

int64_t Random::number(int64_t most) {
  constexpr int64_t kLimit = std::numeric_limits<int64_t>::max();
  constexpr int64_t kOdd[] = {
      -1,     0,          INT32_MAX,  int64_t{INT32_MAX} + 1, int64_t{1} << 40, int64_t{1} << 62,
      kLimit, kLimit - 1, -kLimit - 1};
  return one_in(3) ? pick(kOdd) : below(most + 1);
}

int64_t Random::size(int64_t most) {
  constexpr int64_t kOdd[] = {-1, 0, int64_t{1} << 41, std::numeric_limits<int64_t>::max(),
                              std::numeric_limits<int64_t>::min()};
  return one_in(3) ? pick(kOdd) : below(most + 1);
}

DType Random::dtype() {
  return pick(kTypes);
}

std::string Random::bytes(int64_t most) {
  std::string text(static_cast<size_t>(below(most + 1)), '\0');
  for (char& c : text) c = static_cast<char>(one_in(3) ? below(256) : 'a' + below(26));
  return text;
}

std::string Random::damaged(std::string text) {
  for (int64_t times = 1 + below(3); times > 0; --times) {
    const auto place = static_cast<size_t>(below(std::ssize(text) + 1));
    switch (below(4)) {
      case 0:
        text.insert(place, bytes(4));
        break;
      case 1:
        text.erase(place, static_cast<size_t>(below(8)));
        break;
      case 2:
        text.insert(place, text.substr(place / 2, static_cast<size_t>(below(20))));
        break;
      default:
        if (place < text.size()) text[place] = static_cast<char>(below(256));
    }
  }
  return text;
}

std::vector<int64_t> Random::shape() {
  std::vector<int64_t> sizes(static_cast<size_t>(below(4)));
  for (int64_t& size : sizes) size = one_in(4) ? number(4) : 1 + below(4);
  return sizes;
}

Array array_of(Random& random, const std::vector<int64_t>& shape, DType dtype) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  std::vector<double> values(static_cast<size_t>(elements));
  for (double& value : values) value = static_cast<double>(random.below(129) - 64) / 64;
  return Array::from_doubles(values, shape, dtype);
}

Array odd_array(Random& random) {
  Array array{.dtype = random.dtype(), .shape = random.shape(), .data = {}};
  array.data.resize(static_cast<size_t>(random.below(200)));
  return array;
}

std::vector<NamedArray> odd_arrays(Random& random) {
  constexpr const char* kNames[] = {"W", "b", "x", "h", "LSTM.0.W", ""};
  std::vector<NamedArray> arrays;
  for (int64_t i = random.below(4); i > 0; --i) {
    const bool right = random.one_in(2);
    arrays.push_back(
        {random.one_in(4) ? random.bytes(4) : random.pick(kNames),
         right ? array_of(random, {random.below(5), 1 + random.below(4)}) : odd_array(random)});
  }
  return arrays;
}

RunArgs right_args(Random& random, const Signature& signature, int64_t steps, int64_t batch) {
  RunArgs args;
  for (const ArrayInfo& input : signature.inputs) {
    args.inputs.push_back(
        {input.name, array_of(random, with_leading({steps, batch}, input.shape), random.dtype())});
  }
  for (const ArrayInfo& param : signature.params) {
    args.params.push_back({param.name, array_of(random, param.shape)});
  }
  if (signature.streams && random.one_in(2)) {
    for (const ArrayInfo& state : signature.states) {
      args.initial_states.push_back(
          {state.name, array_of(random, with_leading({batch}, state.shape))});
    }
  }
  if (random.one_in(3)) args.lengths = std::vector<int64_t>(batch, random.below(steps + 1));
  if (random.one_in(3)) args.reset = array_of(random, {steps, batch});
  if (signature.streams && random.one_in(3)) args.piece = 1 + random.below(4);
  return args;
}

LossGradients right_loss(Random& random, const Signature& signature, int64_t steps, int64_t batch) {
  LossGradients loss;
  for (const ArrayInfo& output : signature.outputs) {
    if (random.one_in(4)) continue;
    loss.outputs.push_back(
        {output.name,
         array_of(random, with_leading({steps, batch}, output.shape), random.dtype())});
  }
  for (const ArrayInfo& state : signature.states) {
    if (random.one_in(4)) continue;
    loss.final_states.push_back(
        {state.name, array_of(random, with_leading({batch}, state.shape), random.dtype())});
  }
  return loss;
}

void spoil(Random& random, LossGradients& loss) {
  for (int64_t times = 1 + random.below(3); times > 0; --times) {
    spoil(random, random.one_in(2) ? loss.outputs : loss.final_states);
  }
}

void spoil(Random& random, RunArgs& args) {
  for (int64_t times = 1 + random.below(3); times > 0; --times) {
    switch (random.below(6)) {
      case 0:
        spoil(random, args.inputs);
        break;
      case 1:
        spoil(random, args.params);
        break;
      case 2:
        spoil(random, args.initial_states);
        break;
      case 3:
        args.lengths = std::vector<int64_t>(static_cast<size_t>(random.below(5)), random.number(9));
        break;
      case 4:
        args.reset = odd_array(random);
        break;
      default:
        args.piece = random.number(4);
    }
  }
}

CompileOptions odd_options(Random& random) {
  CompileOptions options;
  options.dtype = random.one_in(4) ? random.dtype() : DType::f32;
  if (random.one_in(4)) options.dims["H"] = random.size(9);
  if (random.one_in(4)) options.dims[random.bytes(3)] = random.size(9);
  options.threads = static_cast<int>(std::clamp<int64_t>(random.number(3), INT32_MIN, INT32_MAX));
  options.chunk = random.number(4);
  options.allow_tf32 = random.one_in(8);
  options.reverse = random.one_in(4);
  options.tune = random.one_in(8);
  if (random.one_in(8)) options.spare_multiprocessors = static_cast<int>(random.size(200));
  if (random.one_in(8)) options.tile_rank = random.number(200);
  if (random.one_in(4)) options.cache_limit = random.number(10000);
  if (random.one_in(8)) {
    // Where there is one, it is another machine's business.
    options.device = {Device::Kind::cuda, random.one_in(2) ? -1 : INT32_MAX};
  }
  if (random.one_in(4)) options.passes = PassSet::none();
  return options;
}

}  // namespace rnnc::test
