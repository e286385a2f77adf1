/// What the subcommands of `rnnc` share.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/unit.h"
#include "ir/base/dtype.h"
#include "ir/base/status.h"
#include "ir/graph/dim.h"
#include "ir/graph/graph.h"
#include "passes/options/machine.h"
#include "passes/options/pass_set.h"
#include "runtime/backend/device.h"
#include "runtime/backend/kernel_cache.h"
#include "runtime/program/program.h"
#include "tools/standard_streams.h"
#include "tools/values.h"

namespace rnnc::tools {

enum ExitCode : int { kOk = 0, kError = 1, kUsage = 2 };

// Each adds one subcommand to `app`, which sets `exit_code` when it has run.
void add_check(CLI::App& app, int& exit_code);
void add_fmt(CLI::App& app, int& exit_code);
void add_lsp(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
void add_emit(CLI::App& app, int& exit_code);
/// `read` gives FILE, if it is not read as by other commands.
void add_explain(CLI::App& app, int& exit_code,
                 std::function<Result<Unit>(const std::string& file)> read = {});
void add_run(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_profile(CLI::App& app, int& exit_code);
void add_debug(CLI::App& app, int& exit_code);
void add_compile(CLI::App& app, int& exit_code);
void add_weights(CLI::App& app, int& exit_code);
void add_inputs(CLI::App& app, int& exit_code);
void add_gradcheck(CLI::App& app, int& exit_code);
void add_devices(CLI::App& app, int& exit_code);
void add_cache(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app, int& exit_code);
void add_help(CLI::App& app, int& exit_code);

/// Prints an error as people see it and returns the exit code.
int report(const Error& error);
/// Of a wrong command line; `known` are the words of which one may have been meant by `word`.
int report_usage(const CLI::App& command, std::string_view message, const std::string& word = "",
                 const std::vector<std::string>& known = {});
/// On standard error too: what goes otherwise than asked for.
void report_note(std::string_view note);
void report_notes(const Program& program);

/// As it is typed: "rnnc bench ladder".
std::string full_name(const CLI::App& command);

/// $RNNC_CACHE_DIR, else $XDG_CACHE_HOME/rnnc, else ~/.cache/rnnc; empty if there is none of these.
std::filesystem::path cache_directory();
/// The cache there; an error if there is none.
Result<KernelCache> find_cache();

/// One NAME=FILE of the command line.
struct NamedFile {
  std::string name;
  std::filesystem::path file;
};

/// An option that may be repeated, one NAME=FILE each and each name once. What does not parse is a
/// usage error.
void add_named_files(CLI::App& command, const std::string& flag, std::vector<NamedFile>& files,
                     const std::string& help);
/// Likewise, NAME=NUMBER.
void add_dims(CLI::App& command, DimBindings& dims);

/// A definition of a .rnn file, as the command line chooses it.
struct Source {
  std::string file;
  std::string cell;  // empty: the only one in the file
  DimBindings dims;
  std::function<Result<Unit>(const std::string& file)> read = {};  // else `load_unit`
};
/// The parsed file, which may be standard input.
Result<Unit> load_unit(const std::string& file);
/// FILE, --cell and --dim.
void add_source(CLI::App& command, Source& source);

/// The file, parsed and checked, and the name of the chosen definition. Nothing if there is an
/// error, which is then already printed.
struct Definition {
  Unit unit;
  std::string name;
};
std::optional<Definition> load_definition(const Source& source);
/// Its step Graph; likewise.
std::optional<Graph> lower_definition(Definition& definition, const DimBindings& dims);

/// --batch or --steps: a size, at least 1.
void add_size(CLI::App& command, const std::string& flag, int64_t& size, const std::string& help);
/// --threads.
void add_threads(CLI::App& command, int& threads);
/// --device, for commands that run on one.
void add_device(CLI::App& command, std::string& device);
/// --tf32, for commands with --device.
void add_tf32(CLI::App& command, bool& tf32);
/// --f32-params, likewise.
void add_f32_params(CLI::App& command, bool& f32_params);
/// What is wrong with it together with --dtype, or "".
std::string check_f32_params(bool f32_params, const std::string& dtype);
/// The option of the compiler that it is.
std::optional<DType> param_dtype_of(bool f32_params);
/// --seed of random arrays.
CLI::Option* add_seed(CLI::App& command, uint64_t& seed);
/// -o.
void add_output(CLI::App& command, std::string& file);

/// --dtype.
void add_dtype(CLI::App& command, std::string& dtype, const std::string& help);
/// Its value, which was checked while parsing.
DType dtype_of(const std::string& text);

/// What is wrong with --tf32 together with --dtype and --device, or "".
std::string check_tf32(bool tf32, const std::string& dtype, const std::string& device);
/// Whether a device has code for arrays of this type.
Status check_storage(DType dtype, Device::Kind device);

/// --tune.
void add_tune(CLI::App& command, bool& tune);
/// `--tile-rank`, which excludes an option `--tune` that is there before.
void add_tile_rank(CLI::App& command, int64_t& rank);
/// What is wrong with it together with --device, or "".
std::string check_tune(bool tune, const std::string& device);

/// --strategy.
void add_strategy(CLI::App& command, Strategy& strategy);
/// `--residuals`: one of the choices of passes/gradient/residuals.h.
CLI::Option* add_residuals(CLI::App& command, std::string& residuals);
/// `--checkpoint`: steps from one to the next, at least 1.
CLI::Option* add_checkpoint(CLI::App& command, int64_t& checkpoint);
/// What is wrong with it together with --device, or "".
std::string check_strategy(Strategy strategy, const std::string& device);

/// --cpu-level and --vector-bits.
void add_cpu_target(CLI::App& command, CpuTarget& target);
/// What is wrong with them together with --device, or "".
std::string check_cpu_target(const CpuTarget& target, const std::string& device);

/// --passes.
void add_passes(CLI::App& command, PassSet& passes);

/// What plans are made for where they are not run: this machine's CPU, or an H200.
Machine choose_machine(Machine::Kind kind);

/// Binds the given dims and the defaults. Shapes that depend on others stay symbolic.
Result<Graph> bind_known(const Graph& graph, const DimBindings& dims);
/// Binds all dims; an error says how to give those that are missing.
Result<Graph> bind_all(const Graph& graph, const DimBindings& dims);
/// A source's step Graph with all its dims; or nothing, and what is wrong has been printed.
std::optional<Graph> load_bound(const Source& source);

}  // namespace rnnc::tools
