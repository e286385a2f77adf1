#include "runtime/arrays/foreign_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/base/describe.h"

namespace rnnc {
namespace {

struct Format {
  std::string_view what;
  std::string_view python;  // makes {1} of {0}; empty: there is no short way
  std::string_view made;    // the extension of what it makes
};

constexpr Format kTorch = {
    "what torch.save writes, pickled Python objects, which rnnc does not run",
    "import torch; from safetensors.torch import save_file; save_file({{k: v.contiguous() for k, v "
    "in torch.load('{0}', map_location='cpu', weights_only=True).items()}}, '{1}')",
    ".safetensors"};
constexpr Format kHdf5 = {
    "an HDF5 file, as Keras writes",
    "import h5py, numpy; f = h5py.File('{0}'); a = {{}}; f.visititems(lambda name, v: "
    "a.update({{name: v[()]}}) if isinstance(v, h5py.Dataset) else None); numpy.savez('{1}', **a)",
    ".npz"};
constexpr Format kOnnx = {
    "an ONNX model",
    "import onnx, numpy; from onnx.numpy_helper import to_array; numpy.savez('{1}', **{{t.name: "
    "to_array(t) for t in onnx.load('{0}').graph.initializer}})",
    ".npz"};
constexpr Format kNpy = {"one array without a name (.npy), and weights are named",
                         "import numpy; numpy.savez('{1}', W=numpy.load('{0}'))", ".npz"};
constexpr Format kGguf = {"a GGUF model", "", ""};
constexpr Format kTflite = {"a TFLite model", "", ""};

/// Safe between quotes in a shell's and in Python's text.
bool is_plain(std::string_view name) {
  constexpr std::string_view kSigns = "._-/+@%,:=";
  return !name.empty() && std::ranges::all_of(name, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kSigns.find(c) != std::string_view::npos;
  });
}

std::string describe(const Format& format, std::string_view name) {
  std::string text = fmt::format("{} is {}; rnnc reads weights from safetensors and .npz files",
                                 quote(name), format.what);
  if (format.python.empty()) return text;
  const std::string from = is_plain(name) ? std::string(name) : "FILE";
  const size_t folder = from.find_last_of('/') + 1;  // 0 if there is none
  const size_t dot = from.find_last_of('.');
  const bool has_extension = dot != std::string::npos && dot > folder;
  const std::string to = (has_extension ? from.substr(0, dot) : from) + std::string(format.made);
  return fmt::format("{}. To convert it:\n  python3 -c \"{}\"", text,
                     fmt::format(fmt::runtime(format.python), from, to));
}

/// A model's first field, its IR version, then the next field's key.
bool is_onnx(std::string_view start) {
  return start.size() >= 8 && start[0] == 0x08 && start[1] > 0 && start[1] < 32 &&
         std::string_view("\x12\x1a\x22\x2a\x32\x3a\x42").find(start[2]) !=
             std::string_view::npos &&
         start.substr(3, 5) != std::string_view("\0\0\0\0\0", 5);
}

/// Protocols 2 to 5 say which they are; a state_dict's dict or OrderedDict follows, or the magic
/// number of torch.save before PyTorch 1.6.
bool is_pickle(std::string_view start) {
  return start.size() >= 3 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5 &&
         std::string_view("c}](\x8a\x8c\x95").find(start[2]) != std::string_view::npos;
}

}  // namespace

std::string describe_foreign(std::string_view start, std::string_view name) {
  if (start.starts_with("\x89HDF\r\n\x1a\n")) return describe(kHdf5, name);
  if (start.starts_with("\x93NUMPY")) return describe(kNpy, name);
  if (start.starts_with("GGUF")) return describe(kGguf, name);
  if (start.size() >= 8 && start.substr(4, 4) == "TFL3") return describe(kTflite, name);
  if (is_pickle(start)) return describe(kTorch, name);
  if (is_onnx(start)) return describe(kOnnx, name);
  return "";
}

std::string describe_foreign_archive(std::string_view member, std::string_view name) {
  if (member.ends_with("data.pkl") || member.ends_with("/version") ||
      member.find("/data/") != std::string_view::npos) {
    return describe(kTorch, name);
  }
  constexpr std::string_view kKerasConfig = "config.json";
  constexpr std::string_view kKerasMetadata = "metadata.json";
  if (member.ends_with(".h5") || member == kKerasConfig || member == kKerasMetadata) {
    return fmt::format(
        "{} is a Keras model, a zip archive around an HDF5 file; rnnc reads weights from "
        "safetensors and .npz files. To convert it:\n  python3 -c \"import keras, numpy; "
        "numpy.savez('weights.npz', **{{w.path: w.numpy() for w in "
        "keras.models.load_model('{}').weights}})\"",
        quote(name), is_plain(name) ? name : "FILE");
  }
  return "";
}

}  // namespace rnnc
