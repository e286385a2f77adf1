/// What a check leaves for the next one of nearly the same text: which definitions and fns had
/// nothing wrong with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace rnnc {

/// Items are told apart by keys, which hold all that a check of the item looks at
/// (frontend/item_keys.h).
class CheckMemory {
 public:
  using Id = uint32_t;
  static constexpr Id kNone = 0;

  /// A check begins. What the last one did not ask for is forgotten.
  void begin() {
    std::unordered_map<Id, int> kept;
    for (const auto& [key, id] : now_) {
      if (const auto cost = cost_of_clean(id)) kept.emplace(id, *cost);
    }
    clean_ = std::move(kept);
    last_ = std::exchange(now_, {});
  }

  /// Equal keys have one id, also in the check before.
  Id id_of(std::string key) {
    const auto [place, fresh] = now_.try_emplace(std::move(key));
    if (!fresh) return place->second;
    const auto known = last_.find(place->first);
    return place->second = known == last_.end() ? ++newest_ : known->second;
  }

  /// What the item's check, which found nothing, took of the budget (Context::enter).
  std::optional<int> cost_of_clean(Id id) const {
    const auto found = clean_.find(id);
    return found == clean_.end() ? std::nullopt : std::optional(found->second);
  }
  void add_clean(Id id, int cost) {
    if (id != kNone) clean_.insert_or_assign(id, cost);
  }

 private:
  std::unordered_map<std::string, Id> last_, now_;
  std::unordered_map<Id, int> clean_;
  Id newest_ = kNone;
};

}  // namespace rnnc
