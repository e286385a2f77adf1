#include "runtime/kernel_cache.h"
#include "tools/command.h"

namespace rnnc::tools {
namespace {

int run_cache(bool clear) {
  const Result<KernelCache> cache = find_cache();
  if (!cache) return report(cache.error());
  const Result<KernelCache::Usage> usage = clear ? cache->clear() : cache->usage();
  if (!usage) return report(usage.error());
  const std::string text =
      clear ? fmt::format("removed {} entries, {} bytes\n", usage->entries, usage->bytes)
            : fmt::format("directory {}\nentries   {}\nbytes     {}\n", cache->directory().string(),
                          usage->entries, usage->bytes);
  const Status status = print(text);
  return status ? kOk : report(status.error());
}

}  // namespace

void add_cache(CLI::App& app, int& exit_code) {
  auto clear = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("cache", "Show or clear the cache of compiled kernels");
  command->add_flag("--clear", *clear, "Remove every entry");
  command->footer(
      "The cache is in $RNNC_CACHE_DIR, else $XDG_CACHE_HOME/rnnc, else ~/.cache/rnnc. Clearing "
      "it\n"
      "is always safe.\n\nExample:\n  rnnc cache --clear");
  command->callback([clear, &exit_code] { exit_code = run_cache(*clear); });
}

}  // namespace rnnc::tools
