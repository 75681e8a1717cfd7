/*!
 * \file process_end.cc
 * \brief Threads that come back from C++ into an interpreter that is ending.
 *
 * Python ends such a thread by unwinding its stack, where it asks for the interpreter's lock. Out
 * of a call through tvm_ffi that meets C++ which lets no exception pass, and std::terminate would
 * take the whole process with it, whose work is done.
 */
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <mutex>

namespace {

pthread_t ending;
std::terminate_handler before = nullptr;

[[noreturn]] void OnTerminate() {
  // An exception that nobody catches is another matter, and so is the thread that ends the process.
  bool unwound = std::current_exception() == nullptr && !pthread_equal(pthread_self(), ending);
  while (unwound) pause();
  if (before != nullptr) before();
  std::abort();
}

}  // namespace

/*! \brief This thread is about to end the process: others whose stack is unwound stay where they
 * are until it has. */
extern "C" __attribute__((visibility("default"))) void tvm_vision_process_ends() {
  static std::once_flag once;
  std::call_once(once, [] {
    ending = pthread_self();
    before = std::set_terminate(OnTerminate);
  });
}
