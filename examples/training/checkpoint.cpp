#include "examples/training/checkpoint.h"

#include <string>
#include <string_view>

#include "runtime/arrays/array_file.h"
#include "runtime/arrays/safetensors.h"
#include "runtime/program/match_run.h"

namespace training {
namespace {

using rnnc::Array;
using rnnc::ArrayInfo;
using rnnc::fail;
using rnnc::NamedArray;
using rnnc::Result;
using rnnc::Status;

NamedArray number(const std::string& name, double value) {
  return {name, Array::from_doubles({value}, {1}, rnnc::DType::f64)};
}

void add(std::vector<NamedArray>& all, const std::string& prefix,
         const std::vector<NamedArray>& arrays) {
  for (const NamedArray& array : arrays) all.push_back({prefix + array.name, array.array});
}

/// The arrays of a kind, as the program expects them and in that order.
Status take(const rnnc::ArrayFile& file, const std::string& program, const std::string& kind,
            const std::vector<ArrayInfo>& infos, std::vector<std::optional<int64_t>> rows,
            std::vector<NamedArray>& list) {
  if (infos.empty()) return {};
  const Result<std::vector<NamedArray>> stored = file.read(kind + ".");
  if (!stored) return tl::unexpected(stored.error());
  const rnnc::ArrayMatch match =
      rnnc::match_arrays(kind, program, rnnc::expect(infos, std::move(rows)), *stored, true);
  std::vector<std::string> problems;
  rnnc::append(problems, match);
  if (!problems.empty()) return fail("{}", rnnc::list_problems(program, problems));
  for (size_t i = 0; i < infos.size(); ++i) {
    list.push_back({infos[i].name, match.arrays[i]->as(infos[i].dtype)});
  }
  return {};
}

}  // namespace

Status write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  std::vector<NamedArray> arrays = {
      number("run.step", static_cast<double>(checkpoint.step)),
      number("run.position", static_cast<double>(checkpoint.position)),
      number("run.data", checkpoint.data)};
  add(arrays, "param.", checkpoint.params);
  add(arrays, "mean.", checkpoint.mean);
  add(arrays, "variance.", checkpoint.variance);
  add(arrays, "state.", checkpoint.states);
  return rnnc::write_safetensors(path, arrays);
}

Result<Checkpoint> read_checkpoint(const std::filesystem::path& path,
                                   const CheckpointSource& source) {
  const Result<rnnc::ArrayFile> file = rnnc::ArrayFile::open(path);
  if (!file) return tl::unexpected(file.error());
  const auto numbers = file->read("run.");
  if (!numbers) return fail("{} is no checkpoint of a training run", path.string());
  Checkpoint checkpoint;
  for (const auto& [name, array] : *numbers) {
    const double value = array.elements() == 1 ? array.to_doubles()[0] : -1;
    if (!(value >= 0 && value <= 0x1p53)) {
      return fail("{} is no checkpoint of a training run: its {} is {}", path.string(), name,
                  value);
    }
    if (name == "step") checkpoint.step = static_cast<int64_t>(value);
    if (name == "position") checkpoint.position = static_cast<int64_t>(value);
    if (name == "data") checkpoint.data = static_cast<uint32_t>(value);
  }
  if (checkpoint.data != source.data) return fail("{} was trained on other data", path.string());
  const auto take_all = [&](const std::string& kind, std::vector<NamedArray>& list) {
    return take(*file, source.program, kind, source.params, {}, list);
  };
  Status status = take_all("param", checkpoint.params);
  if (status) status = take_all("mean", checkpoint.mean);
  if (status) status = take_all("variance", checkpoint.variance);
  if (status) {
    status = take(*file, source.program, "state", source.states, {source.batch}, checkpoint.states);
  }
  if (!status) return fail("{}: {}", path.string(), status.error().message);
  return checkpoint;
}

}  // namespace training
