/*!
 * \file no_threads.cc
 * \brief Preloaded: threads of Python and of C++'s library cannot be started, as where a container
 * limits them. The driver's own can.
 */
#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <initializer_list>
#include <string>

using Work = void* (*)(void*);

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, Work work,
                              void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, Work, void*);
  static Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  Dl_info info;
  bool known = dladdr(reinterpret_cast<void*>(work), &info) != 0 && info.dli_fname != nullptr;
  std::string library = known ? info.dli_fname : "";
  library.erase(0, library.rfind('/') + 1);
  for (const char* refused : {"python", "libpython", "libstdc++"}) {
    if (library.rfind(refused, 0) == 0) return EAGAIN;
  }
  return create(thread, attributes, work, argument);
}
