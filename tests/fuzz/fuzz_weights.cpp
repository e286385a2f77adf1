/// Whatever a map's text and a file's bytes, params are made in the shapes that were found without
/// the data, or there is an error. The input is the text's length (two bytes), the text, the file.
#include <cstdlib>

#include "ir/graph/text.h"
#include "runtime/arrays/array_file.h"
#include "runtime/program/run.h"
#include "runtime/weights/weight_map.h"

namespace {

using namespace rnnc;

constexpr std::string_view kGraph = R"(graph Net(I, H, L, K = 3) {
  input x: [I]
  param W_i: [H, I]
  param W_f: [H, I]
  param R: [L, H, H]
  param b: [2 * H]
  param u: [K + 1]
  param s: []
  param Cell.0.w: [H / L]
  param Cell.1.w: [H / L]
  state h: [H]
  %0 = state h @ 1 : [H]
  init h = %0
  next h = %0
  output h = %0
}
)";

bool is_small(const std::vector<NamedArray>& arrays) {
  constexpr int64_t kMost = 1 << 20;
  int64_t sum = 0;
  for (const NamedArray& named : arrays) {
    const int64_t elements = named.array.elements();
    if (elements > kMost || (sum += elements) > kMost) return false;
  }
  return true;
}

void run(std::string_view text, std::string_view bytes) {
  static const Graph graph = *parse_graph(kGraph);
  const Result<ArrayFile> file = ArrayFile::parse(std::string(bytes), "fuzz");
  if (!file) return;
  const Result<std::vector<NamedArray>> headers = file->headers();
  if (!headers) return;
  // As the arrays of a run.
  (void)infer_dims(graph, {}, {.inputs = *headers, .params = *headers, .initial_states = *headers});
  const Result<WeightMap> map = WeightMap::parse(text, "fuzz.map");
  if (!map) return;
  const auto shapes = map_weights(*map, graph, {}, *headers, Compared::shapes);
  if (!shapes || !is_small(*headers) || !is_small(*shapes)) return;
  const Result<std::vector<NamedArray>> tensors = file->read();
  if (!tensors) return;
  const auto params = map_weights(*map, graph, {}, *tensors);
  if (!params || params->size() != shapes->size()) std::abort();
  for (size_t i = 0; i < params->size(); ++i) {
    const Array& array = (*params)[i].array;
    if (!array.check() || array.shape != (*shapes)[i].array.shape) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t length = std::min<size_t>(data[0] + 256 * data[1], size - 2);
  run(all.substr(2, length), all.substr(2 + length));
  return 0;
}
