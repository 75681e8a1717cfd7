/*!
 * \file failing_new.cc
 * \brief Preloaded: memory that C++ asks for is refused, of the calls that come out of libraries of
 * ours alone, one or all from one on.
 *
 * What TVM, the driver or Python make of such a refusal is theirs. A call is ours where the first
 * function that is not of C++'s own library lies in a file whose name says so.
 */
#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr int kMostFrames = 24;

std::atomic<long> calls{0}, first{0}, last{0}, refused{0};
std::atomic<bool> armed{false};
// A backtrace may ask for memory itself.
thread_local bool looking = false;

bool IsOurs(const char* file) {
  const char* slash = std::strrchr(file, '/');
  const char* name = slash != nullptr ? slash + 1 : file;
  return std::strncmp(name, "libtvm_vision", 13) == 0 || std::strcmp(name, "run_model") == 0;
}

/*! \brief Whether the call of operator new comes out of a library of ours. */
bool CalledByUs() {
  void* frames[kMostFrames];
  int count = backtrace(frames, kMostFrames);
  Dl_info here;
  dladdr(reinterpret_cast<void*>(&IsOurs), &here);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) == 0 || info.dli_fname == nullptr) return false;
    if (info.dli_fbase == here.dli_fbase) continue;
    bool standard = std::strstr(info.dli_fname, "libstdc++") != nullptr ||
                    (info.dli_sname != nullptr && (std::strncmp(info.dli_sname, "_ZNSt", 5) == 0 ||
                                                   std::strncmp(info.dli_sname, "_ZNKSt", 6) == 0 ||
                                                   std::strncmp(info.dli_sname, "_ZSt", 4) == 0));
    if (!standard) return IsOurs(info.dli_fname);
  }
  return false;
}

bool Refuse() {
  if (!armed.load(std::memory_order_relaxed) || looking) return false;
  looking = true;
  bool ours = CalledByUs();
  looking = false;
  if (!ours) return false;
  long call = ++calls;
  if (call < first || call > last) return false;
  ++refused;
  return true;
}

void* Give(std::size_t bytes, std::size_t alignment) {
  if (Refuse()) return nullptr;
  if (bytes == 0) bytes = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* Needed(void* given) {
  if (given == nullptr) throw std::bad_alloc();
  return given;
}

struct FromEnvironment {
  FromEnvironment() {
    void* frames[1];
    backtrace(frames, 1);  // loads what it needs
    const char* words = std::getenv("FAILING_NEW");
    if (words == nullptr) return;
    char* rest = nullptr;
    first = std::strtol(words, &rest, 10);
    last = std::strtol(rest + 1, nullptr, 10);
    armed = true;
  }
} from_environment;

}  // namespace

/*! \brief Refuse the calls from one to another, counted from now on; the first is 1. */
extern "C" void failing_new_begin(long from, long to) {
  calls = refused = 0;
  first = from;
  last = to;
  armed = true;
}
extern "C" long failing_new_calls() { return calls; }
extern "C" long failing_new_end() {
  armed = false;
  return refused;
}

void* operator new(std::size_t bytes) { return Needed(Give(bytes, 1)); }
void* operator new[](std::size_t bytes) { return Needed(Give(bytes, 1)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return Needed(Give(bytes, static_cast<std::size_t>(alignment)));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return Needed(Give(bytes, static_cast<std::size_t>(alignment)));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return Give(bytes, 1); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return Give(bytes, 1); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
