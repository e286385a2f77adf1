/// The command line of a training program: what all of them take.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "examples/training/run.h"

namespace training {

/// Of options that are numbers.
extern const CLI::Validator kPositive;
extern const CLI::Validator kNotNegative;

/// Every option of `options`, whose values now are the defaults. `options` outlives `app`.
void add_options(CLI::App& app, RunOptions& options);

/// Reads the command line, then runs `work`; the process's exit code. Errors are printed with the
/// program's `name` in front.
int run_command(CLI::App& app, const std::string& name, int argc, char** argv,
                const std::function<rnnc::Status()>& work);

}  // namespace training
