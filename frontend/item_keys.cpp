// 1. What is imported counts as one: every key holds its id.
// 2. An item of the first file reaches from the token in front of its name to the next item's. Its
//    key is this text, and the ids of the file's items that a name in it stands for: those may be
//    called, or hide fns of the prelude.
#include "frontend/item_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "frontend/syntax/utf8.h"

namespace rnnc {
namespace {

constexpr int kDeepest = 500;  // items, each naming the next

class KeyMaker {
 public:
  KeyMaker(const std::vector<ast::Module>& modules, const std::vector<SourceFile>& files,
           const std::vector<Token>& tokens, CheckMemory& memory)
      : modules_(modules), files_(files), tokens_(tokens), memory_(memory) {}

  ItemIds run() {
    imports_ = memory_.id_of(imports_key());
    find_items();
    ItemIds ids;
    for (size_t at = 0; at < items_.size(); ++at) note(*items_[at].item, id_of(at, 0), ids);
    for (size_t file = 1; file + 1 < modules_.size(); ++file) {
      const std::vector<ast::Item>& items = modules_[file].items;
      for (size_t at = 0; at < items.size(); ++at) {
        note(items[at], memory_.id_of(fmt::format("{} {} {}", imports_, file, at)), ids);
      }
    }
    return ids;
  }

 private:
  enum class Progress : uint8_t { None, Running, Done };
  struct OwnItem {
    const ast::Item* item;
    size_t begin = 0, end = 0;  // tokens
    Progress progress = Progress::None;
    CheckMemory::Id id = CheckMemory::kNone;
  };

  /// Consts are checked anew, since what they come to is asked for.
  static void note(const ast::Item& item, CheckMemory::Id id, ItemIds& ids) {
    if (const auto* function = std::get_if<ast::Function>(&item)) ids[function] = id;
    if (const auto* definition = std::get_if<ast::Definition>(&item)) ids[definition] = id;
  }

  /// The texts of what is imported, and what each file imports.
  std::string imports_key() const {
    std::string key = "imports";
    for (size_t file = 0; file + 1 < modules_.size(); ++file) {
      if (file > 0) key.append("\0", 1).append(files_[file].text()).append("\0", 1);
      for (const ast::Item& item : modules_[file].items) {
        if (const auto* import = std::get_if<ast::Import>(&item)) {
          key += fmt::format(" {}", import->file);
        }
      }
    }
    return key;
  }

  void find_items() {
    for (const ast::Item& item : modules_.front().items) {
      const ast::Identifier* name = ast::name_of(item);
      if (!name) continue;
      const auto at = std::ranges::lower_bound(tokens_, name->location.begin, {},
                                               [](const Token& t) { return t.location.begin; });
      const auto begin = static_cast<size_t>(std::max<ptrdiff_t>(at - tokens_.begin() - 1, 0));
      if (!items_.empty()) items_.back().end = begin;
      named_[name->text].push_back(items_.size());
      items_.push_back({&item, begin, tokens_.size()});
    }
  }

  CheckMemory::Id id_of(size_t at, int depth) {
    if (items_[at].progress != Progress::None || depth > kDeepest) return items_[at].id;
    items_[at].progress = Progress::Running;
    const std::optional<std::string> key = key_of(at, depth);
    if (key) items_[at].id = memory_.id_of(*key);
    items_[at].progress = Progress::Done;
    return items_[at].id;
  }

  std::optional<std::string> key_of(size_t at, int depth) {
    std::vector<size_t> uses;
    for (size_t token = items_[at].begin; token < items_[at].end; ++token) {
      if (tokens_[token].kind != TokenKind::Name) continue;
      const auto found = named_.find(spelling_of(tokens_[token].text));
      if (found == named_.end()) continue;
      for (const size_t used : found->second) {
        if (used != at && std::ranges::find(uses, used) == uses.end()) uses.push_back(used);
      }
    }
    std::string key = fmt::format("{}", imports_);
    for (const size_t used : uses) {
      const CheckMemory::Id id = id_of(used, depth + 1);
      if (id == CheckMemory::kNone) return std::nullopt;
      key += fmt::format(" {}", id);
    }
    const std::string_view text = files_.front().text();
    const size_t begin = tokens_[items_[at].begin].location.begin;
    const size_t end =
        items_[at].end < tokens_.size() ? tokens_[items_[at].end].location.begin : text.size();
    return key.append("\0", 1).append(text.substr(begin, end - begin));
  }

  /// As the parser has it.
  std::string spelling_of(std::string_view name) {
    const bool plain = std::ranges::all_of(name, [](char c) { return (c & 0x80) == 0; });
    return plain ? std::string(name) : utf8::compose(name);
  }

  const std::vector<ast::Module>& modules_;
  const std::vector<SourceFile>& files_;
  const std::vector<Token>& tokens_;
  CheckMemory& memory_;
  CheckMemory::Id imports_ = CheckMemory::kNone;
  std::vector<OwnItem> items_;
  std::unordered_map<std::string, std::vector<size_t>> named_;
};

}  // namespace

ItemIds item_ids(const std::vector<ast::Module>& modules, const std::vector<SourceFile>& files,
                 const std::vector<Token>& tokens, CheckMemory& memory) {
  return KeyMaker(modules, files, tokens, memory).run();
}

}  // namespace rnnc
