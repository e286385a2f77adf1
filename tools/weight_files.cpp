#include "tools/weight_files.h"

#include "runtime/describe.h"
#include "runtime/files.h"
#include "runtime/safetensors.h"
#include "tools/standard_streams.h"

namespace rnnc::tools {

void add_weight_files(CLI::App& command, WeightFiles& files) {
  CLI::Option* weights = command.add_option("--weights", files.tensors,
                                            "A safetensors file with the params; `rnnc weights` "
                                            "lists them");
  weights->type_name("FILE");
  command
      .add_option("--weight-map", files.map,
                  "Says which tensors make the params, where names or layouts differ; "
                  "examples/torch has those for PyTorch's modules")
      ->type_name("FILE");
  command
      .add_option("--weight-prefix", files.prefix,
                  "Takes the tensors whose names start so, such as encoder.lstm., and drops it")
      ->needs(weights)
      ->type_name("TEXT");
}

Result<std::optional<WeightMap>> read_weight_map(const WeightFiles& files) {
  if (files.map.empty()) return std::nullopt;
  const auto read = [](const std::filesystem::path& file) -> Result<WeightMap> {
    const Result<std::string> text = read_file(file);
    if (!text) return tl::unexpected(text.error());
    return WeightMap::parse(*text, file.string());
  };
  return read_input(files.map, read, WeightMap::parse);
}

Result<std::vector<NamedArray>> read_tensors(const WeightFiles& files) {
  Result<std::vector<NamedArray>> tensors =
      read_input(files.tensors, read_safetensors, parse_safetensors);
  if (!tensors || files.prefix.empty()) return tensors;
  tensors = take_prefixed(std::move(*tensors), files.prefix);
  if (!tensors) return fail("{}: {}", quote(files.tensors), tensors.error().message);
  return tensors;
}

}  // namespace rnnc::tools
