#include "passes/options/pass_set.h"

#include <gtest/gtest.h>

namespace rnnc {
namespace {

constexpr std::string_view kNames =
    "simplify, fold, cse, dead-code, hoist, merge, sum, fuse, epilogue, loop, resident, stack, "
    "split, pad, wavefront, reroll, reuse";

TEST(PassSet, ReadsWhatIsWanted) {
  EXPECT_EQ(PassSet::parse("all"), PassSet::all());
  EXPECT_EQ(PassSet::parse("none"), PassSet::none());
  EXPECT_EQ(PassSet::parse("hoist"), PassSet::none().with(Pass::Hoist));
  EXPECT_EQ(PassSet::parse("merge,hoist,merge"),
            PassSet::none().with(Pass::Hoist).with(Pass::Merge));
}

TEST(PassSet, ReadsWhatIsNotWanted) {
  EXPECT_EQ(PassSet::parse("-merge"), PassSet::all().without(Pass::Merge));
  EXPECT_EQ(PassSet::parse("-dead-code,-reuse"),
            PassSet::all().without(Pass::DeadCode).without(Pass::Reuse));
}

TEST(PassSet, RefusesWhatItDoesNotKnow) {
  const auto error = [](std::string_view text) {
    const Result<PassSet> set = PassSet::parse(text);
    return set ? "accepted as " + set->to_string() : set.error().message;
  };
  const auto unknown = [](std::string_view word) {
    return fmt::format("no pass is called `{}`: there are {}, and `all` and `none` of them", word,
                       kNames);
  };
  EXPECT_EQ(error("hoist,merges"), unknown("merges"));
  EXPECT_EQ(error("-merges"), unknown("merges"));
  EXPECT_EQ(error(""), unknown(""));
  EXPECT_EQ(error("hoist,"), unknown(""));
  EXPECT_EQ(error(","), unknown(""));
  EXPECT_EQ(error("-"), unknown(""));
  EXPECT_EQ(error("--hoist"), unknown("-hoist"));
  EXPECT_EQ(error("Hoist"), unknown("Hoist"));
  EXPECT_EQ(error("hoist, merge"), unknown(" merge"));
  EXPECT_EQ(error("\x1b[31m\xff"), unknown("?[31m?"));
  EXPECT_EQ(error("all,hoist"), "`all` stands alone");
  EXPECT_EQ(error("-none"), "`none` stands alone");
  EXPECT_EQ(error("hoist,-merge"),
            "`hoist` and `-merge` do not go together: give the passes there shall be, or with `-` "
            "before each those there shall not be");
  EXPECT_EQ(error("-hoist,merge"),
            "`-hoist` and `merge` do not go together: give the passes there shall be, or with `-` "
            "before each those there shall not be");
}

TEST(PassSet, TextOfEverySetIsReadBack) {
  for (uint32_t bits = 0; bits < 1U << kPassCount; ++bits) {
    PassSet set = PassSet::none();
    for (const PassInfo& info : all_passes()) {
      if ((bits >> static_cast<unsigned>(info.pass) & 1U) != 0) set = set.with(info.pass);
    }
    ASSERT_EQ(PassSet::parse(set.to_string()), set) << set.to_string();
  }
  EXPECT_EQ(PassSet::all().to_string(), "all");
  EXPECT_EQ(PassSet::none().to_string(), "none");
  EXPECT_EQ(PassSet::none().with(Pass::Merge).with(Pass::Hoist).to_string(), "hoist,merge");
}

TEST(PassSet, ListsPassesInOrder) {
  ASSERT_EQ(all_passes().size(), kPassCount);
  for (size_t i = 0; i < all_passes().size(); ++i) {
    EXPECT_EQ(all_passes()[i].pass, static_cast<Pass>(i));
    EXPECT_FALSE(all_passes()[i].summary.empty());
  }
}

}  // namespace
}  // namespace rnnc
