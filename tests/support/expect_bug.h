/// Broken invariants in tests.
#pragma once

#include <gtest/gtest.h>

#include <regex>

#include "ir/base/status.h"

/// The statement throws an InternalError in whose words the regular expression is found.
#define EXPECT_BUG(statement, words)                                                 \
  try {                                                                              \
    static_cast<void>(statement);                                                    \
    ADD_FAILURE() << "no bug in `" #statement "`";                                   \
  } catch (const rnnc::InternalError& error) {                                       \
    EXPECT_TRUE(std::regex_search(error.what(), std::regex(words))) << error.what(); \
  }
