#include "runtime/backend/kernel_cache.h"
#include "tools/command.h"

namespace rnnc::tools {
namespace {

struct Options {
  bool clear = false;
  std::optional<int64_t> most_bytes;
};

Result<std::string> remove_entries(const KernelCache& cache, const Options& options) {
  return (options.clear ? cache.clear() : cache.trim(*options.most_bytes))
      .map([](const KernelCache::Usage& removed) {
        return fmt::format("removed {} entries, {} bytes\n", removed.entries, removed.bytes);
      });
}

Result<std::string> show(const KernelCache& cache) {
  return cache.usage().map([&cache](const KernelCache::Usage& usage) {
    return fmt::format("directory {}\nentries   {}\nbytes     {}\nlimit     {}\n",
                       cache.directory().string(), usage.entries, usage.bytes, cache.limit());
  });
}

int run_cache(const Options& options) {
  const Result<KernelCache> cache = find_cache();
  if (!cache) return report(cache.error());
  const bool removes = options.clear || options.most_bytes;
  const Result<std::string> text = removes ? remove_entries(*cache, options) : show(*cache);
  if (!text) return report(text.error());
  const Status status = print(*text);
  return status ? kOk : report(status.error());
}

}  // namespace

void add_cache(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("cache", "Show or clear the cache of compiled kernels");
  CLI::Option* clear = command->add_flag("--clear", options->clear, "Remove every entry");
  command
      ->add_option("--trim", options->most_bytes,
                   "Remove what was not used for longest until so many bytes are left")
      ->type_name("BYTES")
      ->check(whole_number(0, int64_t{1} << 60))
      ->excludes(clear);
  command->footer(
      "The cache is in $RNNC_CACHE_DIR, else $XDG_CACHE_HOME/rnnc, else ~/.cache/rnnc. Beyond its\n"
      "limit, what was not used for longest goes; clearing it is always safe. It holds code that "
      "is\n"
      "run: where others than you and root may write to it or to the folders around it, it is not\n"
      "used, and rnnc says so.\n\n"
      "Examples:\n"
      "  rnnc cache --clear\n"
      "  rnnc cache --trim 100000000");
  command->callback([options, &exit_code] { exit_code = run_cache(*options); });
}

}  // namespace rnnc::tools
