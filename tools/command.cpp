#include "tools/command.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "frontend/syntax/utf8.h"
#include "passes/build_plan.h"
#include "runtime/base/describe.h"
#include "runtime/program/read_unit.h"
#include "tools/diagnostics.h"

namespace rnnc::tools {
namespace {

/// The two sides of NAME=VALUE, the name as the parser has it; nothing if there is no `=` or a side
/// is empty.
std::optional<std::pair<std::string, std::string>> split_pair(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) return std::nullopt;
  return std::pair(utf8::compose(text.substr(0, equals)), text.substr(equals + 1));
}

/// A repeatable option that takes one text at a time. `accept` returns what is wrong with it, or
/// "".
void add_repeated(CLI::App& command, const std::string& flag, const std::string& type,
                  std::function<std::string(const std::string&)> accept, const std::string& help) {
  command
      .add_option_function<std::vector<std::string>>(
          flag,
          [flag, accept = std::move(accept)](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              const std::string problem = accept(text);
              // How CLI11 is told; `main` catches it.
              if (!problem.empty()) throw CLI::ValidationError(flag, problem);
            }
          },
          help)
      ->type_name(type)
      ->allow_extra_args(false)
      ->take_all();
}

std::string list_names(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::filesystem::path environment_path(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

int report(const Error& error) {
  const bool colour = errors_have_colour();
  fmt::print(stderr, "rnnc: {}error:{} {}\n", colour ? "\x1b[1;31m" : "", colour ? "\x1b[0m" : "",
             error.message);
  return kError;
}

int report_usage(const CLI::App& command, std::string_view message, const std::string& word,
                 const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(word, known);
  report({fmt::format("{}\n  hint: {}see `{} --help`", message,
                      nearest.empty() ? "" : fmt::format("did you mean `{}`? ", nearest),
                      full_name(command))});
  return kUsage;
}

void report_note(std::string_view note) {
  fmt::print(stderr, "rnnc: note: {}\n", note);
}

void report_notes(const Program& program) {
  for (const std::string& note : program.notes()) report_note(note);
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

std::filesystem::path cache_directory() {
  if (auto path = environment_path("RNNC_CACHE_DIR"); !path.empty()) return path;
  // A relative path there is to be ignored, says the XDG base directory specification.
  if (const auto path = environment_path("XDG_CACHE_HOME"); path.is_absolute())
    return path / "rnnc";
  if (const auto home = environment_path("HOME"); !home.empty()) return home / ".cache" / "rnnc";
  return {};
}

Result<KernelCache> find_cache() {
  KernelCache cache(cache_directory());
  if (!cache.directory().empty()) return cache;
  return fail("there is no cache directory: set RNNC_CACHE_DIR or HOME");
}

void add_named_files(CLI::App& command, const std::string& flag, std::vector<NamedFile>& files,
                     const std::string& help) {
  const auto accept = [&files](const std::string& text) -> std::string {
    const auto pair = split_pair(text);
    if (!pair) return fmt::format("expected NAME=FILE, such as x=x.npy, got {}", quote(text));
    if (std::ranges::find(files, pair->first, &NamedFile::name) != files.end()) {
      return fmt::format("{} is given twice", quote(pair->first));
    }
    files.push_back({pair->first, pair->second});
    return "";
  };
  add_repeated(command, flag, "NAME=FILE", accept, help);
}

void add_dims(CLI::App& command, DimBindings& dims) {
  const auto accept = [&dims](const std::string& text) -> std::string {
    const auto pair = split_pair(text);
    int64_t value = 0;
    const std::string number = pair ? pair->second : "";
    const char* end = number.data() + number.size();
    const auto [rest, error] = std::from_chars(number.data(), end, value);
    if (!pair || error != std::errc() || rest != end) {
      return fmt::format("expected NAME=NUMBER, such as H=512, got {}", quote(text));
    }
    if (!dims.emplace(pair->first, value).second) {
      return fmt::format("{} is given twice", quote(pair->first));
    }
    return "";
  };
  add_repeated(command, "--dim", "NAME=NUMBER", accept,
               "Value of a dim, such as H=512; may be repeated");
}

Result<Unit> load_unit(const std::string& file) {
  if (!is_dash(file)) return read_unit(file);
  Result<std::string> text = read_standard_input(kLargestSource + 1);
  if (!text) return tl::unexpected(text.error());
  return parse_unit(kStandardInput, std::move(*text));
}

void add_source(CLI::App& command, Source& source) {
  command.add_option("FILE", source.file, "The .rnn file, or - for standard input")
      ->required()
      ->type_name("");
  command
      .add_option("--cell", source.cell,
                  "The cell or network; may be left out when FILE defines only one")
      ->type_name("NAME");
  add_dims(command, source.dims);
}

void add_size(CLI::App& command, const std::string& flag, int64_t& size, const std::string& help) {
  command.add_option(flag, size, help)
      ->type_name("NUMBER")
      ->check(whole_number(1, int64_t{1} << 24))
      ->capture_default_str();
}

void add_threads(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "CPU threads; 0: one per hardware thread")
      ->type_name("NUMBER")
      ->check(whole_number(0, 4096))
      ->capture_default_str();
}

void add_device(CLI::App& command, std::string& device) {
  command.add_option("--device", device, "cpu, cuda or cuda:1")
      ->type_name("DEVICE")
      ->check(device_name())
      ->capture_default_str();
}

void add_tf32(CLI::App& command, bool& tf32) {
  command.add_flag("--tf32", tf32, "Let products of f32 on a GPU round to TF32");
}

CLI::Option* add_seed(CLI::App& command, uint64_t& seed) {
  return command
      .add_option("--seed", seed, "Of random numbers, which are the same on every machine")
      ->type_name("NUMBER")
      ->check(seed_value())
      ->capture_default_str();
}

void add_output(CLI::App& command, std::string& file) {
  command.add_option("-o,--output", file, "Write to this file instead of printing")
      ->type_name("FILE");
}

void add_dtype(CLI::App& command, std::string& dtype, const std::string& help) {
  command.add_option("--dtype", dtype, help)
      ->type_name("TYPE")
      ->check(one_of({"f32", "f64", "bf16", "f16"}))
      ->capture_default_str();
}

DType dtype_of(const std::string& text) {
  const std::optional<DType> dtype = parse_dtype(text);
  RNNC_CHECK(dtype, "dtype {}", text);
  return *dtype;
}

std::string check_tf32(bool tf32, const std::string& dtype, const std::string& device) {
  if (!tf32 || (dtype == "f32" && device != "cpu")) return "";
  return fmt::format("--tf32 is for f32 on a GPU, not for {} on {}", dtype, device);
}

Status check_storage(DType dtype, Device::Kind device) {
  const bool cpu = device == Device::Kind::cpu;
  const bool fits = cpu ? dtype == compute_type(dtype) : dtype != DType::f64;
  if (fits) return {};
  return fail("{} has no code for dtype {}; it takes {}", cpu ? "the CPU" : "CUDA",
              to_string(dtype), cpu ? "f32 and f64" : "f32, bf16 and f16");
}

void add_tune(CLI::App& command, bool& tune) {
  command.add_flag("--tune", tune,
                   "GPU, recurrences with products: measure the best few tiles, each strategy and "
                   "launches for each step first, and take the fastest, which the kernel cache "
                   "remembers");
}

void add_tile_rank(CLI::App& command, int64_t& rank) {
  command
      .add_option("--tile-rank", rank,
                  "Resident recurrences: not the best tile by the cost model, but one so many "
                  "places behind it")
      ->type_name("NUMBER")
      ->check(whole_number(0, kMostTileRank))
      ->excludes("--tune");
}

CLI::Option* add_residuals(CLI::App& command, std::string& residuals) {
  return command
      .add_option("--residuals", residuals,
                  "What the forward half saves: all that is asked for, the least, or what is "
                  "fastest")
      ->check(one_of({"all", "least", "auto"}))
      ->capture_default_str();
}

CLI::Option* add_checkpoint(CLI::App& command, int64_t& checkpoint) {
  return command
      .add_option("--checkpoint", checkpoint,
                  "Keep the states each so many steps alone, rounded up to whole chunks, and run "
                  "the forward half again from there: less memory, the same gradients")
      ->type_name("NUMBER")
      ->check(whole_number(1, int64_t{1} << 40));
}

void add_f32_params(CLI::App& command, bool& f32_params) {
  command.add_flag("--f32-params", f32_params,
                   "Params and their gradients in f32, beside arrays of bf16 or f16");
}

std::string check_f32_params(bool f32_params, const std::string& dtype) {
  if (!f32_params || dtype == "bf16" || dtype == "f16") return "";
  return fmt::format("--f32-params is for --dtype bf16 or f16, not {}", dtype);
}

std::optional<DType> param_dtype_of(bool f32_params) {
  return f32_params ? std::optional(DType::f32) : std::nullopt;
}

std::string check_tune(bool tune, const std::string& device) {
  return tune && device == "cpu" ? "--tune is for a GPU, not for cpu" : "";
}

void add_strategy(CLI::App& command, Strategy& strategy) {
  std::vector<std::string> names;
  std::string help =
      "How recurrences run, or an error that says why one cannot; on a CPU loop or scan";
  for (const StrategyInfo& info : all_strategies()) {
    names.emplace_back(info.name);
    help += fmt::format("{} {} ({})", names.size() == 1 ? ":" : ",", info.name, info.summary);
  }
  command
      .add_option_function<std::string>(
          "--strategy", [&strategy](const std::string& name) { strategy = *parse_strategy(name); },
          help)
      ->type_name("NAME")
      ->check(one_of(names));
}

std::string check_strategy(Strategy strategy, const std::string& device) {
  const bool useless = strategy != Strategy::Any && !is_of_loops(strategy) && device == "cpu";
  return useless ? fmt::format("--strategy {} is for a GPU, not for cpu", to_string(strategy)) : "";
}

#ifdef RNNC_WITH_CPU

void add_cpu_target(CLI::App& command, CpuTarget& target) {
  command
      .add_option_function<std::string>(
          "--cpu-level",
          [&target](const std::string& name) { target.level = *parse_cpu_level(name); },
          "CPU: instructions that code may use: all that this machine has, AVX2 and FMA "
          "(x86-64-v3), or any x86-64's [host]")
      ->type_name("NAME")
      ->check(one_of({"host", "avx2", "baseline"}));
  command
      .add_option_function<std::string>(
          "--vector-bits",
          [&target](const std::string& text) {
            const Result<VectorBits> bits = parse_vector_bits(utf8::printable(text));
            if (!bits) throw CLI::ValidationError("--vector-bits", bits.error().message);
            target.vectors = *bits;
          },
          "CPU: vectors of 128, 256 or 512 bits; `512,256`: those of products, those of "
          "elementwise work. Chosen by the processor if not given (`rnnc devices` shows it)")
      ->type_name("BITS");
}

std::string check_cpu_target(const CpuTarget& target, const std::string& device) {
  if (device != "cpu") {
    if (target.level != CpuLevel::Host)
      return fmt::format("--cpu-level is for the CPU, not for {}", device);
    return target == CpuTarget{} ? ""
                                 : fmt::format("--vector-bits is for the CPU, not for {}", device);
  }
  const Status fits = check_target(target);
  return fits ? "" : fits.error().message;
}

#else

void add_cpu_target(CLI::App& /*command*/, CpuTarget& /*target*/) {}

std::string check_cpu_target(const CpuTarget& /*target*/, const std::string& /*device*/) {
  return "";
}

#endif

void add_passes(CLI::App& command, PassSet& passes) {
  const auto accept = [&passes](const std::string& text) {
    const Result<PassSet> set = PassSet::parse(text);
    if (!set) throw CLI::ValidationError("--passes", set.error().message);
    passes = *set;
  };
  command
      .add_option_function<std::string>("--passes", accept,
                                        "Optimising passes: all, none, those named (hoist,merge), "
                                        "or all but those (-fuse,-reuse)")
      ->type_name("LIST");
}

Machine choose_machine(Machine::Kind kind) {
  if (kind == Machine::Kind::Cuda) return h200_machine();
  return cpu_machine(static_cast<int>(std::thread::hardware_concurrency()));
}

std::optional<Definition> load_definition(const Source& source) {
  Result<Unit> unit = source.read ? source.read(source.file) : load_unit(source.file);
  if (!unit) {
    report(unit.error());
    return std::nullopt;
  }
  Definition definition{std::move(*unit), utf8::compose(source.cell)};
  const std::vector<std::string> names = definition.unit.definitions();
  if (definition.name.empty() && names.size() == 1) definition.name = names.front();
  const bool good = definition.unit.check(definition.name, source.dims);
  print_diagnostics(definition.unit);
  if (!good) return std::nullopt;

  if (definition.name.empty()) {
    report({names.empty() ? fmt::format("{} defines no cell", quote(source.file))
                          : fmt::format("{} defines {}: choose one with --cell NAME",
                                        quote(source.file), list_names(names))});
    return std::nullopt;
  }
  if (std::ranges::find(names, definition.name) == names.end()) {
    const std::string nearest = nearest_name(definition.name, names);
    report({fmt::format("{} has no cell or network {}{}; it defines {}", quote(source.file),
                        quote(definition.name),
                        nearest.empty() ? "" : fmt::format(" (did you mean `{}`?)", nearest),
                        names.empty() ? "none" : list_names(names))});
    return std::nullopt;
  }
  return definition;
}

std::optional<Graph> lower_definition(Definition& definition, const DimBindings& dims) {
  std::optional<Graph> graph = definition.unit.lower(definition.name, dims);
  // Warnings are printed already.
  if (!graph) print_diagnostics(definition.unit, /*warnings=*/false);
  return graph;
}

Result<Graph> bind_known(const Graph& graph, const DimBindings& dims) {
  DimBindings known = dims;
  for (const DimDecl& dim : graph.dims) {
    if (dim.default_value) known.emplace(dim.name, *dim.default_value);
  }
  // With all dims known, every shape can be checked.
  if (known.size() == graph.dims.size()) return bind_all(graph, dims);
  Graph bound = graph;
  bound.bind(known);
  return bound;
}

Result<Graph> bind_all(const Graph& graph, const DimBindings& dims) {
  const Result<DimBindings> complete = complete_bindings(graph, dims);
  if (!complete) {
    const bool missing = std::ranges::any_of(graph.dims, [&](const DimDecl& dim) {
      return !dim.default_value && !dims.contains(dim.name);
    });
    return fail("{}{}", complete.error().message,
                missing ? "\n  give each with --dim NAME=NUMBER" : "");
  }
  Graph bound = graph;
  bound.bind(*complete);
  return bound;
}

std::optional<Graph> load_bound(const Source& source) {
  std::optional<Definition> definition = load_definition(source);
  if (!definition) return std::nullopt;
  const std::optional<Graph> graph = lower_definition(*definition, source.dims);
  if (!graph) return std::nullopt;
  Result<Graph> bound = bind_all(*graph, source.dims);
  if (bound) return *std::move(bound);
  report(bound.error());
  return std::nullopt;
}

}  // namespace rnnc::tools
