#include "tests/support/case_files.h"

int main(int argc, char** argv) {
  return rnnc::test::run_tests(argc, argv);
}
