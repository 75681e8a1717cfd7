/*!
 * \file check.h
 * \brief Assertions for the native unit tests: all failures of a test are printed, then it fails.
 */
#ifndef TVM_VISION_TESTS_CHECK_H_
#define TVM_VISION_TESTS_CHECK_H_

#include <tvm/ffi/error.h>

#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace check {

inline int& Failures() {
  static int failures = 0;
  return failures;
}

inline std::vector<std::pair<std::string, std::function<void()>>>& Tests() {
  static std::vector<std::pair<std::string, std::function<void()>>> tests;
  return tests;
}

inline int Run() {
  for (const auto& [name, test] : Tests()) {
    int before = Failures();
    try {
      test();
    } catch (const std::exception& error) {
      std::cout << "  threw " << error.what() << "\n";
      ++Failures();
    }
    std::cout << (Failures() == before ? "passed " : "FAILED ") << name << "\n";
  }
  return Failures() == 0 ? 0 : 1;
}

}  // namespace check

#define TEST(name)                                                                    \
  static void name();                                                                 \
  static const bool name##_listed = (check::Tests().emplace_back(#name, name), true); \
  static void name()

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      std::cout << "  " << __FILE__ << ":" << __LINE__ << ": " #condition "\n"; \
      ++check::Failures();                                                      \
    }                                                                           \
  } while (0)

/*! \brief The statement must raise an error of tvm-ffi whose message contains the text. */
#define CHECK_THROWS(statement, text)                                                     \
  do {                                                                                    \
    std::string message = "(nothing)";                                                    \
    try {                                                                                 \
      statement;                                                                          \
    } catch (const tvm::ffi::Error& error) {                                              \
      message = error.message();                                                          \
    }                                                                                     \
    if (message.find(text) == std::string::npos) {                                        \
      std::cout << "  " << __FILE__ << ":" << __LINE__ << ": raised " << message << "\n"; \
      ++check::Failures();                                                                \
    }                                                                                     \
  } while (0)

#endif  // TVM_VISION_TESTS_CHECK_H_
