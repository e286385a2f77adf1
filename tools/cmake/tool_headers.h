// What most sources of tools include of others (precompile.cmake).

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/cmake/library_headers.h"
