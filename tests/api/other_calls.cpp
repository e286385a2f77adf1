#include <fstream>

#include "frontend/unit.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "runtime/arrays/npy.h"
#include "runtime/arrays/npz.h"
#include "runtime/arrays/random_arrays.h"
#include "runtime/arrays/safetensors.h"
#include "runtime/backend/device.h"
#include "runtime/backend/kernel_cache.h"
#include "runtime/base/files.h"
#include "runtime/program/read_unit.h"
#include "runtime/weights/weight_map.h"
#include "tests/api/calls.h"

namespace rnnc::test {
namespace {

constexpr std::string_view kText = R"(
cell LSTM[I, H = 4](x: [I]) -> h {
  state h, c: [H]
  param W_i, W_f, W_g, W_o: [H, I]
  param R_i, R_f, R_g, R_o: [H, H]
  param b: [H]
  i = sigmoid(W_i @ x[t] + R_i @ h[t-1] + b)
  f = sigmoid(W_f @ x[t] + R_f @ h[t-1])
  g = tanh(W_g @ x[t] + R_g @ h[t-2])
  o = sigmoid(W_o @ x[t] + R_o @ h[t-1])
  c[t] = f * c[t-1] + i * g
  h[t] = o * tanh(c[t])
}
network Net[F = 3](x: [F]) -> y {
  y = LSTM[I=F](x)
}
)";

constexpr std::string_view kMap = R"(
LSTM.{l}.[W_i, W_f, W_g, W_o] = weight_ih_l{l}
LSTM.{l}.[b_i, b_f] = bias_ih_l{l} + bias_hh_l{l} or zeros
Dense.0.W = transpose(kernel)
GRU.0.b_n = bias[2 of 3]
)";

Status call_units(Random& random) {
  std::string text(kText);
  if (random.one_in(2)) text = random.damaged(std::move(text));
  Unit unit("a.rnn", text);
  const std::string name = random.one_in(3) ? random.bytes(4) : "LSTM";
  const DimBindings dims = {{random.one_in(2) ? "I" : random.bytes(2), random.size(9)}};
  static_cast<void>(unit.check(name, dims));
  const std::optional<Graph> graph = unit.lower(name, dims);
  if (!graph && unit.render().empty()) return fail("a graph that is missing without a word");
  const auto call = [&](Unit& called) {
    static_cast<void>(called.check(name, dims));
    static_cast<void>(called.lower(name, dims));
    static_cast<void>(called.definitions());
    static_cast<void>(called.is_network(name));
    static_cast<void>(called.render({.warnings = random.one_in(2), .colour = random.one_in(2)}));
    static_cast<void>(called.print_ast());
    static_cast<void>(called.print_ast(name));
  };
  call(unit);
  Unit moved(std::move(unit));
  call(unit);  // NOLINT(bugprone-use-after-move)
  call(moved);
  if (graph) {
    const Result<Graph> parsed = parse_graph(random.damaged(to_string(*graph)));
    if (!parsed && parsed.error().message.empty()) return fail("an error without words");
    if (parsed) static_cast<void>(verify(*parsed));
  }
  if (unit.lower("LSTM", {}) || unit.check()) return fail("a unit that was moved from has a cell");
  if (!graph) return {};
  const RunArgs args{.inputs = odd_arrays(random),
                     .params = odd_arrays(random),
                     .initial_states = odd_arrays(random)};
  static_cast<void>(infer_dims(*graph, dims, args));
  const Result<WeightMap> map = WeightMap::parse(
      random.one_in(2) ? random.damaged(std::string(kMap)) : std::string(kMap), "a.map");
  if (map) static_cast<void>(map_weights(*map, *graph, dims, args.params));
  if (map) static_cast<void>(map->resolve("LSTM", {"W_i", random.bytes(4), ""}));
  return {};
}

Status call_arrays(Random& random, const std::filesystem::path& folder) {
  const Array array = random.one_in(2) ? odd_array(random) : array_of(random, {2, 3});
  static_cast<void>(array.elements());
  const DType dtype = random.dtype();
  if (array.as(dtype).data.size() / size_of(dtype) != array.data.size() / size_of(array.dtype)) {
    return fail("a conversion lost elements");
  }
  static_cast<void>(array.to_doubles());
  static_cast<void>(Array::from_doubles({1, 2, 3}, random.shape(), random.dtype()));
  const Array plain = array.as(DType::f32);
  const std::vector<NamedArray> named = odd_arrays(random);
  static_cast<void>(write_safetensors(folder / "a.safetensors", named));
  static_cast<void>(read_safetensors(folder / "a.safetensors"));
  static_cast<void>(format_npz(named));
  // A conversion leaves out what is no element.
  if (!plain.check())
    return write_npy(folder / "a.npy", plain) ? fail("half an array was written") : Status();
  const std::string bytes = format_npy(plain);
  const Result<Array> again = parse_npy(bytes, "a.npy");
  if (!again || again->data != plain.data) return fail("an array is not read as it was written");
  for (const Result<Array>& read : {parse_npy(random.damaged(bytes), "a.npy"),
                                    parse_npy_mask(random.damaged(bytes), "a.npy")}) {
    if (read && !read->check()) return fail("half an array was read");
  }
  static_cast<void>(parse_npz(random.damaged(bytes), "a.npz"));
  static_cast<void>(parse_safetensors(random.damaged(bytes), "a.safetensors"));
  return {};
}

Status call_caches(Random& random, const std::filesystem::path& folder) {
  const KernelCache cache(random.one_in(8) ? folder / random.bytes(9) : folder / "odd cache",
                          random.number(3000));
  for (int i = 0; i < 8; ++i) {
    const std::string key = random.bytes(3);
    const std::string value = random.bytes(400);
    if (cache.store(key, value)) {
      const std::optional<std::string> got = cache.get(key);
      if (got && *got != value) return fail("the cache gave another value");
    }
    static_cast<void>(cache.get(random.bytes(3)));
  }
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder / "odd cache", error)) {
    if (!random.one_in(2)) continue;
    std::ofstream(file.path(), std::ios::binary) << random.bytes(100);
  }
  static_cast<void>(cache.check());
  static_cast<void>(cache.get(random.bytes(3)));
  static_cast<void>(cache.trim(random.number(2000)));
  const Result<KernelCache::Usage> usage = random.one_in(2) ? cache.usage() : cache.clear();
  return usage && usage->bytes < 0 ? fail("fewer than no bytes") : Status();
}

Status call_files(Random& random, const std::filesystem::path& folder) {
  const std::filesystem::path path =
      random.one_in(2) ? folder / random.bytes(300) : folder / "no" / random.bytes(3);
  static_cast<void>(check_writable(path));
  static_cast<void>(write_file(path, "x"));
  static_cast<void>(read_file(path, random.number(9)));
  static_cast<void>(read_unit(path));
  static_cast<void>(read_npz(path));
  FileTransaction files;
  for (int i = 0; i < 3; ++i) static_cast<void>(files.add(folder / random.bytes(2), "x"));
  static_cast<void>(files.commit());
  static_cast<void>(files.commit());
  static_cast<void>(Device::parse(random.one_in(2) ? random.damaged("cuda:1") : random.bytes(8)));
  std::vector<int64_t> shape(static_cast<size_t>(random.below(4)));
  for (int64_t& size : shape) size = random.size(4);  // some that fit in memory take minutes
  const Result<std::vector<NamedArray>> weights =
      random_weights({{.name = random.bytes(3), .shape = shape, .dtype = random.dtype()}},
                     static_cast<uint64_t>(random.number(9)));
  if (weights && !weights->front().array.check()) return fail("random weights are not whole");
  return {};
}

}  // namespace

Status make_other_calls(Random& random, const std::filesystem::path& folder) {
  return call_units(random)
      .and_then([&] { return call_arrays(random, folder); })
      .and_then([&] { return call_caches(random, folder); })
      .and_then([&] { return call_files(random, folder); });
}

}  // namespace rnnc::test
