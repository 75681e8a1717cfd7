/*!
 * \file cpu_threads.cc
 * \brief Tells TVM how many threads share a kernel.
 *
 * TVM by itself takes half of the logical processors of x86, two of which may be one core. Where
 * each is one, as in most virtual machines and on processors without hyper-threading, half of the
 * cores would have nothing to do. TVM_NUM_THREADS and OMP_NUM_THREADS say another number.
 *
 * And TVM's threads, which wait for the next kernel awake: 300,000 times they ask for it and let
 * others go first, a fifth of a second and longer behind each frame, and before a process may end.
 */
#include "cpu_threads.h"

#include <sched.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "vulkan/csrc/device_options.h"

namespace tvm {
namespace runtime {
namespace threading {
// Of TVM's runtime, whose wheel has no header for them; a TVM without keeps its own number.
__attribute__((weak)) void SetMaxConcurrency(int value);
__attribute__((weak)) int MaxConcurrency();
}  // namespace threading
}  // namespace runtime
}  // namespace tvm

namespace tvm_vision {
namespace runtime {

namespace {

/*! \brief What names the core of a logical processor: all that are one core, as Linux lists them;
 * its own number where Linux says nothing. */
std::string CoreOf(int processor) {
  std::string number = std::to_string(processor);
  for (const char* list : {"core_cpus_list", "thread_siblings_list"}) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + number + "/topology/" + list);
    if (std::string cores; std::getline(file, cores) && !cores.empty()) return cores;
  }
  return number;
}

/*! \brief Cores that this process may use; 0 where Linux does not tell. */
int Cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 0;
  std::set<std::string> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) cores.insert(CoreOf(i));
  }
  return static_cast<int>(cores.size());
}

bool IsSet(const char* variable) { return vulkan::ProcessEnvironment(variable) != nullptr; }

/*! \brief 0 leaves the number to TVM. */
int Wanted() {
  bool said = IsSet("TVM_NUM_THREADS") || IsSet("OMP_NUM_THREADS");
  return said || tvm::runtime::threading::SetMaxConcurrency == nullptr ? 0 : Cores();
}

/*! \brief How often threads ask for the next kernel before they sleep: some milliseconds, more than
 * lies between two kernels of a frame. */
constexpr const char* kAsks = "3000";

}  // namespace

void UseAllCores() {
  static const int wanted = Wanted();
  // TVM keeps the number, and the threads, for each thread that calls kernels.
  static thread_local pid_t told_in = 0;
  const pid_t here = getpid();
  if (told_in == here) return;
  // A child by fork has none of the threads that this one's kernels would wait for, for good.
  const int number = told_in == 0 ? wanted : 1;
  told_in = here;
  using tvm::runtime::threading::SetMaxConcurrency;
  if (number != 0 && SetMaxConcurrency != nullptr) SetMaxConcurrency(number);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace ffi = tvm::ffi;
  // When the library is loaded: TVM's threads look when they begin. What was said before holds.
  setenv("TVM_THREAD_POOL_SPIN_COUNT", kAsks, 0);
  // How many threads share a kernel that this thread calls. TVM's own function of this meaning,
  // runtime.NumThreads, starts its threads, and ties the one that asks to a core where it is alone.
  ffi::reflection::GlobalDef().def("tvm_vision.runtime.cpu_threads", [] {
    UseAllCores();
    using tvm::runtime::threading::MaxConcurrency;
    return MaxConcurrency == nullptr ? 1 : MaxConcurrency();
  });
}

}  // namespace runtime
}  // namespace tvm_vision
