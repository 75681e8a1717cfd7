/*!
 * \file cpu_denormals.cc
 * \brief Sets the two bits of x86's MXCSR, and those of TVM's threads.
 */
#include "cpu_denormals.h"

#include <tvm/runtime/c_backend_api.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tvm_vision {
namespace runtime {

namespace {

#if defined(__SSE2__)
/*! \brief Results that are denormal are 0, and so are operands (Intel SDM, volume 1, 10.2.3). */
constexpr unsigned kZeros = 0x8040;

unsigned Mode() { return _mm_getcsr(); }
void SetMode(unsigned mode) { _mm_setcsr(mode); }
#else
constexpr unsigned kZeros = 0;

unsigned Mode() { return 0; }
void SetMode(unsigned) {}
#endif

unsigned With(unsigned mode, bool keep) { return keep ? mode & ~kZeros : mode | kZeros; }

int SetOfSharer(int task, TVMParallelGroupEnv*, void* keep) {
  // The first is who asks, whose mode lasts for a kernel alone.
  if (task != 0) SetMode(With(Mode(), *static_cast<bool*>(keep)));
  return 0;
}

}  // namespace

DenormalsAsZeros::DenormalsAsZeros(bool keep) : keep_(keep) {
  if (keep_ || kZeros == 0) return;
  before_ = Mode();
  SetMode(before_ | kZeros);
}

DenormalsAsZeros::~DenormalsAsZeros() {
  if (!keep_ && kZeros != 0) SetMode(before_);
}

void DenormalsAsZeros::OfSharers(bool keep) {
  // Another of a thread's networks may have said otherwise.
  static thread_local int said = -1;
  if (kZeros == 0 || said == int{keep}) return;
  said = int{keep};
  TVMBackendParallelLaunch(SetOfSharer, &keep, 0);
}

}  // namespace runtime
}  // namespace tvm_vision
